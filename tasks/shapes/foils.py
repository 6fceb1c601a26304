"""Captions with one wrong word."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from .describing import short_references
from .scene import SHAPES, Scene, Stream, generator


@dataclass(frozen=True)
class Foil:
    """A caption and its foil.

    Attributes:
        caption: A true caption.
        foil: The same with one shape exchanged for one that the scene has not.
        references: Other true captions of the scene.
        word: The shape that was exchanged.
        wrong_word: What it was exchanged for.
    """

    caption: str
    foil: str
    references: tuple[str, ...]
    word: str
    wrong_word: str


def foil_of(scene: Scene) -> Foil:
    """Return a caption of a scene with its foil.

    The caption is the first of the short references and the others stay references.
    Source: Shekhar et al., FOIL it! (2017), which exchanges one noun for one that the image does not show.
    """
    rng = generator(scene.seed, Stream.FOILS)
    caption, *others = short_references(scene)
    foil, word, wrong = exchange_shape(caption, scene, rng)
    return Foil(caption, foil, tuple(others), word, wrong)


def exchange_shape(caption: str, scene: Scene, rng: np.random.Generator) -> tuple[str, str, str]:
    """Return a caption with one of its shapes exchanged, the shape, and what took its place.

    Args:
        caption: A caption that names a shape.
        scene: The scene; the new shape is none of its.
        rng: Random numbers.
    """
    found = list(_A_SHAPE.finditer(caption))
    at = found[rng.integers(len(found))]
    absent = [shape for shape in SHAPES if all(thing.shape != shape for thing in scene.things)]
    wrong = absent[rng.integers(len(absent))]
    return f"{caption[: at.start()]}{wrong}{caption[at.end() :]}", at[0], wrong


_A_SHAPE = re.compile(rf"\b({'|'.join(SHAPES)})\b")
