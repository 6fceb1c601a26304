"""Hard false captions of a scene, as SugarCrepe has them of photographs, and pairs of pictures as Winoground's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .accounts import Account, chain
from .describing import detailed, sentence
from .foils import exchange_shape
from .grading import absent_thing, add_thing, change_attribute, swap_colours
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
    account = Account(scene.things[:2], (), scene.background)
    shape = absent_thing(scene, rng).shape
    first, second = account.things
    yield _square(
        "replace_obj", scene, account, replace(account, things=(first, replace(second, shape=shape)))
    )
    if swapped := swap_colours(account, scene):
        yield _square("swap_att", scene, account, swapped)


def _square(category: str, scene: Scene, account: Account, other: Account) -> SceneSquare:
    drawn = replace(scene, things=(*other.things, *scene.things[2:]))
    return SceneSquare(category, (scene, drawn), (sentence(account), sentence(other)))
