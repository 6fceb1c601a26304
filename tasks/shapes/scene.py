"""What a picture of the shapes world holds: things with attributes, and where they stand."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

import numpy as np

SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "diamond", "moon", "arrow")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "black", "white")
SIZES = ("small", "medium", "large")
TEXTURES = ("plain", "striped", "dotted", "checked")
BACKGROUNDS = ("gray", "pink", "grass", "sky", "sand", "brick")
Predicate: TypeAlias = Literal["left of", "right of", "above", "below"]
OPPOSITES: dict[Predicate, Predicate] = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
}
MARGIN = 0.02
"""The least gap between two boxes, in sides of the picture, for one to be left of or above the other."""

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom, in sides of the picture: 0 to 1, y downwards."""


class Stream(IntEnum):
    """Purposes of random numbers, each with a separate stream, so that they are independent."""

    CONTENT = 0
    WORDING = 1
    PIXELS = 2
    GRADING = 3
    RATERS = 4
    FOILS = 5
    CROPS = 6
    MOTION = 7
    SYSTEMS = 8


def generator(seed: int, stream: Stream) -> np.random.Generator:
    """Return the random numbers of one scene for one purpose.

    Args:
        seed: Number of the scene, 0 or more.
        stream: What they are for.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, int(stream)))))


@dataclass(frozen=True)
class Thing:
    """A shape in a picture.

    Attributes:
        shape: One of ``SHAPES``.
        colour: One of ``COLOURS``.
        size: One of ``SIZES``; medium goes without saying.
        texture: One of ``TEXTURES``; plain goes without saying.
        box: Where it stands; it touches all four edges.
    """

    shape: str
    colour: str
    size: str
    texture: str
    box: Box

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that are worth a word, in the order of English adjectives."""
        size = () if self.size == "medium" else (self.size,)
        texture = () if self.texture == "plain" else (self.texture,)
        return (*size, *texture, self.colour)

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of its box."""
        left, top, right, bottom = self.box
        return (left + right) / 2, (top + bottom) / 2


@dataclass(frozen=True)
class SpatialRelation:
    """A relation between two things, which are named by their position.

    Attributes:
        subject: Position of the first.
        predicate: How it stands to the second.
        object: Position of the second.
    """

    subject: int
    predicate: Predicate
    object: int


@dataclass(frozen=True)
class Scene:
    """The content of a picture.

    Attributes:
        seed: Number that it was drawn from.
        things: Two to five things in the order of telling: the larger first, those of a size from left to
            right. No two are equal in shape and colour, no two boxes touch.
        background: One of ``BACKGROUNDS``.
    """

    seed: int
    things: tuple[Thing, ...]
    background: str


def holds(predicate: str, first: Box, second: Box) -> bool:
    """Tell whether a relation holds between two boxes, with ``MARGIN`` between them."""
    match predicate:
        case "left of":
            return first[2] + MARGIN <= second[0]
        case "right of":
            return holds("left of", second, first)
        case "above":
            return first[3] + MARGIN <= second[1]
        case "below":
            return holds("above", second, first)
    raise ValueError(f"unknown relation '{predicate}'")


def main_predicate(first: Thing, second: Thing) -> Predicate:
    """Return the relation along the axis on which the two are farther apart.

    Raises:
        ValueError: The boxes touch, so that none holds.
    """
    (x, y), (other_x, other_y) = first.centre, second.centre
    across: Predicate = "left of" if x < other_x else "right of"
    along: Predicate = "above" if y < other_y else "below"
    order = (across, along) if abs(x - other_x) >= abs(y - other_y) else (along, across)
    for predicate in order:
        if holds(predicate, first.box, second.box):
            return predicate
    raise ValueError(f"{first} and {second} touch")


def telling_order(things: list[Thing]) -> tuple[Thing, ...]:
    """Return things in the order in which a description names them: larger first, then left to right."""
    return tuple(sorted(things, key=lambda thing: (-SIZES.index(thing.size), thing.box[0], thing.box[1])))
