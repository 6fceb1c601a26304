"""Makes the documents of tasks that ask and let choose; seeds that no other reader has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...errors import TaskError, did_you_mean
from ...rows import Row
from .accounts import SceneAccount, chain
from .describing import detailed, sentence
from .foils import exchange_shape
from .grading import absent_thing, add_thing, change_attribute, swap_colours
from .pictures import DrawnPicture
from .questions import NEGATIVES, Negatives, questions_of
from .sampling import SPLITS, sample_scene
from .scene import Scene, Stream, generator


@dataclass(frozen=True)
class FalseCaption:
    """A caption with a false one like it.

    Attributes:
        category: What makes it false.
        caption: The true caption.
        negative: The false one.
    """

    category: str
    caption: str
    negative: str


def false_captions(scene: Scene) -> Iterator[FalseCaption]:
    """Yield a false caption of each category; none of ``swap_att`` where two colours cannot change places.

    Source of the categories: Hsieh et al., SugarCrepe (NeurIPS 2023). As there, length alone tells ``add_obj``.
    """
    rng = generator(scene.seed, Stream.FOILS)
    account = chain(scene.things[:2], scene.background)
    caption = sentence(account)
    yield FalseCaption("replace_obj", caption, exchange_shape(caption, scene, rng)[0])
    yield FalseCaption("replace_att", caption, sentence(change_attribute(account, scene, rng)))
    if swapped := swap_colours(account, scene):
        yield FalseCaption("swap_att", caption, sentence(swapped))
    yield FalseCaption("add_obj", detailed(account), detailed(add_thing(account, scene, rng)))


@dataclass(frozen=True)
class SceneSquare:
    """Two scenes, and a caption of each that is false of the other.

    Attributes:
        category: How they differ.
        scenes: A scene, and another like it.
        captions: The caption of each.
    """

    category: str
    scenes: tuple[Scene, Scene]
    captions: tuple[str, str]


def squares_of(scene: Scene) -> Iterator[SceneSquare]:
    """Yield a square in which a thing has another shape, and one in which two colours change places, where they can.

    The captions of the second have the same words, as all of Winoground have (Thrush et al., CVPR 2022).
    """
    rng = generator(scene.seed, Stream.FOILS)
    account = SceneAccount(scene.things[:2], (), scene.background)
    shape = absent_thing(scene, rng).shape
    first, second = account.things
    yield _square("replace_obj", scene, account, replace(account, things=(first, replace(second, shape=shape))))
    if swapped := swap_colours(account, scene):
        yield _square("swap_att", scene, account, swapped)


def _square(category: str, scene: Scene, account: SceneAccount, other: SceneAccount) -> SceneSquare:
    drawn = replace(scene, things=(*other.things, *scene.things[2:]))
    return SceneSquare(category, (scene, drawn), (sentence(account), sentence(other)))


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
