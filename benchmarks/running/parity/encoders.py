"""Image transforms, CLIP's tokens, and the metrics of dual encoders, on tiny weights that every machine draws alike."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ....adapters import Encoder, ImageHandle, VideoHandle
from ....errors import AdapterError
from ....metrics import Context, build_metric
from ....metrics.golden import golden_items, read_golden
from ....metrics.golden.tiny_inputs import (
    ARCHITECTURE,
    draw_pictures,
    save_checkpoint,
    tiny_lora_state_dict,
    tiny_state_dict,
    weights_digest,
)
from .components import Component, Values

_TOLERANCE = 1e-5
_PARTS_OF_EMSCORE = ("precision", "recall", "f1", "coarse")
_CLIP, _PAC = "jmhessel/clipscore 10364652", "aimagelab/pacscore bfbc488e"


def components() -> Iterator[Component]:
    """Yield the components."""
    yield Component("CLIP's image transform", "openai/CLIP d05afc43, in levels of 0 to 255", 0.01, _levels)
    yield Component("CLIP's tokens", "open_clip_torch 3.3.0, ftfy 6.3.1", 0, _tokens)
    some = "28 of 40 items: those whose pictures may be passed on"
    for metric, label, run, source in (
        ("clip_s", "CLIP-S", "clip", _CLIP),
        ("refclip_s", "RefCLIP-S", "clip", _CLIP),
        ("pac_s", "PAC-S", "pac", _PAC),
        ("refpac_s", "RefPAC-S", "pac", _PAC),
        ("refpac_s", "RefPAC-S, LoRA", "pac_lora", _PAC),
    ):
        yield Component(label, source, _TOLERANCE, _cosines(metric, run), lambda run=run: _require_weights(run), some)
    for metric, label, against in (("emscore", "EMScore", "video"), ("emscore_ref", "EMScoreRef", "both")):
        yield Component(
            label, "ShiYaya/emscore 20bce0ae", _TOLERANCE, _frames(metric, against), lambda: _require_weights("clip")
        )
    yield Component("MID", "naver-ai/mid.metric 08138654", 1e-9, _information)


@cache
def _weights(run: str) -> dict[str, Any]:
    if run == "pac_lora":
        return tiny_lora_state_dict(2)
    return {name: value for name, value in tiny_state_dict(int(run == "pac")).items() if name != "attn_mask"}


def _require_weights(run: str) -> None:
    if weights_digest(_weights(run)) != read_golden("clip_scores")["weights"][run]:
        import torch

        raise AdapterError(f"torch {torch.__version__} draws other weights than those of the golden values")


@contextmanager
def _encoder(run: str) -> Iterator[tuple[Encoder, Path]]:
    """Give the encoder with the weights of a run, and a folder."""
    from ....adapters.encoders.open_clip import OpenClipEncoder
    from ....adapters.encoders.pac import PacEncoder

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = str(save_checkpoint(_weights(run), folder / "weights.pt"))
        if run == "clip":
            architecture = folder / "tiny.json"
            architecture.write_text(json.dumps(ARCHITECTURE), encoding="utf-8")
            yield OpenClipEncoder(checkpoint, str(architecture), device="cpu", dtype="fp32"), folder
        else:
            quick = True if run == "pac" else None
            yield PacEncoder(checkpoint, quick_gelu=quick, device="cpu", dtype="fp32"), folder


def _cosines(name: str, run: str) -> Callable[[], Values]:
    def compute() -> Values:
        golden = read_golden("clip_scores")["drawn"]
        with _encoder(run) as (encoder, folder):
            files = draw_pictures(folder)
            pictures, candidates, references = zip(*golden["items"], strict=True)
            items = golden_items(candidates, references, images=[ImageHandle(files[picture]) for picture in pictures])
            scores = build_metric(name, {}).score(items, Context(encoder=encoder))
        return Values.of_numbers(scores.values, golden[run]["harmonic_mean" if name.startswith("ref") else "image"])

    return compute


def _frames(name: str, against: str) -> Callable[[], Values]:
    def compute() -> Values:
        golden = read_golden("emscore")
        ours, released = [], []
        with _encoder("clip") as (encoder, folder):
            corpus = folder / "train.json"
            corpus.write_text(json.dumps({"video": golden["corpus"]}), encoding="utf-8")
            weighed: dict[str, Mapping[str, Any]] = {"idf_off": {}, "idf_on": {"idf": str(corpus), "idf_max_words": 66}}
            files = {name: _features(folder / f"{name}.npy", *made) for name, made in golden["videos"].items()}
            for idf, settings in weighed.items():
                for number, (video, candidate, references, frames) in enumerate(golden["items"]):
                    items = golden_items([candidate], [references], images=[VideoHandle(files[video])])
                    metric = build_metric(name, {"frames": frames, **settings})
                    scores = metric.score(items, Context(encoder=encoder))
                    ours.append([*(scores.parts[one][0] for one in _PARTS_OF_EMSCORE), scores.values[0]])
                    released.append(golden[idf][number][against])
        return Values.of_numbers(ours, released)

    return compute


def _features(path: Path, frames: int, seed: int = 1) -> Path:
    """Write the unit vectors that stand for the frames of a video."""
    features = np.random.default_rng(seed).standard_normal((frames, 32)).astype(np.float32)
    np.save(path, features / np.linalg.norm(features, axis=1, keepdims=True))
    return path


def _levels() -> Values:
    import torch

    from ....adapters.encoders.open_clip_transform import open_clip_transform

    golden = read_golden("clip_inputs")["levels"]
    transform = open_clip_transform(
        {"size": 32, "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}, "exact", torch.device("cpu")
    )
    with tempfile.TemporaryDirectory() as name:
        files = draw_pictures(Path(name))
        read = [transform.read(ImageHandle(files[picture])) for picture in golden]
    pixels, failed = transform.collate(read)
    if failed:
        raise AdapterError(f"pictures cannot be read: {failed}")
    released = [np.frombuffer(base64.b64decode(one), dtype=np.uint8) for one in golden.values()]
    return Values.of_numbers((255 * pixels["pixel_values"]).flatten(1).numpy(), released)


def _tokens() -> Values:
    from ....adapters.encoders.clip_tokens import clip_token_ids, clip_tokenizer

    texts, ids = zip(*read_golden("clip_inputs")["tokens"], strict=True)
    return Values.of_answers((one[1:-1] for one in clip_token_ids(clip_tokenizer(), texts)), ids)


def _information() -> Values:
    from ....metrics.mid import pointwise_information

    golden, generator = read_golden("mid"), np.random.default_rng(7)
    x = generator.normal(size=(40, 5))
    y = 0.7 * x + generator.normal(size=(40, 5))
    made = 0.5 * x + generator.normal(size=(40, 5))
    x, y, made = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y, made))
    ours = []
    for candidate in (made, x):
        information, distance = pointwise_information(x, y, candidate, y)
        ours.append([*(information + distance), information + distance.sum() / 39])
    released = [[*golden[kind]["pointwise"], golden[kind]["value"]] for kind in ("made", "real")]
    return Values.of_numbers(ours, released)
