"""What the released code of CLIP-S and PAC-S printed for tiny checkpoints, and the items it scored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pictures import draw_pictures

from capbench.adapters import ImageHandle
from capbench.metrics import Items, Scores

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "metrics/data/clip_scores.json").read_text(encoding="utf-8")
)


def weights_digest(state: dict[str, Any]) -> str:
    """Return the sha256 of a state dict's names and numbers."""
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def assert_same_weights(state: dict[str, Any], name: str) -> None:
    """Fail clearly where a machine's random numbers are others than those of the golden values."""
    assert weights_digest(state) == GOLDEN["weights"][name], (
        f"the tiny checkpoint '{name}' is not the one that the golden values were made with"
    )


def drawn_items(folder: Path) -> Items:
    """Return the items whose pictures are drawn, in the order of the golden values."""
    files = draw_pictures(folder)
    rows = GOLDEN["drawn"]["items"]
    return _items([(files[name], candidate, references) for name, candidate, references in rows])


def flickr8k_items(data_folder: Callable[[str], Path]) -> Items:
    """Return the items of Flickr8k-Expert, in the order of the golden values."""
    folder = data_folder("flickr8k")
    lines = (folder / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()
    captions = dict(line.split("\t") for line in lines)
    return _items(
        [
            (folder / "images" / image, captions[caption], [captions[f"{image}#{n}"] for n in range(5)])
            for image, caption in GOLDEN["flickr8k_expert"]["items"]
        ]
    )


def assert_golden(scores: Scores, golden: dict[str, list[float]], value: str) -> None:
    """Compare values and parts with what released code printed."""
    assert not scores.failures
    np.testing.assert_allclose(scores.values, golden[value], rtol=0, atol=1e-5)
    for part in ("image", "references"):
        if part in scores.parts:
            np.testing.assert_allclose(scores.parts[part], golden[part], rtol=0, atol=1e-5)


def _items(rows: list[tuple[Path, str, list[str]]]) -> Items:
    return Items(
        ids=[str(number) for number in range(len(rows))],
        candidates=[candidate for _, candidate, _ in rows],
        references=[tuple(references) for *_, references in rows],
        weights=np.ones(len(rows), dtype=np.int64),
        images=[ImageHandle(file) for file, *_ in rows],
    )
