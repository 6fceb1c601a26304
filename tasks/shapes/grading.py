"""Captions of graded quality, their F1, and ratings by simulated raters."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Generic, TypeVar

import numpy as np

from ...rows import Row
from .accounts import SceneAccount, account_of, chain, graph_f1, is_true
from .describing import detailed, sentence
from .sampling import sample_scene
from .scene import (
    BACKGROUNDS,
    COLOURS,
    OPPOSITES,
    SHAPES,
    SIZES,
    TEXTURES,
    Scene,
    SpatialRelation,
    Stream,
    Thing,
    generator,
)

GRADES = ("full", "omission", "wrong_attribute", "wrong_relation", "hallucination", "shuffled")
"""The change to a caption: none; a thing is left out; an attribute is another; a relation is the opposite; a thing is
named that is not there; or it is another scene's caption."""
SHAPE_GRADES = ("full", "omission", "wrong_shape", "wrong_shapes")
"""The same where only shapes are wrong: of one thing, or of both."""

RATERS = 3
T = TypeVar("T")
_OTHER_SCENE = 50_000
"""Offset of the seed of the scene whose caption is the shuffled one, in the same split."""


@dataclass(frozen=True)
class Graded(Generic[T]):
    """A caption of known quality.

    Attributes:
        grade: One of ``GRADES``.
        account: Its content.
        text: The caption.
        f1: F1 against the full caption of its kind, 0 to 1; see ``accounts.graph_f1``.
    """

    grade: str
    account: T
    text: str
    f1: float


def detailed_candidates(scene: Scene) -> list[Graded[SceneAccount]]:
    """Return a detailed caption of each grade; a full one describes everything.

    A hallucinated thing is added to all others; a shuffled caption is of a scene with the same number of things.
    """
    count = len(scene.things)
    other = sample_scene(another_seed(scene.seed), count, count)
    return _candidates(scene, account_of, other, add_thing, detailed)


def short_candidates(scene: Scene) -> list[Graded[SceneAccount]]:
    """Return a one-sentence caption of each grade; a full one describes the two first things.

    A hallucinated thing takes the place of the second, so that all but the omission are of one length.
    """
    return _candidates(scene, _pair, sample_scene(another_seed(scene.seed)), replace_thing, sentence)


def _candidates(
    scene: Scene,
    tell_of: Callable[[Scene], SceneAccount],
    other: Scene,
    invent: Callable[[SceneAccount, Scene, np.random.Generator], SceneAccount],
    tell: Callable[[SceneAccount], str],
) -> list[Graded[SceneAccount]]:
    rng = generator(scene.seed, Stream.GRADING)
    full = tell_of(scene)
    accounts = {
        "full": full,
        "omission": omit(full, rng),
        "wrong_attribute": change_attribute(full, scene, rng),
        "wrong_relation": turn_relation(full, rng),
        "hallucination": invent(full, scene, rng),
        "shuffled": tell_of(other),
    }
    return _graded(accounts, tell, full, scene)


def shape_candidates(scene: Scene) -> list[Graded[SceneAccount]]:
    """Return a one-sentence caption of each of ``SHAPE_GRADES``, which differ in shapes alone."""
    rng = generator(scene.seed, Stream.GRADING)
    full = _pair(scene)
    first, second = rng.choice(_absent_shapes(scene), 2, replace=False).tolist()
    at = int(rng.integers(2))
    once = _with_thing(full, at, replace(full.things[at], shape=first))
    twice = _with_thing(once, 1 - at, replace(full.things[1 - at], shape=second))
    accounts = {"full": full, "omission": omit(full, rng), "wrong_shape": once, "wrong_shapes": twice}
    return _graded(accounts, sentence, full, scene)


def ratings(seed: int, qualities: Sequence[float], lowest: int, highest: int) -> list[list[int]]:
    """Return the ratings of simulated raters for each caption of a scene.

    A rater's opinion is the square of F1 on the scale (people mind errors more than they value words), plus
    a noise of a sixth of the scale, to the nearest whole number; its mean rises with F1.

    Args:
        seed: That of the scene, which decides the noise.
        qualities: F1 of each caption, 0 to 1.
        lowest: The worst rating.
        highest: The best.

    Returns:
        ``RATERS`` whole numbers for each caption.
    """
    span = highest - lowest
    noise = generator(seed, Stream.RATERS).normal(0, span / 6, size=(len(qualities), RATERS))
    opinions = lowest + span * np.square(qualities)[:, None] + noise
    return np.clip(np.rint(opinions), lowest, highest).astype(int).tolist()


def rated_rows(
    seed: int, picture: Row, candidates: Sequence[Graded[Any]], highest: int, references: list[str]
) -> Iterator[Row]:
    """Yield candidates of a scene as documents with the ratings of simulated raters.

    Args:
        seed: That of the scene.
        picture: The columns of its picture.
        candidates: The candidates.
        highest: The best rating; the worst is 1.
        references: The references of all.
    """
    rated = ratings(seed, [candidate.f1 for candidate in candidates], 1, highest)
    for candidate, of_raters in zip(candidates, rated, strict=True):
        yield {
            **picture,
            "id": f"{seed}-{candidate.grade}",
            "candidate": candidate.text,
            "references": references,
            "ratings": of_raters,
        }


def omit(account: SceneAccount, rng: np.random.Generator) -> SceneAccount:
    """Return an account that leaves one thing out; what is left stands as the picture has it."""
    left_out = rng.integers(len(account.things))
    kept = [thing for number, thing in enumerate(account.things) if number != left_out]
    return chain(kept, account.background)


def change_attribute(account: SceneAccount, scene: Scene, rng: np.random.Generator, sizes: bool = True) -> SceneAccount:
    """Return an account that gives one thing another colour, texture or (if wanted) size, which is not true."""
    number = int(rng.integers(len(account.things)))
    thing = account.things[number]
    kinds = [
        untrue
        for kind in _variants(thing)[: 3 if sizes else 2]
        if (untrue := [var for var in kind if not _is_named(var, scene, thing) and not _sounds_true(var, scene)])
    ]
    kind = kinds[rng.integers(len(kinds))]
    return _with_thing(account, number, kind[rng.integers(len(kind))])


def turn_relation(account: SceneAccount, rng: np.random.Generator) -> SceneAccount:
    """Return an account with the opposite of one of its relations."""
    at = rng.integers(len(account.relations))
    relations = list(account.relations)
    old = relations[at]
    relations[at] = SpatialRelation(old.subject, OPPOSITES[old.predicate], old.object)
    return replace(account, relations=tuple(relations))


def add_thing(account: SceneAccount, scene: Scene, rng: np.random.Generator) -> SceneAccount:
    """Return an account with one more thing, of a shape that the scene has not, and a relation of it."""
    number = len(account.things)
    predicate = list(OPPOSITES)[rng.integers(len(OPPOSITES))]
    relation = SpatialRelation(number, predicate, number - 1)
    things = (*account.things, absent_thing(scene, rng))
    return replace(account, things=things, relations=(*account.relations, relation))


def replace_thing(account: SceneAccount, scene: Scene, rng: np.random.Generator) -> SceneAccount:
    """Return an account whose last thing is one of a shape that the scene has not."""
    return _with_thing(account, len(account.things) - 1, absent_thing(scene, rng))


def absent_thing(scene: Scene, rng: np.random.Generator) -> Thing:
    """Return a thing of a shape that the scene has not; its box has no meaning."""
    shapes = _absent_shapes(scene)
    like = scene.things[rng.integers(len(scene.things))]
    return replace(like, shape=_pick(shapes, rng), colour=_pick(COLOURS, rng))


def change_background(account: SceneAccount, rng: np.random.Generator) -> SceneAccount:
    """Return an account that names another background."""
    return replace(account, background=_pick([place for place in BACKGROUNDS if place != account.background], rng))


def swap_colours(account: SceneAccount, scene: Scene) -> SceneAccount | None:
    """Return an account in which two things have each other's colours; None where no such swap is untrue."""
    for (first, thing), (second, other) in combinations(enumerate(account.things), 2):
        if thing.colour == other.colour or thing.shape == other.shape:
            continue
        swapped = replace(thing, colour=other.colour), replace(other, colour=thing.colour)
        if not any(_is_named(recoloured, scene) for recoloured in swapped):
            return _with_thing(_with_thing(account, first, swapped[0]), second, swapped[1])
    return None


def exchange_shape(caption: str, scene: Scene, rng: np.random.Generator) -> str:
    """Return a caption with one of its shapes exchanged.

    Args:
        caption: A caption that names a shape.
        scene: The scene; the new shape is none of its.
        rng: Random numbers.
    """
    shapes = list(_A_SHAPE.finditer(caption))
    at = shapes[rng.integers(len(shapes))]
    return f"{caption[: at.start()]}{_pick(_absent_shapes(scene), rng)}{caption[at.end() :]}"


_A_SHAPE = re.compile(rf"\b({'|'.join(SHAPES)})\b")


def _graded(
    accounts: dict[str, SceneAccount], tell: Callable[[SceneAccount], str], full: SceneAccount, scene: Scene
) -> list[Graded[SceneAccount]]:
    for grade, account in accounts.items():
        # A caption of another scene may, rarely, be true of this one too.
        if is_true(account, scene) != (grade in ("full", "omission")) and grade != "shuffled":
            raise AssertionError(f"scene {scene.seed}: the caption '{grade}' is not as it should be")
    return [
        Graded(grade, account, tell(account), graph_f1(account, full, scene)) for grade, account in accounts.items()
    ]


def _absent_shapes(scene: Scene) -> list[str]:
    return [shape for shape in SHAPES if all(thing.shape != shape for thing in scene.things)]


def _pair(scene: Scene) -> SceneAccount:
    return chain(scene.things[:2], scene.background)


def another_seed(seed: int) -> int:
    """Return the seed of another scene of the same split, whose captions stand for shuffled ones."""
    return seed + _OTHER_SCENE if seed % (2 * _OTHER_SCENE) < _OTHER_SCENE else seed - _OTHER_SCENE


def _variants(thing: Thing) -> list[list[Thing]]:
    """Return a thing in all other colours, textures and sizes that captions name (not plain, not medium)."""
    return [
        [replace(thing, colour=colour) for colour in COLOURS if colour != thing.colour],
        [replace(thing, texture=texture) for texture in TEXTURES[1:] if texture != thing.texture],
        [replace(thing, size=size) for size in (SIZES[0], SIZES[2]) if size != thing.size],
    ]


def _is_named(thing: Thing, scene: Scene, besides: Thing | None = None) -> bool:
    """Return whether a thing of the scene has this shape and colour, other than the one in the box of ``besides``."""
    besides_box = besides.box if besides else None
    return any(
        (other.shape, other.colour) == (thing.shape, thing.colour) and other.box != besides_box
        for other in scene.things
    )


def _sounds_true(thing: Thing, scene: Scene) -> bool:
    """Tell whether each attribute of a thing is one of some thing of that shape in the scene."""
    words = {word for other in scene.things if other.shape == thing.shape for word in other.attributes}
    return set(thing.attributes) <= words


def _with_thing(account: SceneAccount, number: int, thing: Thing) -> SceneAccount:
    things = (*account.things[:number], thing, *account.things[number + 1 :])
    return replace(account, things=things)


def _pick(options: Sequence[str], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]
