"""Single facts, such as that there is a red star: what pictures and texts are compared by in training."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from ...tasks.shapes.scene import BACKGROUNDS, COLOURS, SHAPES, Thing, holds

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
    # A picture has more of them than any text tells.
    **{(one, how, other): 0.6 for one in SHAPES for other in SHAPES for how in (_LEFT, _ABOVE)},
}
FACTS = {fact: number for number, fact in enumerate(_WEIGHTED)}
WEIGHTS = np.array(list(_WEIGHTED.values()), dtype=np.float32)


def facts_of_things(things: Sequence[Thing], background: str | None) -> np.ndarray:
    """Return ``[facts]`` uint8, 1 where a fact holds in a picture of these things."""
    found: list[Fact] = [(background,)] if background else []
    for thing in things:
        found.append((thing.shape,))
        found += [(word, thing.shape) for word in thing.attributes]
    for one, other in permutations(things, 2):
        found += [(one.shape, how, other.shape) for how in (_LEFT, _ABOVE) if holds(how, one.box, other.box)]
    return _row(found)


def facts_of_text(text: str) -> np.ndarray:
    """Return ``[facts]`` uint8, 1 where a text of ``describing`` states a fact."""
    found: list[Fact] = []
    for sentence in text.lower().split("."):
        words: list[str] = []
        last, relation = "", None
        said_words = re.findall("[a-z]+", sentence)
        # Of a clip; its directions are no relations.
        moves = not _MOTIONS.isdisjoint(said_words)
        for word in said_words:
            if word in SHAPES:
                found.append((word,))
                found += [(said, word) for said in words]
                if relation and last:
                    how, turned = relation
                    found.append((word, how, last) if turned else (last, how, word))
                words, last, relation = [], word, None
            elif (word, SHAPES[0]) in FACTS:
                words.append(word)
            elif word in _RELATIONS and not moves:
                relation = _RELATIONS[word]
            elif word in BACKGROUNDS:
                found.append((word,))
    return _row(found)


def _row(found: Iterable[Fact]) -> np.ndarray:
    row = np.zeros(len(FACTS), dtype=np.uint8)
    row[[FACTS[fact] for fact in found]] = 1
    return row
