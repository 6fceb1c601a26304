"""Makes the documents of tasks that ask and let choose; seeds that no other reader has."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import TaskError, did_you_mean
from ...rows import Row
from .false_captions import false_captions, squares_of
from .pictures import DrawnPicture
from .questions import NEGATIVES, Negatives, questions_of
from .sampling import SPLITS, sample_scene
from .scene import Stream, generator

_FIRST = SPLITS["test"].start + 70_000
_QUESTIONS, _CHOICES, _SQUARES = range(_FIRST, _FIRST + 12_000, 4_000)


def questions(scenes: int = 100, negatives: Negatives = "random") -> Iterator[Row]:
    """Yield questions on scenes, as POPE asks them: of each scene as many to be answered with yes as with no.

    Args:
        scenes: How many.
        negatives: What is asked for in vain: random things, or adversarial ones, a colour of one thing and the shape
            of another.

    Raises:
        TaskError: A choice has no such value.
    """
    if negatives not in NEGATIVES:
        raise TaskError(
            f"dataset_kwargs: negatives '{negatives}' is unknown.{did_you_mean(negatives, NEGATIVES)}",
            f"Known: {', '.join(NEGATIVES)}.",
        )
    for seed in range(_QUESTIONS, _QUESTIONS + scenes):
        scene = sample_scene(seed)
        asked = questions_of(scene, generator(seed, Stream.FOILS), negatives)
        for number, question in enumerate(asked):
            yield {
                "id": f"{seed}-{number}",
                "image": f"scene-{seed}",
                "pixels": DrawnPicture(scene),
                "question": question.text,
                "answer": "yes" if question.answer else "no",
            }


def choices(scenes: int = 100) -> Iterator[Row]:
    """Yield true captions of scenes with false ones like them, some of each category.

    Args:
        scenes: How many.
    """
    for seed in range(_CHOICES, _CHOICES + scenes):
        scene = sample_scene(seed)
        for one in false_captions(scene):
            yield {
                "id": f"{seed}-{one.category}",
                "pixels": DrawnPicture(scene),
                "category": one.category,
                "caption": one.caption,
                "negative": one.negative,
            }


def squares(scenes: int = 100) -> Iterator[Row]:
    """Yield pairs of pictures with a caption each, some of each category.

    Args:
        scenes: How many.
    """
    for seed in range(_SQUARES, _SQUARES + scenes):
        for square in squares_of(sample_scene(seed)):
            first, second = square.scenes
            yield {
                "id": f"{seed}-{square.category}",
                "first": DrawnPicture(first),
                "second": DrawnPicture(second),
                "category": square.category,
                "captions": list(square.captions),
            }
