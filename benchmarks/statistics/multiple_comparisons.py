"""Many pairs at once: Holm's correction, and letters that say which metrics do not differ."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return each p corrected for the number of tests, so that all of them hold together.

    The smallest of ``m`` p is multiplied by ``m``, the next by ``m - 1``, and so on, none falling below the one
    before it (Holm 1979). The chance that any true hypothesis is rejected at level α is then at most
    α, however the tests depend on one another.

    Args:
        ps: The p of each test; None where there is none, which is not counted.
    """
    order = sorted((p, number) for number, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, number) in enumerate(order):
        largest = max(largest, min(1.0, p * (len(order) - rank)))
        corrected[number] = largest
    return corrected


def significance_letters(count: int, different: Iterable[tuple[int, int]]) -> list[str]:
    """Return the letters of each metric: two share one if, and only if, they do not differ.

    Insert-and-absorb (Piepho 2004, *An algorithm for a letter-based representation of all-pairwise
    comparisons*): start with one letter for all; for each pair that differs, split every letter that holds
    both into two, one without each; drop letters whose metrics all share another one.

    Args:
        count: Number of metrics, in the order in which letters are given (best first).
        different: Pairs of metrics that differ.

    Returns:
        ``[count]`` letters, ``"a"`` first; after ``"Z"`` come numbers in brackets.
    """
    letters = [frozenset(range(count))]
    for one, other in different:
        split: list[frozenset[int]] = []
        for members in letters:
            split += [members - {one}, members - {other}] if {one, other} <= members else [members]
        unique = list(dict.fromkeys(split))
        letters = [members for members in unique if not any(members < rival for rival in unique)]
    ordered = sorted(letters, key=sorted)
    return ["".join(_letter(n) for n, members in enumerate(ordered) if i in members) for i in range(count)]


def _letter(number: int) -> str:
    known = string.ascii_letters
    return known[number] if number < len(known) else f"({number + 1})"
