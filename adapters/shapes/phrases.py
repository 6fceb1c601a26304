"""Reads the things of texts in the shapes world's language."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from ...tasks.shapes.accounts import SceneAccount, graph_of
from ...tasks.shapes.scene import BACKGROUNDS, COLOURS, SHAPES, SIZES, TEXTURES, Predicate, Scene, Thing
from ..contracts import Model

_REVISION = 1


class ByRule(Model):
    """A model of the shapes world that needs no weights.

    Args:
        name: How results call it; the adapter's name unless given.
    """

    adapter: ClassVar[str]
    """Name of the adapter."""

    def __init__(self, name: str = "") -> None:
        self.name = name or self.adapter.replace("_", "-")

    def fingerprint(self) -> dict[str, Any]:
        """Return its identity."""
        return {"adapter": self.adapter, "revision": _REVISION}


_NODES = {name: graph_of(SceneAccount((), (), name)) for name in BACKGROUNDS}
_PLACES = {
    (graph["objects"][0], frozenset(word for _, word in graph["attributes"])): name for name, graph in _NODES.items()
}
"""What a background is called, and its attributes, to its name."""
_NOUNS = {shape: shape for shape in SHAPES} | {noun: noun for noun, _ in _PLACES}
_NOUNS |= {f"{shape}{'es' if shape.endswith('s') else 's'}": shape for shape in SHAPES}
"""A noun, and the plural of a shape, to the noun."""
_PLACE_WORDS = {word for _, words in _PLACES for word in words}
_ATTRIBUTES = {*COLOURS, *SIZES, *TEXTURES, *_PLACE_WORDS}
_PREDICATES: dict[str, Predicate] = {
    "left": "left of",
    "right": "right of",
    "above": "above",
    "over": "above",
    "below": "below",
    "under": "below",
}


@dataclass(frozen=True)
class Named:
    """Something that a text names.

    Attributes:
        noun: A shape, or what a background is called.
        attributes: The attributes just before it, in order.
        definite: Whether ``the`` stands before it.
        predicate: How the thing named before stands to it; None where the text has none.
    """

    noun: str
    attributes: tuple[str, ...]
    definite: bool = False
    predicate: Predicate | None = None

    @property
    def is_thing(self) -> bool:
        """Whether it is a shape, not a background."""
        return self.noun in SHAPES

    def is_of(self, thing: Thing) -> bool:
        """Return whether a thing matches: of that shape, with each attribute."""
        return self.noun == thing.shape and set(self.attributes) <= _words_of(thing)

    def places(self) -> list[str]:
        """Return the backgrounds that match."""
        return [name for (noun, words), name in _PLACES.items() if noun == self.noun and set(self.attributes) <= words]

    def share_in(self, scene: Scene) -> float:
        """Return the share of its words that one thing, or the background, of a scene has, 0 to 1; 1 for all."""
        own = {self.noun, *self.attributes}
        graph = _NODES[scene.background]
        wholes = [{thing.shape, *_words_of(thing)} for thing in scene.things]
        wholes.append({graph["objects"][0], *(word for _, word in graph["attributes"])})
        return max(len(own & whole) for whole in wholes) / len(own)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return re.findall(r"[a-z]+", text.lower())


def named_in(text: str) -> list[Named]:
    """Return the things that a text names, in order; unknown words are skipped."""
    things: list[Named] = []
    attributes: list[str] = []
    definite, predicate = False, None
    for word in words_of(text):
        if noun := _NOUNS.get(word):
            things.append(Named(noun, tuple(attributes), definite, predicate))
            attributes, definite, predicate = [], False, None
        elif word in _ATTRIBUTES:
            attributes.append(word)
        else:
            attributes = []
            definite = word == "the"
            predicate = _PREDICATES.get(word, predicate)
    return things


def _words_of(thing: Thing) -> set[str]:
    return {thing.colour, thing.size, thing.texture}
