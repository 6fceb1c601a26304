"""True and false texts on a picture, of all kinds that tasks use, and the facts that they state."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from ....tasks.shapes.accounts import chain
from ....tasks.shapes.clips import Clip, clip_references
from ....tasks.shapes.describing import PLACES, detailed, enumerated, name, sentence, short_references
from ....tasks.shapes.scene import BACKGROUNDS, COLOURS, SHAPES, Scene, Thing, holds

_SIZES, _TEXTURES = ("small", "large"), ("striped", "dotted", "checked")
_LEFT, _ABOVE = "left of", "above"
_RELATIONS = {
    "left": (_LEFT, False),
    "right": (_LEFT, True),
    "above": (_ABOVE, False),
    "over": (_ABOVE, False),
    "below": (_ABOVE, True),
    "under": (_ABOVE, True),
}
_MOTIONS = {"moves", "goes", "rises", "falls", "stays", "rests", "move"}

Fact = tuple[str, ...]
_WEIGHTED: dict[Fact, float] = {
    **{(shape,): 1.0 for shape in SHAPES},
    **{(word, shape): 1.0 for word in (*COLOURS, *_SIZES, *_TEXTURES) for shape in SHAPES},
    **{(place,): 1.0 for place in BACKGROUNDS},
    # A picture has more of them than any text states.
    **{(subject, how, other): 0.6 for subject in SHAPES for other in SHAPES for how in (_LEFT, _ABOVE)},
}
FACTS = {fact: number for number, fact in enumerate(_WEIGHTED)}
WEIGHTS = np.array(list(_WEIGHTED.values()), dtype=np.float32)


def facts_of_things(things: Sequence[Thing], background: str | None) -> np.ndarray:
    """Return ``[facts]`` uint8, 1 where a fact holds in a picture of these things."""
    facts: list[Fact] = [(background,)] if background else []
    for thing in things:
        facts.append((thing.shape,))
        facts += [(word, thing.shape) for word in thing.attributes]
    for subject, other in permutations(things, 2):
        facts += [(subject.shape, how, other.shape) for how in (_LEFT, _ABOVE) if holds(how, subject.box, other.box)]
    return _row(facts)


def facts_of_text(text: str) -> np.ndarray:
    """Return ``[facts]`` uint8, 1 where a text of ``describing`` states a fact."""
    facts: list[Fact] = []
    for part in text.lower().split("."):
        words: list[str] = []
        last, relation = "", None
        said_words = re.findall("[a-z]+", part)
        # Of a clip; its directions are not relations.
        moves = not _MOTIONS.isdisjoint(said_words)
        for word in said_words:
            if word in SHAPES:
                facts.append((word,))
                facts += [(said, word) for said in words]
                if relation and last:
                    how, turned = relation
                    facts.append((word, how, last) if turned else (last, how, word))
                words, last, relation = [], word, None
            elif (word, SHAPES[0]) in FACTS:
                words.append(word)
            elif word in _RELATIONS and not moves:
                relation = _RELATIONS[word]
            elif word in BACKGROUNDS:
                facts.append((word,))
    return _row(facts)


def _row(facts: Iterable[Fact]) -> np.ndarray:
    row = np.zeros(len(FACTS), dtype=np.uint8)
    row[[FACTS[fact] for fact in facts]] = 1
    return row


_PROMPT = "A photo depicts "
_OPENINGS = ("There is", "A picture of", "This shows")
_PROMPTED = 0.4
"""Share of texts with the prompt of CLIP-S and PAC-S."""
_GROUPS: tuple[tuple[str, ...], ...] = (
    SHAPES,
    COLOURS,
    _SIZES,
    _TEXTURES,
    ("left", "right"),
    ("above", "below"),
    ("over", "under"),
)
_GROUP = {word: group for group in _GROUPS for word in group}
_WORD = re.compile("[a-z]+")
_ARTICLE = re.compile(r"\b([Aa])n? (\w)")


def true_text(scene: Scene, things: Sequence[Thing], rng: np.random.Generator) -> str:
    """Return a text on a picture of some things of a scene.

    Args:
        scene: The scene.
        things: The things in the picture, at least one; short references are used only if these are all.
        rng: Draws the text.
    """
    is_whole = len(things) == len(scene.things)
    if not is_whole and rng.random() < 0.6:
        # A thing that fills the picture has no visible size.
        things = [replace(thing, size="medium") for thing in things]
    text = _random_text(scene, things, is_whole, rng)
    return _PROMPT + text if rng.random() < _PROMPTED else text


def clip_text(clip: Clip, rng: np.random.Generator) -> str:
    """Return a text on a clip, which must be true of each of its frames."""
    text = str(rng.choice(clip_references(clip)))
    return _PROMPT + text if rng.random() < _PROMPTED else text


def _random_text(scene: Scene, things: Sequence[Thing], is_whole: bool, rng: np.random.Generator) -> str:
    order = [things[index] for index in rng.permutation(len(things))]
    place = scene.background if rng.random() < 0.5 else None
    kind = rng.random()
    if kind < 0.25 and is_whole:
        return str(rng.choice(short_references(scene)))
    if kind < 0.45:
        return detailed(chain(things, scene.background))
    if kind < 0.6:
        return detailed(chain(order[: rng.integers(1, len(order) + 1)], place))
    if kind < 0.75:
        return sentence(chain(order[:2], place))
    if kind < 0.84:
        return sentence(chain(order[:1], place))
    if kind < 0.9:
        return f"{_OPENINGS[rng.integers(len(_OPENINGS))]} {enumerated([name(thing) for thing in order])}."
    if kind < 0.97:
        # Sentences must be self-contained, as some tasks split texts.
        parts = detailed(chain(things, scene.background)).split(".")[:-1]
        return parts[rng.integers(len(parts))].strip()
    return name(order[0], str(rng.choice(["", "a", "the"])), full=bool(rng.random() < 0.5))


def false_text(text: str, things: Sequence[Thing], rng: np.random.Generator) -> str:
    """Return a text with a change that usually makes it false.

    A word is replaced by another of its kind, two words are swapped, the background is replaced, or a missing thing is
    added.

    Args:
        text: A text on a picture.
        things: The things in the picture.
        rng: Draws the change.
    """
    changed = _changed(text, things, rng)
    return _ARTICLE.sub(lambda match: match[1] + ("n " if match[2] in "aeiou" else " ") + match[2], changed)


def _changed(text: str, things: Sequence[Thing], rng: np.random.Generator) -> str:
    matches = [match for match in _WORD.finditer(text) if match.group() in _GROUP]
    absent = [shape for shape in SHAPES if all(thing.shape != shape for thing in things)]
    kind = rng.random()
    if kind < 0.12 and text.endswith("."):
        extra = Thing(str(rng.choice(absent)), str(rng.choice(COLOURS)), "medium", "plain", (0, 0, 0, 0))
        return f"{text} There is also {name(extra)}."
    if kind < 0.22:
        for place in BACKGROUNDS:
            words = PLACES[place]
            if words in text or words.capitalize() in text:
                other = PLACES[str(rng.choice([where for where in BACKGROUNDS if where != place]))]
                return text.replace(words, other).replace(words.capitalize(), other.capitalize())
    if kind < 0.4:
        # Swaps two colours or two shapes.
        group = COLOURS if rng.random() < 0.6 else SHAPES
        among = [match for match in matches if match.group() in group]
        pairs = [(a, b) for n, a in enumerate(among) for b in among[n + 1 :] if a.group() != b.group()]
        if pairs:
            first, second = pairs[rng.integers(len(pairs))]
            return (
                text[: first.start()] + second.group() + text[first.end() : second.start()]
                + first.group() + text[second.end() :]
            )  # fmt: skip
    groups = list(dict.fromkeys(_GROUP[match.group()] for match in matches))
    group = groups[rng.integers(len(groups))]
    among = [match for match in matches if match.group() in group]
    chosen = among[rng.integers(len(among))]
    others = [word for word in (absent if group is SHAPES else group) if word != chosen.group()]
    return text[: chosen.start()] + str(rng.choice(others)) + text[chosen.end() :]
