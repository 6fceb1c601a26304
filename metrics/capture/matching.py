"""Matching of the elements of two scene graphs: equal, synonymous, then similar in meaning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from .scene_graphs import Graph
from .wordnet import WordNet

Kind = Literal["object", "attribute", "relation"]
KINDS: tuple[Kind, ...] = ("object", "attribute", "relation")
Soft = Literal["sum", "mean", "off"]

_EPSILON = 1e-6


@dataclass(frozen=True)
class Element:
    """An object, an attribute or a relation.

    Attributes:
        words: The compared words: the object; the attribute; subject, relation and object.
        owner: The object that an attribute is said of, which takes no part in the comparison.
    """

    words: tuple[str, ...]
    owner: str = ""

    @property
    def phrase(self) -> str:
        """The text to encode if it is unmatched."""
        return " ".join(self.words)


@dataclass(frozen=True)
class Pairing:
    """Elements of one kind, and which were matched one to one.

    Attributes:
        candidate: Elements of the candidate.
        reference: Elements of the reference.
        equal: (candidate, reference) numbers of elements with equal words.
        synonymous: The same of synonyms.
    """

    candidate: tuple[Element, ...]
    reference: tuple[Element, ...]
    equal: tuple[tuple[int, int], ...]
    synonymous: tuple[tuple[int, int], ...]

    def left_over(self) -> tuple[list[int], list[int]]:
        """Return the numbers of the candidate's and of the reference's elements that were not matched."""
        matched = (*self.equal, *self.synonymous)
        candidates, references = {number for number, _ in matched}, {other for _, other in matched}
        return (
            [number for number in range(len(self.candidate)) if number not in candidates],
            [number for number in range(len(self.reference)) if number not in references],
        )


@dataclass(frozen=True)
class NearestElement:
    """An element left over, and the most similar one that is left over on the other side.

    Attributes:
        element: Its number.
        nearest: The other's number.
        similarity: Cosine of their phrases, -1 to 1.
    """

    element: int
    nearest: int
    similarity: float


@dataclass(frozen=True)
class KindScore:
    """A pairing with what soft matching adds, and the scores.

    Attributes:
        pairing: The one-to-one matches.
        candidate_similar: For each element of the candidate that is left over; empty if either side has none.
        reference_similar: The same for the reference.
        precision: Share of the candidate that is matched; may be negative, as cosines are.
        recall: The same of the reference.
        f1: Their harmonic mean; 0 where either side has no element.
    """

    pairing: Pairing
    candidate_similar: tuple[NearestElement, ...]
    reference_similar: tuple[NearestElement, ...]
    precision: float
    recall: float
    f1: float


def synonym_check(wordnet: WordNet, substring: bool) -> Callable[[str, str], bool]:
    """Return what tells whether two words are equal or synonyms.

    Args:
        wordnet: Knows them.
        substring: Whether a word inside of the other is one too ("car" and "scarf"), as released.
    """

    @lru_cache(maxsize=1_000_000)
    def check(word: str, other: str) -> bool:
        inside = substring and (word in other or other in word)
        return inside or word == other or not wordnet.synonyms(word).isdisjoint(wordnet.synonyms(other))

    return check


def elements(graph: Graph, kind: Kind, repeated_attributes: bool = True) -> tuple[Element, ...]:
    """Return the elements of one kind, in the graph's order.

    Args:
        graph: The graph.
        kind: Which.
        repeated_attributes: Whether an attribute of two objects counts twice, as released.
    """
    if kind == "object":
        return tuple(Element((name,)) for name in graph.objects)
    if kind == "relation":
        return tuple(map(Element, graph.relations))
    attributes = [Element((attribute,), name) for name, attribute in graph.attributes]
    if not repeated_attributes:
        attributes = list({element.words: element for element in reversed(attributes)}.values())[::-1]
    return tuple(attributes)


def pair(
    candidate: Sequence[Element], reference: Sequence[Element], synonyms: Callable[[str, str], bool] | None
) -> Pairing:
    """Match elements one to one: equal ones first, then those of which all words are synonyms.

    Greedy in the given order: each of the candidate takes the first of the reference that is free.
    """
    free: dict[int, Element] = dict(enumerate(reference))
    equal: list[tuple[int, int]] = []
    places: dict[tuple[str, ...], list[int]] = {}
    for number, element in reversed(free.items()):
        places.setdefault(element.words, []).append(number)
    for number, element in enumerate(candidate):
        if places.get(element.words):
            equal.append((number, places[element.words].pop()))
    for _, number in equal:
        del free[number]
    synonymous: list[tuple[int, int]] = []
    matched = {number for number, _ in equal}
    for number, element in enumerate(candidate):
        if synonyms is None or number in matched:
            continue
        for other, reference_element in free.items():
            if all(map(synonyms, element.words, reference_element.words)):
                synonymous.append((number, other))
                del free[other]
                break
    return Pairing(tuple(candidate), tuple(reference), tuple(equal), tuple(synonymous))


def finish(pairing: Pairing, vectors: Mapping[str, np.ndarray], soft: Soft) -> KindScore:
    """Add the similarities of unmatched elements, and score.

    Args:
        pairing: The one-to-one matches.
        vectors: Phrase to its unit vector ``[d]``, for all that are left over on both sides.
        soft: The addition to the count of matches: the ``sum`` of the similarities, as released, or their
            ``mean`` (the paper's equation 5), or nothing.
    """
    candidates, references = pairing.left_over()
    of_candidate: tuple[NearestElement, ...] = ()
    of_reference: tuple[NearestElement, ...] = ()
    if soft != "off" and candidates and references:
        similarity = (
            np.stack([vectors[pairing.candidate[number].phrase] for number in candidates])
            @ np.stack([vectors[pairing.reference[number].phrase] for number in references]).T
        )
        of_candidate = _nearest(similarity, candidates, references)
        of_reference = _nearest(similarity.T, references, candidates)
    hits = len(pairing.equal) + len(pairing.synonymous)
    precision = (hits + _added(of_candidate, soft)) / (len(pairing.candidate) + _EPSILON)
    recall = (hits + _added(of_reference, soft)) / (len(pairing.reference) + _EPSILON)
    f1 = 2 * precision * recall / (precision + recall + _EPSILON)
    return KindScore(pairing, of_candidate, of_reference, precision, recall, f1)


def _nearest(similarity: np.ndarray, rows: list[int], columns: list[int]) -> tuple[NearestElement, ...]:
    best = similarity.argmax(axis=1).tolist()
    values = similarity.max(axis=1).tolist()
    return tuple(
        NearestElement(row, columns[column], value) for row, column, value in zip(rows, best, values, strict=True)
    )


def _added(similar: Sequence[NearestElement], soft: Soft) -> float:
    total = sum(element.similarity for element in similar)
    return total / len(similar) if soft == "mean" and similar else total
