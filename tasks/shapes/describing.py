"""Puts scenes into words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .accounts import SceneAccount, account_of, chain
from .scene import Scene, SpatialRelation, Stream, Thing, generator

PLACES = {
    "gray": "on a gray background",
    "pink": "on a pink background",
    "grass": "on grass",
    "sky": "in the sky",
    "sand": "on sand",
    "brick": "on a brick wall",
}
"""The words for each background."""

_WORDINGS = {
    "left of": ("to the left of", "left of", "on the left of"),
    "right of": ("to the right of", "right of", "on the right of"),
    "above": ("above", "over"),
    "below": ("below", "under"),
}
_COUNTS = {2: "Two", 3: "Three", 4: "Four", 5: "Five"}


def name(thing: Thing, article: str = "a", full: bool = True) -> str:
    """Return the words for a thing, such as "a large striped red star" or "the red star".

    Args:
        thing: The thing.
        article: ``a`` (or, before a vowel, an), ``the``, or nothing.
        full: Whether size and texture are said; the colour always is.
    """
    words = " ".join([*(thing.attributes if full else [thing.colour]), thing.shape])
    if article == "a" and words[0] in "aeiou":
        article = "an"
    return f"{article} {words}".strip()


def detailed(account: SceneAccount) -> str:
    """Return the detailed description of an account: a sentence for each thing, with everything that is said.

    "On grass there is a large striped red star. A blue circle is to the left of the red star. ..."
    """
    related = {relation.subject: relation for relation in account.relations}
    sentences = []
    for number, thing in enumerate(account.things):
        relation = related.get(number)
        if number == 0:
            place = f"{_capital(PLACES[account.background])} there" if account.background else "There"
            sentences.append(f"{place} is {name(thing)}.")
        elif relation is None:
            sentences.append(f"There is also {name(thing)}.")
        else:
            other = name(account.things[relation.object], "the", full=False)
            sentences.append(f"{_capital(name(thing))} is {_WORDINGS[relation.predicate][0]} {other}.")
    return " ".join(sentences)


def detailed_reference(scene: Scene) -> str:
    """Return the detailed description of all that a scene holds; what a captioner is to say."""
    return detailed(account_of(scene))


def sentence(account: SceneAccount) -> str:
    """Return one sentence on one or two things, their relation and the background.

    "A large red star to the left of a small striped blue circle on a green background."

    Raises:
        ValueError: The account has more than two things.
    """
    if len(account.things) > 2:
        raise ValueError(f"a sentence is on one or two things, not {len(account.things)}")
    words = " and ".join(map(name, account.things))
    if account.relations:
        words = _pair(account.things, account.relations[0], full=True)
    return _finish(words, account.background)


def short_references(scene: Scene) -> list[str]:
    """Return five short references of a scene, all different, on two of its things or more."""
    rng = generator(scene.seed, Stream.WORDING)
    texts: dict[str, None] = {}
    for template in rng.permutation(len(_TEMPLATES))[:5]:
        text = _TEMPLATES[template](scene, rng)
        while text in texts:
            text = _pair_in_place(scene, rng)
        texts[text] = None
    return list(texts)


def _pair_in_place(scene: Scene, rng: np.random.Generator) -> str:
    return _finish(_some_pair(scene, rng, full=True), scene.background)


def _there_is_pair(scene: Scene, rng: np.random.Generator) -> str:
    return _finish(f"there is {_some_pair(scene, rng, full=True)}", None)


def _short_pair_in_place(scene: Scene, rng: np.random.Generator) -> str:
    return _finish(_some_pair(scene, rng, full=False), scene.background)


def _all_names(scene: Scene, rng: np.random.Generator) -> str:
    return _finish(_enumeration(_shuffled(scene, rng), full=False), scene.background)


def _counted(scene: Scene, rng: np.random.Generator) -> str:
    names = _enumeration(_shuffled(scene, rng), full=False)
    return f"{_COUNTS[len(scene.things)]} shapes {PLACES[scene.background]}: {names}."


def _two_in_picture(scene: Scene, rng: np.random.Generator) -> str:
    first, second = _shuffled(scene, rng)[:2]
    return _finish(f"a picture of {name(first)} and {name(second)}", scene.background)


def _sentence_on_pair(scene: Scene, rng: np.random.Generator) -> str:
    first, second = _shuffled(scene, rng)[:2]
    relation = chain([second, first], None).relations[0]
    where = _wording(relation, rng)
    return _finish(f"{name(first)} is {where} {name(second, full=False)}", scene.background)


_TEMPLATES: tuple[Callable[[Scene, np.random.Generator], str], ...] = (
    _pair_in_place,
    _there_is_pair,
    _short_pair_in_place,
    _all_names,
    _counted,
    _two_in_picture,
    _sentence_on_pair,
)


def _some_pair(scene: Scene, rng: np.random.Generator, full: bool) -> str:
    first, second = _shuffled(scene, rng)[:2]
    relation = chain([second, first], None).relations[0]
    return _pair([second, first], relation, full, _wording(relation, rng))


def _pair(things: Sequence[Thing], relation: SpatialRelation, full: bool, where: str | None = None) -> str:
    subject, other = things[relation.subject], things[relation.object]
    where = where or _WORDINGS[relation.predicate][0]
    return f"{name(subject, full=full)} {where} {name(other, full=full)}"


def _wording(relation: SpatialRelation, rng: np.random.Generator) -> str:
    wordings = _WORDINGS[relation.predicate]
    return wordings[rng.integers(len(wordings))]


def _shuffled(scene: Scene, rng: np.random.Generator) -> list[Thing]:
    return [scene.things[index] for index in rng.permutation(len(scene.things))]


def _enumeration(things: Sequence[Thing], full: bool) -> str:
    names = [name(thing, full=full) for thing in things]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _finish(words: str, background: str | None) -> str:
    place = f" {PLACES[background]}" if background else ""
    return f"{_capital(words)}{place}."


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
