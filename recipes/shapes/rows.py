"""Rows of the shapes world to train on, as recipes read them; none of a scene that a task shows."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...adapters.shapes.painter import described_scene
from ...rows import Row
from ...tasks.shapes.accounts import chain
from ...tasks.shapes.crops import crops_of
from ...tasks.shapes.describing import detailed, detailed_reference, short_references
from ...tasks.shapes.drawing import SIDE
from ...tasks.shapes.pictures import DrawnPicture
from ...tasks.shapes.sampling import SPLITS, sample_scene
from ...tasks.shapes.scene import Scene

_FIRST = SPLITS["train"].start + 10_000_000
"""Beyond those that the encoders saw."""
_VALIDATION = SPLITS["validation"].start
_REDRAWN = 500_000_000
"""How far the seed is away that draws a scene's other picture, or paints a caption."""
_REWORDED = 5
"""Further captions of a scene."""


def crops(scenes: int, split: str = "train") -> Iterator[Row]:
    """Yield the crops of scenes with captions and the caption whose words are exchanged, as DCI has them.

    Args:
        scenes: How many.
        split: ``train`` or ``validation``.
    """
    for seed in _seeds(scenes, split):
        scene = sample_scene(seed, least=3)
        for crop in crops_of(scene, SIDE):
            yield {
                "id": f"{seed}-{crop.key}",
                "group": str(seed),
                "image": DrawnPicture(scene),
                "box": list(crop.box) if crop.box else None,
                "captions": list(crop.captions),
                "negatives": [crop.negatives["swaps"]],
            }


def described(scenes: int, split: str = "train") -> Iterator[Row]:
    """Yield scenes with short captions and, as further positives, another drawing and a detailed caption.

    The other drawing has other noise and another background surface; it and the detailed caption stand for what PAC-S
    has generated.

    Args:
        scenes: How many.
        split: ``train`` or ``validation``.
    """
    for seed in _seeds(scenes, split):
        scene = sample_scene(seed)
        again = replace(scene, seed=seed + _REDRAWN)
        yield _with_positives(scene, short_references(scene), again, [detailed_reference(scene)])


def painted(scenes: int, split: str = "train") -> Iterator[Row]:
    """Yield scenes with one short caption each and, as further positives, a painting of it and captions in other words.

    They stand for what PAC-S++ has generated. The painting shows what the caption says and nothing else, with places,
    noise and surface of its own; what the caption leaves open is drawn by lot. The further captions tell all things in
    some order.

    Args:
        scenes: How many.
        split: ``train`` or ``validation``.
    """
    for seed in _seeds(scenes, split):
        scene = sample_scene(seed)
        caption = short_references(scene)[0]
        rng = np.random.default_rng((seed, _REDRAWN))
        orders = [rng.permutation(len(scene.things)) for _ in range(_REWORDED)]
        reworded = [detailed(chain([scene.things[at] for at in order], scene.background)) for order in orders]
        yield _with_positives(scene, [caption], described_scene(caption, seed + _REDRAWN), reworded)


def _with_positives(scene: Scene, captions: list[str], other: Scene, reworded: list[str]) -> Row:
    return {
        "id": str(scene.seed),
        "image": DrawnPicture(scene),
        "captions": captions,
        "further_images": [DrawnPicture(other)],
        "further_captions": reworded,
    }


def _seeds(scenes: int, split: str) -> range:
    first = _FIRST if split == "train" else _VALIDATION
    return range(first, first + scenes)
