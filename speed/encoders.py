"""Time features of images and texts against the usual pipeline and the towers alone, in the same run.

Random weights of the real sizes, put into a checkpoint and loaded as any other. Images are JPEG files of about
500 pixels: those of Flickr8k where ``CAPBENCH_DATA`` has them, else made here. On a GPU ViT-B/32 and ViT-L/14 are
measured with 20,000 files in fp16, else ViT-B/32 with 2,000 in fp32. Run by hand::

    python speed/encoders.py
    python speed/encoders.py --device cuda --architecture ViT-L-14 --images 20000 --dtype bf16
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import open_clip
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from capbench.adapters import ImageHandle
from capbench.adapters.encoders.open_clip import OpenClipEncoder
from capbench.adapters.images.pipeline import default_workers

USUAL_WORKERS, USUAL_BATCH = 8, 64
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def jpeg_files(folder: Path, count: int) -> list[Path]:
    """Return ``count`` different JPEG files in ``folder``, each with bytes of its own."""
    root = Path(os.environ.get("CAPBENCH_DATA", "")) / "flickr8k/images"
    photographs = sorted(root.glob("*.jpg")) or [_photograph(folder / f"made{n}.jpg", n) for n in range(64)]
    files = []
    for number in range(count):
        content = photographs[number % len(photographs)].read_bytes()
        # A comment makes another file of it, for the store and for the disk's cache.
        comment = b"\xff\xfe\x00\x06" + number.to_bytes(4, "big")
        files.append(folder / f"{number}.jpg")
        files[-1].write_bytes(content[:2] + comment + content[2:])
    return files


def _photograph(path: Path, seed: int) -> Path:
    noise = np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
    return path


class Usual(Dataset):
    """What scripts of the field do: open, transform, one tensor an image."""

    def __init__(self, files: list[Path], transform: Callable[[Image.Image], torch.Tensor]) -> None:
        self.files = files
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(Image.open(self.files[index]).convert("RGB"))


def usual_pipeline(model, transform, files: list[Path], device: str, dtype: torch.dtype) -> float:
    """Return images a second of a DataLoader with 8 workers, batches of 64, features copied back each time."""
    workers = min(USUAL_WORKERS, default_workers())
    loader = DataLoader(Usual(files, transform), batch_size=USUAL_BATCH, num_workers=workers)
    found = []
    start = time.perf_counter()
    with torch.no_grad():
        for batch in loader:
            found.append(model.encode_image(batch.to(device, dtype)).cpu().numpy())
    return sum(map(len, found)) / (time.perf_counter() - start)


def tower_alone(forward: Callable[[], object], count: int, device: str, seconds: float = 5.0) -> float:
    """Return inputs a second of a forward pass over ``count`` inputs that lie on the device."""
    with torch.inference_mode():
        forward()
        _wait(device)
        start, passes = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            forward()
            passes += 1
            _wait(device)
    return count * passes / (time.perf_counter() - start)


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def ours(encoder: OpenClipEncoder, files: list[Path]) -> tuple[float, np.ndarray]:
    """Return images a second, and unit features ``[n, d]``."""
    start = time.perf_counter()
    rows: dict[int, np.ndarray] = {}
    for batch in encoder.images([ImageHandle(file) for file in files]):
        rows |= batch.vectors
    rate = len(files) / (time.perf_counter() - start)
    features = np.stack([rows[n] for n in range(len(files))]).astype(np.float32)
    return rate, features / np.linalg.norm(features, axis=1, keepdims=True)


def captions(count: int) -> list[str]:
    """Return captions of 6 to 24 common words, each different."""
    generator = np.random.default_rng(0)
    words = np.array("a the dog man red blue two in of with street beach runs holding near large".split())  # noqa: SIM905
    return [f"{' '.join(generator.choice(words, generator.integers(6, 25)))} {n}" for n in range(count)]


def main() -> None:
    """Print rates and ratios."""
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    towers = ["ViT-B-32", "ViT-L-14"] if on_gpu else ["ViT-B-32"]
    parser.add_argument("--architecture", nargs="+", default=towers)
    parser.add_argument("--dtype", default="fp16" if on_gpu else "fp32", choices=DTYPES)
    parser.add_argument("--images", type=int, default=20_000 if on_gpu else 2000)
    parser.add_argument("--texts", type=int, default=100_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        files = jpeg_files(Path(name), options.images)
        for architecture in options.architecture:
            measure(architecture, options, Path(name), files)


def measure(architecture: str, options: argparse.Namespace, folder: Path, files: list[Path]) -> None:
    """Print rates and ratios of one architecture."""
    device, dtype = options.device, DTYPES[options.dtype]
    model, _, transform = open_clip.create_model_and_transforms(architecture, precision="fp32")
    torch.save(model.state_dict(), folder / "random.pt")
    model = model.to(device, dtype).eval()

    def encoder(transform: str, reading: str) -> OpenClipEncoder:
        return OpenClipEncoder(
            pretrained=str(folder / "random.pt"),
            architecture=architecture,
            device=device,
            dtype=options.dtype,
            transform=transform,
            reading=reading,
        )

    print(f"{architecture} {options.dtype} on {machine(device)}")
    print(f"{len(files):,} JPEG files, {options.texts:,} captions")
    size = model.visual.image_size[0]
    batch = 256 if device.startswith("cuda") else 32
    pixels = torch.rand(batch, 3, size, size, device=device, dtype=dtype)
    alone = tower_alone(lambda: model.encode_image(pixels), batch, device)
    usual = usual_pipeline(model, transform, files, device, dtype)
    print(f"image tower alone, batches of {batch}: {alone:,.0f} images/s")
    print(f"usual pipeline:            {usual:8,.0f} images/s")
    features = {}
    for kind, reading in (("exact", "threads"), ("exact", "processes"), ("fast", "threads")):
        made = encoder(kind, reading)
        ours(made, files[:batch])
        rate, features[kind] = ours(made, files)
        what = f"{kind} by {reading}"
        print(f"capbench {what:18}: {rate:8,.0f} images/s, {rate / usual:.2f} x usual, {rate / alone:.2f} x tower")
    cosine = (features["exact"] * features["fast"]).sum(axis=1)
    print(f"fast against exact: cosine of features {cosine.mean():.6f} on average, {cosine.min():.6f} at least")

    texts = captions(options.texts)
    made = encoder("exact", "threads")
    list(made.texts(texts[:2048]))
    start = time.perf_counter()
    count = sum(len(one.vectors) for one in made.texts(texts))
    rate = count / (time.perf_counter() - start)
    limit = text_limit(model, texts, device, 4 * batch)
    print(f"text tower alone, sorted by length: {limit:,.0f} texts/s")
    print(f"capbench texts: {rate:,.0f} texts/s, {rate / limit:.2f} x tower\n")


def machine(device: str) -> str:
    """Return what a figure was measured on."""
    named = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    return f"{named}, {default_workers()} of {os.cpu_count()} cores, torch {torch.__version__}"


def text_limit(model, texts: list[str], device: str, batch: int) -> float:
    """Return texts a second of forward passes alone: token ids on the device, sorted, each batch cut to its longest."""
    sample = texts[: 32 * batch] if device.startswith("cuda") else texts[: 4 * batch]
    ids = open_clip.SimpleTokenizer()(sample)
    order = (ids != 0).sum(dim=1).argsort(descending=True)
    batches = [ids[rows][:, : int((ids[rows[0]] != 0).sum())].to(device) for rows in order.split(batch)]

    def forward() -> None:
        for rows in batches:
            length = rows.shape[1]
            states = model.token_embedding(rows) + model.positional_embedding[:length]
            states = model.ln_final(model.transformer(states, attn_mask=model.attn_mask[:length, :length]))
            _ = states[torch.arange(len(rows), device=device), rows.argmax(dim=1)] @ model.text_projection

    return tower_alone(forward, len(sample), device)


if __name__ == "__main__":
    main()
