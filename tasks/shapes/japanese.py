"""Puts scenes into Japanese: the second language of the world, in which no space stands between words."""

from typing import Any

import numpy as np

from .accounts import SceneAccount, chain
from .describing import WORDS, different_texts
from .scene import Scene, Thing

_WORDS: Any = WORDS["japanese"]
_TEMPLATES = 6


def name(thing: Thing, full: bool = True) -> str:
    """Return the words for a thing: "大きな縞模様の赤い星", or "赤い星".

    Args:
        thing: The thing.
        full: Whether size and texture are named; the colour always is.
    """
    words = thing.attributes if full else [thing.colour]
    return "".join(map(_WORDS["attributes"].__getitem__, words)) + _WORDS["shapes"][thing.shape]


def sentence(account: SceneAccount) -> str:
    """Return one sentence on one or two things, their relation and the background.

    "芝生の上に、小さな青い円の左に大きな赤い星がある。"
    """
    words = "と".join(map(name, account.things))
    if account.relations:
        relation = account.relations[0]
        subject, other = account.things[relation.subject], account.things[relation.object]
        words = f"{name(other)}{_WORDS['wordings'][relation.predicate][0]}{name(subject)}"
    return _finished(words, account.background)


def short_references(scene: Scene) -> list[str]:
    """Return five short references of a scene, all different, on two of its things or more."""
    return different_texts(scene, _TEMPLATES, _short_text)


def _short_text(template: int, scene: Scene, rng: np.random.Generator) -> str:
    things = [scene.things[index] for index in rng.permutation(len(scene.things))]
    first, second = things[:2]
    listed = "、".join(name(thing, full=False) for thing in things)
    match template:
        case 3:
            return _finished(listed, scene.background)
        case 4:
            place, count = _WORDS["places"][scene.background], _WORDS["counts"][str(len(things))]
            return f"{place}{listed}の{count}の図形が描かれている。"
        case 5:
            return f"{name(first)}と{name(second)}の絵。"
    wordings = _WORDS["wordings"][chain([second, first], None).relations[0].predicate]
    where, full = wordings[rng.integers(len(wordings))], template != 2
    return _finished(f"{name(second, full)}{where}{name(first, full)}", scene.background if template != 1 else None)


def _finished(words: str, background: str | None) -> str:
    place = f"{_WORDS['places'][background]}、" if background else ""
    return f"{place}{words}がある。"
