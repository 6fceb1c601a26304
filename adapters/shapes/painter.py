"""A painter of the shapes world: it draws the scene that a caption describes."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...errors import AdapterError
from ...tasks.shapes.pictures import DrawnPicture
from ...tasks.shapes.sampling import place
from ...tasks.shapes.scene import (
    BACKGROUNDS,
    COLOURS,
    SIZES,
    TEXTURES,
    Scene,
    SpatialRelation,
    Thing,
    main_predicate,
    telling_order,
)
from ..images.handles import ImageHandle
from ..regions.contracts import Painter
from .phrases import ByRule, Named, named_in

_ATTEMPTS = 20_000
_NOWHERE = (0.0, 0.0, 0.0, 0.0)


class ShapesPainter(ByRule, Painter):
    """Draws the scenes that captions in the shapes world's language describe.

    Attributes that a caption leaves open are random: positions, colours and the background; a size or texture
    that is not named is medium or plain.

    Args:
        name: How results call it.
    """

    adapter = "shapes_painter"

    def paint(self, texts: Sequence[str], *, seed: int) -> list[ImageHandle]:
        """Return a drawn picture of each text; see ``Painter.paint``.

        Raises:
            AdapterError: A text names no thing of the world, or what no picture can show.
        """
        return [ImageHandle(DrawnPicture(described_scene(text, seed))) for text in texts]


def described_scene(text: str, seed: int) -> Scene:
    """Return a scene that a text describes.

    Args:
        text: In the shapes world's language.
        seed: Seed of random attributes, 0 or more.

    Raises:
        AdapterError: It names no thing of the world, or what no picture can show.
    """
    own = int.from_bytes(hashlib.sha256(f"{seed}\n{text}".encode()).digest()[:8])
    rng = np.random.default_rng(own)
    things: list[Thing] = []
    relations: list[SpatialRelation] = []
    background, before = None, None
    for named in named_in(text):
        if not named.is_thing:
            background = next(iter(named.places()), background)
            continue
        known = [n for n, thing in enumerate(things) if named.is_of(thing)] if named.definite else []
        number = known[0] if known else len(things)
        if not known:
            things.append(_thing(named, rng))
        if named.predicate and before is not None and before != number:
            relations.append(SpatialRelation(before, named.predicate, number))
        before = number
    if not things:
        raise AdapterError(f"'{text}' names nothing of the shapes world.", "Write it as in 'There is a red star.'")
    drawn = _placed(text, things, relations, rng)
    return Scene(own % 2**31, telling_order(drawn), background or BACKGROUNDS[rng.integers(len(BACKGROUNDS))])


def _thing(named: Named, rng: np.random.Generator) -> Thing:
    def said(kinds: tuple[str, ...]) -> str | None:
        return next((word for word in named.attributes if word in kinds), None)

    colour = said(COLOURS) or COLOURS[rng.integers(len(COLOURS))]
    return Thing(named.noun, colour, said(SIZES) or "medium", said(TEXTURES) or "plain", _NOWHERE)


def _placed(text: str, things: list[Thing], relations: list[SpatialRelation], rng: np.random.Generator) -> list[Thing]:
    """Return the things where every relation is the one that one would name.

    Raises:
        AdapterError: No such place was found.
    """
    sizes = [thing.size for thing in things]
    for _ in range(_ATTEMPTS):
        boxes = place(rng, sizes)
        if boxes is None:
            continue
        placed = [replace(thing, box=box) for thing, box in zip(things, boxes, strict=True)]
        if all(main_predicate(placed[rel.subject], placed[rel.object]) == rel.predicate for rel in relations):
            return placed
    raise AdapterError(f"no picture can show '{text}'.", "Relations contradict, or it names too much.")
