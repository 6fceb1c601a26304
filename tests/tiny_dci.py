"""Makes a small copy of DCI in the released layout: pictures of numpy, and texts that are made up.

A test imports this module (``from tiny_dci import make_tiny_dci``). The same call always makes the same files.
"""

import json
import math
from pathlib import Path
from typing import Any

_COLOURS = ("red", "blue", "green", "yellow", "black", "white", "purple")
_THINGS = ("boat", "tower", "dog", "window", "lamp", "table", "bridge", "flower", "wheel", "sign", "roof")
_PLACES = ("in the middle", "near the wall", "by the water", "under a tree", "on the left", "in the shade")
_RESTS = (".", ", seen today.", ", and more.", ", again.", ", it seems.", " here.", " there.")

ENTRIES = {
    "sa_1": ["base", "m-7-sc", "m-2-sc", "m-10-sc", "m-4-sc"],
    "sa_2": ["base", "m-0-sc"],
    "sa_3": ["base", "m-1-sc", "m-2-sc", "m-3-sc", "m-4-sc", "m-5-sc", "m-6-sc", "m-7-sc", "m-8-sc", "m-9-sc"],
    "sa_4": ["base", "m-a-sc", "m-b-sc"],
    "sa_5": ["base", "m-0-sc", "m-1-sc", "m-2-sc", "m-3-sc"],
}
"""What the released code makes of the test split with crops: the entries of each image, in order. 25 in all, so
that blocks of eight spill over images and the last block holds one."""

# Left, top, right, bottom of each mask; those marked None are smaller than 224 pixels in one direction.
_SIZES = {"sa_1": (520, 400), "sa_2": (300, 460), "sa_3": (610, 500), "sa_4": (420, 330), "sa_5": (480, 480)}
_MASKS = {
    "sa_1": {
        "7": (0, 0, 260, 240), "3": (5, 5, 228, 300), "2": (200, 100, 519, 399), "10": (150, 60, 374, 284),
        "4": (290, 20, 515, 390),
    },
    "sa_2": {"0": (10, 200, 299, 459), "1": (0, 0, 299, 223)},
    "sa_3": {str(n): (n * 30, n * 17, n * 30 + 230 + 9 * n, n * 17 + 250 - 2 * n) for n in range(1, 10)},
    "sa_4": {"a": (30, 30, 400, 300), "b": (60, 20, 290, 310), "c": (0, 0, 100, 100)},
    "sa_5": {"0": (0, 0, 240, 230), "1": (240, 0, 479, 230), "2": (0, 230, 239, 479), "3": (200, 210, 470, 470)},
}  # fmt: skip


def make_tiny_dci(folder: Path) -> Path:
    """Write the data set into a folder that does not exist yet, and return it.

    Among the entries: two with equal captions in a block; a negative that equals the caption; two hardest
    negatives with equal scores; entries with fewer than five captions, one of them a text instead of a list. The
    test split also has three images that the released code drops.
    """
    (folder / "photos").mkdir(parents=True)
    (folder / "complete").mkdir()
    for number, image in enumerate(_SIZES):
        _write_photo(folder / "photos" / f"{image}.png", *_SIZES[image], number)
        _write(folder, image, _annotation(image, number))
    _special_cases(folder)
    splits = {
        "train": ["sa_4.json"],
        "valid": ["sa_2.json"],
        "test": [
            "sa_1.json", "no_summaries.json", "sa_2.json", "sa_3.json", "no_photo.json", "sa_4.json",
            "base_only.json", "sa_5.json",
        ],
    }  # fmt: skip
    (folder / "splits.json").write_text(json.dumps(splits), encoding="utf-8")
    return folder


def edit(folder: Path, name: str, **keys: Any) -> None:
    """Set keys of an image's annotation; None takes a key away."""
    content = _load(folder, name) | keys
    _write(folder, name, {key: value for key, value in content.items() if value is not None})


def _load(folder: Path, image: str) -> dict[str, Any]:
    return json.loads((folder / "complete" / f"{image}.json").read_text(encoding="utf-8"))


def _write(folder: Path, image: str, content: dict[str, Any]) -> None:
    (folder / "complete" / f"{image}.json").write_text(json.dumps(content), encoding="utf-8")


def _special_cases(folder: Path) -> None:
    first, third, fourth = (_load(folder, image) for image in ("sa_1", "sa_3", "sa_4"))
    first["negatives"]["base"]["swaps"][0] = first["summaries"]["base"][0]
    third["summaries"]["m-2-sc"] = third["summaries"]["m-2-sc"][:4]
    # In the block that they share m-8 would be found by its picture, were not an equal caption before it.
    third["summaries"]["m-5-sc"] = third["summaries"]["m-8-sc"][0]
    scores = third["clip_scores"]["base"]
    scores["layout_1"] = scores["basic_0"] = max(scores.values()) + 1
    for image, content in (("sa_1", first), ("sa_3", third)):
        _write(folder, image, content)
    alone = {**fourth, **{key: {"base": fourth[key]["base"]} for key in ("negatives", "clip_scores")}}
    _write(folder, "base_only", alone)
    _write(folder, "no_summaries", {key: value for key, value in fourth.items() if key != "summaries"})
    _write(folder, "no_photo", {**fourth, "image": "gone.png"})


def _annotation(image: str, number: int) -> dict[str, Any]:
    masks = {
        key: {
            "idx": key, "outer_mask": "", "mask_quality": 0, "label": f"part {key}", "caption": f"A part {key}.",
            "parent": -1, "requirements": [], "area": (right - left) * (bottom - top),
            "bounds": {"topLeft": {"x": left, "y": top}, "bottomRight": {"x": right, "y": bottom}},
        }
        for key, (left, top, right, bottom) in _MASKS[image].items()
    }  # fmt: skip
    summaries, negatives, scores = {}, {}, {}
    for place, key in enumerate(["base", *(f"m-{mask}-sc" for mask in masks)]):
        seed = 100 * number + 13 * place
        count = 3 if key == "base" else 1
        summaries[key] = [_sentence(seed, rest) for rest in _RESTS[: 5 + place % 3]]
        if place % 3:
            # Weights that were never trained would otherwise never match five captions.
            summaries[key] = summaries[key][:1] * 5
        kinds = {"swaps": 3, "layout": 5, "basic": 7}
        negatives[key] = {
            kind: [_sentence(seed * step + n + step, _RESTS[0]) for n in range(count)] for kind, step in kinds.items()
        }
        named = [f"{kind}_{n}" for kind in kinds for n in range(count)]
        scores[key] = {"sum": 20.0} | {name: 15 + (seed * 7 + 11 * n) % 10 for n, name in enumerate(named)}
    return {
        "image": f"{image}.png",
        "short_caption": f"Picture {number}.",
        "extra_caption": "",
        "mask_data": masks,
        "mask_keys": list(masks),
        "summaries": summaries,
        "negatives": negatives,
        "clip_scores": scores,
    }


def _sentence(seed: int, rest: str) -> str:
    words = [words[seed // step % len(words)] for words, step in ((_COLOURS, 3), (_THINGS, 1), (_PLACES, 5))]
    return f"{_COLOURS[seed % 7]} and {words[0]} {words[1]} {words[2]}{rest}"


def _write_photo(path: Path, width: int, height: int, number: int) -> None:
    import numpy as np
    from PIL import Image

    y, x = np.mgrid[0:height, 0:width] / 500.0
    channels = [
        np.sin(2 * math.pi * ((1 + number) * x * x + (1 + channel) * y * (x - y) + 0.3 * channel * number))
        + 2 * (x - 0.5) * np.cos(4 * channel + 5 * y + number)
        for channel in range(3)
    ]
    Image.fromarray((127.5 + 63 * np.stack(channels, axis=-1)).clip(0, 255).astype(np.uint8)).save(path)
