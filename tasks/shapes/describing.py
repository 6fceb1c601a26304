"""Puts scenes into words."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .accounts import SceneAccount, account_of, chain
from .scene import Scene, SpatialRelation, Stream, Thing, generator

WORDS: Any = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
"""Language to its words for what a scene holds."""
PLACES: dict[str, str] = WORDS["english"]["places"]
"""The words for each background."""

_WORDINGS: dict[str, list[str]] = WORDS["english"]["wordings"]
_TEMPLATES = 7


def name(thing: Thing, article: str = "a", full: bool = True) -> str:
    """Return the words for a thing, such as "a large striped red star" or "the red star".

    Args:
        thing: The thing.
        article: ``a`` (or, before a vowel, an), ``the``, or nothing.
        full: Whether size and texture are named; the colour always is.
    """
    words = " ".join([*(thing.attributes if full else [thing.colour]), thing.shape])
    if article == "a" and words[0] in "aeiou":
        article = "an"
    return f"{article} {words}".strip()


def enumerated(names: Sequence[str]) -> str:
    """Return names as an enumeration: "a star, a moon and a heart"."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def detailed(account: SceneAccount) -> str:
    """Return the detailed description of an account: a sentence for each thing, with all of its content.

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
    """Return the detailed description of a whole scene: the target of a captioner."""
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
    return finished(words, account.background)


def short_references(scene: Scene) -> list[str]:
    """Return five short references of a scene, all different, on two of its things or more."""
    return different_texts(scene, _TEMPLATES, _short_text)


def different_texts(
    scene: Scene, templates: int, short_text: Callable[[int, Scene, np.random.Generator], str]
) -> list[str]:
    """Return five different texts on a scene.

    Args:
        scene: The scene.
        templates: The number of templates, of which the first can give a new text each time.
        short_text: Returns a text by a template, with random numbers.
    """
    rng = generator(scene.seed, Stream.WORDING)
    texts: dict[str, None] = {}
    for template in rng.permutation(templates)[:5].tolist():
        text = short_text(template, scene, rng)
        while text in texts:
            text = short_text(0, scene, rng)
        texts[text] = None
    return list(texts)


def _short_text(template: int, scene: Scene, rng: np.random.Generator) -> str:
    """Return a caption by one of ``_TEMPLATES`` templates on two things, or all, and their places."""
    things = [scene.things[index] for index in rng.permutation(len(scene.things))]
    first, second = things[:2]
    names = enumerated([name(thing, full=False) for thing in things])
    match template:
        case 3:
            return finished(names, scene.background)
        case 4:
            return f"{WORDS['english']['counts'][str(len(things))]} shapes {PLACES[scene.background]}: {names}."
        case 5:
            return finished(f"a picture of {name(first)} and {name(second)}", scene.background)
    relation = chain([second, first], None).relations[0]
    wordings = _WORDINGS[relation.predicate]
    where = wordings[rng.integers(len(wordings))]
    if template == 6:
        return finished(f"{name(first)} is {where} {name(second, full=False)}", scene.background)
    pair = _pair([second, first], relation, template != 2, where)
    return finished(f"there is {pair}", None) if template == 1 else finished(pair, scene.background)


def _pair(things: Sequence[Thing], relation: SpatialRelation, full: bool, where: str | None = None) -> str:
    subject, other = things[relation.subject], things[relation.object]
    where = where or _WORDINGS[relation.predicate][0]
    return f"{name(subject, full=full)} {where} {name(other, full=full)}"


def finished(words: str, background: str | None) -> str:
    """Return words as a sentence, with the background if one is named."""
    place = f" {PLACES[background]}" if background else ""
    return f"{_capital(words)}{place}."


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
