"""What a fact of a scene graph is compared as: tuples of words for SPICE, phrases for soft-SPICE.

As FactualSceneGraph 0.7.3 does (spice_evaluation.py, soft_spice_evaluation.py). Its facts come out of Python sets; here
they are gone through in the order of their letters, so that every value is always the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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
