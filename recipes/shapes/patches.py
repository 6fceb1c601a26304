"""What a captioner has to know of each patch of a picture: what it shows, and when that is told."""

from __future__ import annotations

import numpy as np

from ...tasks.shapes.accounts import account_of
from ...tasks.shapes.scene import BACKGROUNDS, COLOURS, SHAPES, SIZES, TEXTURES, Scene
from .pool import GRID

_MOST = 5
"""Things in a scene."""
_RELATIONS = ("left of", "right of", "above", "below")
CLASSES = (
    len(BACKGROUNDS),
    *(
        1 + number
        for number in (len(SHAPES), len(COLOURS), len(SIZES), len(TEXTURES), _MOST, len(_RELATIONS))
    ),
    _MOST + 1,
)
"""How many values each row of the labels has."""


def labels_of(scene: Scene) -> np.ndarray:
    """Return ``[8, patches]`` uint8 labels of the patches, row by row of the picture.

    The rows: the background; shape, colour, size and texture of the thing whose box holds the middle of the
    patch; its place in the order of telling; its relation to the thing that is told before it; and how many
    things there are in all. Where there is no thing, or none before, the label is 0.
    """
    middles = (np.arange(GRID) + 0.5) / GRID
    labels = np.zeros((len(CLASSES), GRID, GRID), dtype=np.uint8)
    labels[0] = BACKGROUNDS.index(scene.background)
    labels[-1] = len(scene.things)
    relations = {one.subject: 1 + _RELATIONS.index(one.predicate) for one in account_of(scene).relations}
    for number, thing in enumerate(scene.things):
        left, top, right, bottom = thing.box
        where = np.ix_((top <= middles) & (middles <= bottom), (left <= middles) & (middles <= right))
        values = (
            1 + SHAPES.index(thing.shape),
            1 + COLOURS.index(thing.colour),
            1 + SIZES.index(thing.size),
            1 + TEXTURES.index(thing.texture),
            1 + number,
            relations.get(number, 0),
        )
        for row, value in zip(labels[1:-1], values, strict=True):
            row[where] = value
    return labels.reshape(len(CLASSES), -1)
