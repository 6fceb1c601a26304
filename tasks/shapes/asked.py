"""Makes the documents of tasks that ask, as POPE does, and let choose; seeds that no other reader has."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np

from ...rows import Row
from ..schema import require_choice
from .accounts import SceneAccount, chain
from .describing import detailed, sentence
from .grading import absent_thing, add_thing, change_attribute, exchange_shape, swap_colours
from .pictures import DrawnPicture, picture_row
from .sampling import SPLITS, sample_scene
from .scene import COLOURS, SHAPES, Scene, Stream, generator

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
        negatives: Objects that are not there: ``random``, any colour and shape that no thing has together;
            ``adversarial``, a colour of one thing and the shape of another.
        most: Most questions of each answer; there are fewer where the scene has not so many.
    """
    there = [(thing.colour, thing.shape) for thing in scene.things]
    colours = COLOURS if negatives == "random" else sorted({colour for colour, _ in there})
    shapes = SHAPES if negatives == "random" else sorted({shape for _, shape in there})
    absent = [pair for pair in product(colours, shapes) if pair not in there]
    count = min(most, len(there), len(absent))
    asked = [(_drawn(there, count, rng), True), (_drawn(absent, count, rng), False)]
    questions = [SceneQuestion(pair, answer) for pairs, answer in asked for pair in pairs]
    return [questions[at] for at in rng.permutation(len(questions))]


def _drawn(pairs: list[tuple[str, str]], count: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    return [pairs[at] for at in rng.choice(len(pairs), count, replace=False)]


def false_captions(scene: Scene) -> Iterator[tuple[str, str, str]]:
    """Yield category, caption and a false caption like it; none of ``swap_att`` where no colours can change places.

    Source of the categories: Hsieh et al., SugarCrepe (NeurIPS 2023). As there, length alone tells ``add_obj``.
    """
    rng = generator(scene.seed, Stream.FOILS)
    account = chain(scene.things[:2], scene.background)
    caption = sentence(account)
    yield ("replace_obj", caption, exchange_shape(caption, scene, rng))
    yield ("replace_att", caption, sentence(change_attribute(account, scene, rng)))
    if swapped := swap_colours(account, scene):
        yield ("swap_att", caption, sentence(swapped))
    yield ("add_obj", detailed(account), detailed(add_thing(account, scene, rng)))


def squares_of(scene: Scene) -> Iterator[tuple[str, Scene, tuple[str, str]]]:
    """Yield category, another scene like this one, and a caption of each that is false of the other.

    In one a thing has another shape; in one two colours change places, where they can.

    The captions of the second have the same words, as all of Winoground have (Thrush et al., CVPR 2022).
    """
    rng = generator(scene.seed, Stream.FOILS)
    account = SceneAccount(scene.things[:2], (), scene.background)
    shape = absent_thing(scene, rng).shape
    first, second = account.things
    exchanged = replace(account, things=(first, replace(second, shape=shape)))
    for category, other in (("replace_obj", exchanged), ("swap_att", swap_colours(account, scene))):
        if other is not None:
            drawn = replace(scene, things=(*other.things, *scene.things[2:]))
            yield category, drawn, (sentence(account), sentence(other))


_FIRST = SPLITS["test"].start + 70_000
_QUESTIONS, _CHOICES, _SQUARES = range(_FIRST, _FIRST + 12_000, 4_000)


def questions(scenes: int = 100, negatives: Negatives = "random") -> Iterator[Row]:
    """Yield questions on scenes, as POPE asks them: of each scene as many to be answered with yes as with no.

    Args:
        scenes: How many.
        negatives: Objects that are not there: random things, or adversarial ones, a colour of one thing and the shape
            of another.

    Raises:
        TaskError: A choice has no such value.
    """
    require_choice("negatives", negatives, NEGATIVES)
    for seed in range(_QUESTIONS, _QUESTIONS + scenes):
        scene = sample_scene(seed)
        asked = questions_of(scene, generator(seed, Stream.FOILS), negatives)
        for number, question in enumerate(asked):
            answer = "yes" if question.answer else "no"
            yield {**picture_row(scene), "id": f"{seed}-{number}", "question": question.text, "answer": answer}


def choices(scenes: int = 100) -> Iterator[Row]:
    """Yield true captions of scenes with false ones like them, some of each category.

    Args:
        scenes: How many.
    """
    for seed in range(_CHOICES, _CHOICES + scenes):
        scene = sample_scene(seed)
        for category, caption, negative in false_captions(scene):
            yield {
                "id": f"{seed}-{category}",
                "pixels": DrawnPicture(scene),
                "category": category,
                "caption": caption,
                "negative": negative,
            }


def squares(scenes: int = 100) -> Iterator[Row]:
    """Yield pairs of pictures with a caption each, some of each category.

    Args:
        scenes: How many.
    """
    for seed in range(_SQUARES, _SQUARES + scenes):
        scene = sample_scene(seed)
        for category, other, captions in squares_of(scene):
            yield {
                "id": f"{seed}-{category}",
                "first": DrawnPicture(scene),
                "second": DrawnPicture(other),
                "category": category,
                "captions": list(captions),
            }
