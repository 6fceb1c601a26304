"""What a fact of a scene graph is compared as: tuples of words for SPICE, phrases for soft-SPICE.

As FactualSceneGraph 0.7.3 does (spice_evaluation.py, soft_spice_evaluation.py). Its facts come out of Python sets; here
they are gone through in the order of their letters, so that every value is always the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

Words = set[str]
"""Words that mean the same."""
Merged = list[Words]
"""A tuple, its words each beside others that mean the same."""
Synonyms = Callable[[str], frozenset[int]]
"""Returns the synonym sets of a word or phrase."""


def merged(facts: Sequence[Fact], synonyms: Synonyms) -> list[Merged]:
    """Return tuples of which none says what another one does.

    Words of no synonym set are merged with nothing, themselves included, so that a tuple with such a word stays.

    Args:
        facts: The tuples of a graph, in the order of their letters.
        synonyms: Returns the synonym sets of a word or phrase.
    """
    of_facts = [[{word} for word in fact] for fact in facts]
    of_size = {size: [words for words in of_facts if len(words) == size] for size in (1, 2, 3)}
    objects = _grouped([words[0] for words in of_size[1]], synonyms)
    _widen([words[0] for words in of_size[1]], objects, synonyms)
    for place in (0, 2):
        named = [words[place] for words in of_size[3]]
        objects = _grouped(named, synonyms, objects)
        _widen(named, objects, synonyms)
    for size in (2, 3):
        said = [words[1] for words in of_size[size]]
        _widen(said, _grouped(said, synonyms), synonyms)
    found: list[Merged] = []
    for one in of_facts:
        alike = next((number for number, other in enumerate(found) if _means(one, other, synonyms)), None)
        if alike is None:
            found.append(one)
        else:
            found[alike] = [a | b for a, b in zip(one, found[alike], strict=True)]
    return found


def matches_of_merged(candidate: Sequence[Merged], reference: Sequence[Merged], synonyms: Synonyms | None) -> int:
    """Return how many tuples match one to one: those with all words in common first, then those of synonyms.

    Greedy in the given order: each of the candidate takes the first of the reference that is free.

    Args:
        candidate: The candidate's tuples.
        reference: The references' tuples.
        synonyms: As of :func:`merged`; None where synonyms do not match.
    """
    left, free = _unmatched(candidate, reference, _shares)
    if synonyms is not None:
        left, _ = _unmatched(left, free, partial(_means, synonyms=synonyms))
    return len(candidate) - len(left)


def _unmatched(
    candidate: Iterable[Merged], reference: Iterable[Merged], fits: Callable[[Merged, Merged], bool]
) -> tuple[list[Merged], list[Merged]]:
    """Return the tuples of both sides that are left where each of the candidate takes the first that fits."""
    left, free = list[Merged](), list(reference)
    for one in candidate:
        place = next((number for number, other in enumerate(free) if fits(one, other)), None)
        if place is None:
            left.append(one)
        else:
            del free[place]
    return left, free


def _grouped(named: Iterable[Words], synonyms: Synonyms, known: list[Words] | None = None) -> list[Words]:
    """Return the groups of words that share a synonym set; where groups are known, these, with more words each."""
    groups = [] if known is None else list(known)
    for words in named:
        mine = _sets(words, synonyms)
        alike = next((number for number, its in enumerate(groups) if mine & _sets(its, synonyms)), None)
        if alike is not None:
            groups[alike] = groups[alike] | words
        elif known is None:
            groups.append(words)
    return groups


def _widen(named: Iterable[Words], groups: Sequence[Words], synonyms: Synonyms) -> None:
    """Add to words all those of the first group that they share a synonym set with."""
    for words in named:
        mine = _sets(words, synonyms)
        words |= next((its for its in groups if mine & _sets(its, synonyms)), set())


def _sets(words: Iterable[str], synonyms: Synonyms) -> frozenset[int]:
    return frozenset().union(*map(synonyms, words))


def _shares(one: Merged, other: Merged) -> bool:
    return len(one) == len(other) and all(a & b for a, b in zip(one, other, strict=True))


def _means(one: Merged, other: Merged, synonyms: Synonyms) -> bool:
    return len(one) == len(other) and all(
        _sets(a, synonyms) & _sets(b, synonyms) for a, b in zip(one, other, strict=True)
    )


Fact = tuple[str, ...]
"""Its parts: an object; object and attribute; subject, relation (of one part or more) and object."""

_IS = "is"


def tuples(facts: Iterable[Fact]) -> list[Fact]:
    """Return the tuples of objects, attributes and relations, in the order of their letters.

    Of two with the same letters ("traffic light" as an object, and "light" of "traffic") one counts.
    """
    found: dict[str, Fact] = {}
    for fact in sorted(facts):
        first, last = fact[0], fact[-1]
        if len(fact) == 1:
            its = [fact]
        elif len(fact) == 2 or (len(fact) == 3 and fact[1] == _IS):
            its = [(first, last), (first,)]
        else:
            its = [(first, " ".join(fact[1:-1]), last), (first,), (last,)]
        for one in its:
            found.setdefault(" ".join(one), one)
    return [found[letters] for letters in sorted(found)]


def phrases(facts: Iterable[Fact]) -> list[str]:
    """Return the phrases whose meanings are compared, in the order of their letters."""
    found: set[str] = set()
    for fact in facts:
        found.add(fact[0])
        if len(fact) == 1:
            continue
        if len(fact) == 2:
            found.add(f"{fact[1]} {fact[0]}")
        elif fact[1] == _IS:
            found.add(f"{fact[2]} {fact[0]}")
        else:
            found |= {" ".join(fact), fact[-1]}
    return sorted(found)


def matches(
    candidate: Sequence[Fact], reference: Sequence[Fact], synonyms: Callable[[str], frozenset[int]] | None
) -> int:
    """Return how many tuples match one to one: equal ones first, then those of which all words are synonyms.

    Greedy in the given order: each of the candidate takes the first of the reference that is free.

    Args:
        candidate: The candidate's tuples, distinct.
        reference: The references' tuples, distinct.
        synonyms: Returns the synonym sets of a word or phrase; None where synonyms do not match.
    """
    equal = set(candidate) & set(reference)
    if synonyms is None:
        return len(equal)
    free = [[synonyms(word) for word in one] for one in reference if one not in equal]
    matched = len(equal)
    for one in candidate:
        if one in equal:
            continue
        mine = [synonyms(word) for word in one]
        for number, theirs in enumerate(free):
            if len(mine) == len(theirs) and all(a & b for a, b in zip(mine, theirs, strict=True)):
                del free[number]
                matched += 1
                break
    return matched
