"""Asks whether a scene holds a thing, as POPE asks of photographs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from .scene import COLOURS, SHAPES, Scene

Negatives = Literal["random", "adversarial"]
NEGATIVES: tuple[Negatives, ...] = ("random", "adversarial")


@dataclass(frozen=True)
class SceneQuestion:
    """A question on a scene.

    Attributes:
        thing: Colour and shape of what is asked for.
        answer: Whether it is there.
    """

    thing: tuple[str, str]
    answer: bool

    @property
    def text(self) -> str:
        """The words: Is there a red circle in the image?"""
        colour, shape = self.thing
        return f"Is there {'an' if colour[0] in 'aeiou' else 'a'} {colour} {shape} in the image?"


def questions_of(
    scene: Scene, rng: np.random.Generator, negatives: Negatives = "random", most: int = 2
) -> list[SceneQuestion]:
    """Return questions of which half are to be answered with yes, in an order that says nothing.

    Source of the layout: Li et al., Evaluating Object Hallucination in Large Vision-Language Models (EMNLP 2023).

    Args:
        scene: The scene.
        rng: Random numbers.
        negatives: What is asked for in vain: ``random``, any colour and shape that no thing has together;
            ``adversarial``, a colour of one thing and the shape of another.
        most: Most questions of each answer; there are fewer where the scene has not so many.
    """
    there = [(thing.colour, thing.shape) for thing in scene.things]
    colours = COLOURS if negatives == "random" else sorted({colour for colour, _ in there})
    shapes = SHAPES if negatives == "random" else sorted({shape for _, shape in there})
    absent = [one for one in product(colours, shapes) if one not in there]
    count = min(most, len(there), len(absent))
    asked = [(_drawn(there, count, rng), True), (_drawn(absent, count, rng), False)]
    questions = [SceneQuestion(one, answer) for pairs, answer in asked for one in pairs]
    return [questions[at] for at in rng.permutation(len(questions))]


def _drawn(pairs: list[tuple[str, str]], count: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    return [pairs[at] for at in rng.choice(len(pairs), count, replace=False)]
