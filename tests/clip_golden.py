"""What the released code of CLIP-S and PAC-S printed for tiny checkpoints, and the items it scored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from capbench.adapters import ImageHandle
from capbench.metrics import Items, Scores
from capbench.metrics.golden import golden_items, read_golden
from capbench.metrics.golden.tiny_inputs import draw_pictures, weights_digest

GOLDEN: dict[str, Any] = read_golden("clip_scores")


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
    files, candidates, references = zip(*rows, strict=True)
    return golden_items(candidates, references, images=list(map(ImageHandle, files)))
