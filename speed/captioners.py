"""Measure tokens a second of ``hf`` against a loop that captions one image after another.

Run by hand; the model is a LLaVA-1.5 with random weights, written to a temporary folder, and the images are noise::

    python speed/captioners.py
    python speed/captioners.py --size llava-7b --device cuda --images 256 --tokens 128

On a GPU ``llava-7b`` is what is measured unless another size is named.

Both write the same number of tokens of every image, in the same process, on the same weights. ``llava-7b`` has the
sizes of LLaVA-1.5 7B; it needs 15 GB of disk, and as much of the device's memory and more.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

BAR = 5.0
PROMPT = "Describe this image in detail."
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' %}{{ '<image>\\n' }}{% else %}{{ content['text'] + ' ' }}{% endif %}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
_SIZES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "small": (
        {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
         "image_size": 112, "patch_size": 14},
        {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8, "num_attention_heads": 4,
         "vocab_size": 1024},
    ),
    "llava-7b": (
        {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
         "image_size": 336, "patch_size": 14},
        {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
         "vocab_size": 32064},
    ),
}  # fmt: skip
"""Of the image tower and of the language model."""


def write_model(folder: Path, size: str, device: str) -> None:
    """Write a LLaVA-1.5 with random weights and its processor; bfloat16 on a GPU."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    vision, text = _SIZES[size]
    names = ["<s>", "</s>", "<pad>", "<image>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>",  # noqa: S106
        extra_special_tokens=["<image>"],
    )  # fmt: skip
    processor = LlavaProcessor(
        CLIPImageProcessor(
            size={"shortest_edge": vision["image_size"]},
            crop_size={"height": vision["image_size"], "width": vision["image_size"]},
        ),
        fast,
        patch_size=vision["patch_size"],
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_TEMPLATE,
    )
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**vision),
        text_config=LlamaConfig(**text, max_position_embeddings=4096, bos_token_id=0, eos_token_id=1, pad_token_id=2),
        image_token_id=3,
        dtype="bfloat16" if device.startswith("cuda") else "float32",
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(config.dtype)
    try:
        with torch.device(device):
            model = LlavaForConditionalGeneration(config)
    finally:
        torch.set_default_dtype(before)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = 1, 2
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def write_images(folder: Path, count: int) -> list[Path]:
    """Write JPEG files of 640 x 480 pixels."""
    from PIL import Image

    generator = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for path in paths:
        coarse = Image.fromarray(generator.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        coarse.resize((640, 480)).save(path)
    return paths


def one_by_one(model: Any, processor: Any, paths: list[Path], tokens: int) -> list[str]:
    """Caption images as the library's own example does."""
    import torch
    from PIL import Image

    content = [{"type": "image"}, {"type": "text", "text": PROMPT}]
    text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    captions = []
    for path in paths:
        inputs = processor(images=Image.open(path).convert("RGB"), text=text, return_tensors="pt")
        inputs = inputs.to(model.device, model.dtype)
        with torch.inference_mode():
            ids = model.generate(**inputs, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
        start = inputs["input_ids"].shape[1]
        captions.append(processor.tokenizer.decode(ids[0, start:], skip_special_tokens=True))
    return captions


def in_batches(captioner: Any, paths: list[Path], tokens: int, batch_size: int | None) -> list[str]:
    """Caption images by the adapter."""
    from capbench.adapters import CaptionRequest, ImageHandle

    settings = {"max_new_tokens": tokens, "min_new_tokens": tokens}
    requests = [
        CaptionRequest(str(number), None, PROMPT, settings, pixels=ImageHandle(path))
        for number, path in enumerate(paths)
    ]
    captions: dict[int, str] = {}
    for batch in captioner.stream(requests, batch_size):
        if batch.failures:
            raise SystemExit(f"failed: {batch.failures}")
        captions |= {position: caption.text for position, caption in batch.captions.items()}
    return [captions[number] for number in range(len(paths))]


def main() -> None:
    """Write model and images, caption both ways, print tokens a second."""
    import torch

    from capbench.adapters.captioners.hf import HfCaptioner

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=_SIZES, default="llava-7b" if torch.cuda.is_available() else "small")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, default=32, metavar="N")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="tokens of each caption (64)")
    parser.add_argument("--batch_size", type=int, metavar="N", help="images at once; the adapter's own by default")
    parser.add_argument("--loop_images", type=int, metavar="N", help="images of the loop (a quarter of them)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model", options.size, options.device)
        paths = write_images(folder, options.images)
        captioner = HfCaptioner(str(folder / "model"), device=options.device)
        some = paths[: options.loop_images or max(2, options.images // 4)]
        # Both have run once before they are timed.
        one_by_one(captioner.model, captioner.processor, paths[:1], 4)
        in_batches(captioner, paths[:2], 4, options.batch_size)
        start = time.perf_counter()
        single = one_by_one(captioner.model, captioner.processor, some, options.tokens)
        loop = len(some) * options.tokens / (time.perf_counter() - start)
        start = time.perf_counter()
        batched = in_batches(captioner, paths, options.tokens, options.batch_size)
        adapter = len(paths) * options.tokens / (time.perf_counter() - start)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    named = torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device
    same = sum(a == b for a, b in zip(single, batched, strict=False))
    print(
        f"{options.size} on {named}, {cores} cores, {options.tokens} tokens an image: loop {loop:,.0f} tokens/s, "
        f"hf {adapter:,.0f} tokens/s, {adapter / loop:.1f} times (bar on a GPU: {BAR:g}); "
        f"{same} of {len(single)} captions are the same"
    )


if __name__ == "__main__":
    main()
