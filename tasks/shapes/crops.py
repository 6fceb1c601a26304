"""Crops of a picture with captions and wrong captions of each, for matching."""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .accounts import SceneAccount, account_of, chain
from .describing import detailed, enumerated, name, sentence
from .drawing import pixel_box
from .grading import change_attribute, change_background, exchange_shape, swap_colours, turn_relation
from .scene import Scene, Stream, Thing, generator

CAPTIONS = 5
PAIRS = 2
"""Most pairs of things that are crops of one picture."""
NEGATIVES = ("swaps", "layout", "basic")
_PADDING = 0.06
"""How much of the picture a crop shows around its things, in sides of the picture."""


@dataclass(frozen=True)
class Crop:
    """A part of a picture, or all of it.

    Attributes:
        key: Its name: ``base`` (the whole picture), ``thing-0`` or ``pair-0-1``.
        box: Left, top, right and bottom in pixels; None for the whole picture.
        captions: ``CAPTIONS`` different true captions.
        negatives: A wrong caption by each of ``NEGATIVES``: words are exchanged between things (or, where
            there is but one, an attribute is another); a relation or the background is another; a shape is
            one that the picture has not.
    """

    key: str
    box: tuple[int, int, int, int] | None
    captions: tuple[str, ...]
    negatives: dict[str, str]


def crops_of(scene: Scene, side: int) -> list[Crop]:
    """Return the whole picture, then each thing, then up to ``PAIRS`` pairs of things with no other between.

    Args:
        scene: The scene.
        side: Width and height of the picture in pixels.
    """
    rng = generator(scene.seed, Stream.CROPS)
    # A crop is scaled to the model's input size, so its captions name no sizes.
    things = [replace(thing, size="medium") for thing in scene.things]
    crops = [_crop("base", None, account_of(scene), scene, rng)]
    for number, thing in enumerate(things):
        account = chain([thing], scene.background)
        crops.append(_crop(f"thing-{number}", _around([thing], side), account, scene, rng))
    for first, second in _neighbours(scene)[:PAIRS]:
        pair = [things[first], things[second]]
        account = chain(pair, scene.background)
        crops.append(_crop(f"pair-{first}-{second}", _around(pair, side), account, scene, rng))
    return crops


def _neighbours(scene: Scene) -> list[tuple[int, int]]:
    """Return the pairs of things whose common box holds no part of another thing, none if these are all."""
    if len(scene.things) < 3:
        return []
    neighbours = []
    for first, second in combinations(range(len(scene.things)), 2):
        pair = scene.things[first], scene.things[second]
        left, top = (min(thing.box[edge] for thing in pair) for edge in (0, 1))
        right, bottom = (max(thing.box[edge] for thing in pair) for edge in (2, 3))
        others = (thing.box for thing in scene.things if thing not in pair)
        if all(box[2] <= left or right <= box[0] or box[3] <= top or bottom <= box[1] for box in others):
            neighbours.append((first, second))
    return neighbours


def _crop(
    key: str, box: tuple[int, int, int, int] | None, account: SceneAccount, scene: Scene, rng: np.random.Generator
) -> Crop:
    captions = tuple(dict.fromkeys(_captions(account)))[:CAPTIONS]
    swapped = swap_colours(account, scene) or change_attribute(account, scene, rng, sizes=box is None)
    moved = turn_relation(account, rng) if account.relations else change_background(account, rng)
    negatives = {"swaps": _tell(swapped), "layout": _tell(moved), "basic": exchange_shape(_tell(account), scene, rng)}
    return Crop(key, box, captions, negatives)


def _captions(account: SceneAccount) -> list[str]:
    """Return more than enough true captions of what a crop shows, the fullest first."""
    names = enumerated([name(thing) for thing in account.things])
    bare = SceneAccount(account.things, account.relations, None)
    backwards = chain(account.things[::-1], account.background)
    return [
        _tell(account),
        _tell(backwards),
        f"There is {names}.",
        f"A picture of {names}.",
        f"This shows {names}.",
        _tell(bare),
    ]


def _tell(account: SceneAccount) -> str:
    return sentence(account) if len(account.things) <= 2 else detailed(account)


def _around(things: list[Thing], side: int) -> tuple[int, int, int, int]:
    boxes = np.asarray([pixel_box(thing, side) for thing in things])
    padding = round(_PADDING * side)
    left, top = np.maximum(boxes[:, :2].min(axis=0) - padding, 0).tolist()
    right, bottom = np.minimum(boxes[:, 2:].max(axis=0) + padding, side).tolist()
    return left, top, right, bottom
