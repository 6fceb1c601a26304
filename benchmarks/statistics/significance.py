"""Which of several metrics are significantly different: paired tests, Holm's correction, letters and rank ranges."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np

from .influence import Spread
from .intervals import FEWEST_FOR_LETTERS
from .paired import Difference, difference

ALPHA = 0.05
"""The level of the groups of a run; ``bench compare`` takes others."""


@dataclass(frozen=True)
class Ranking:
    """Metrics (or captioners), best first, and the differences of all pairs.

    Attributes:
        groups: Name to letters, best first: two have a letter in common exactly if they are not significantly
            different. Without letters where there are fewer than :data:`.intervals.FEWEST_FOR_LETTERS` images.
        pairs: All pairs, the better one first.
        differences: Of each pair.
        corrected: p of each pair after Holm's correction; None where it is undefined.
    """

    groups: dict[str, str]
    pairs: list[tuple[str, str]]
    differences: list[Difference]
    corrected: list[float | None]


def rank(estimates: Mapping[str, Spread], *, higher_is_better: bool, alpha: float = ALPHA) -> Ranking:
    """Rank estimates from the same resamples, and test every pair.

    Args:
        estimates: Name to its value on all rows and on the resamples.
        higher_is_better: Whether the greatest value is the best.
        alpha: Two differ where the p after Holm's correction is below it; intervals hold 1 - alpha.
    """
    names = sorted(estimates, key=lambda name: estimates[name].value, reverse=higher_is_better)
    indices = list(itertools.combinations(range(len(names)), 2))
    pairs = [(names[first], names[other]) for first, other in indices]
    differences = [difference(estimates[first], estimates[other], 1 - alpha) for first, other in pairs]
    corrected = holm([gap.p for gap in differences])
    different = [pair for pair, p in zip(indices, corrected, strict=True) if p is not None and p < alpha]
    letters = significance_letters(len(names), different)
    if any(estimate.images < FEWEST_FOR_LETTERS for estimate in estimates.values()):
        letters = [""] * len(names)
    return Ranking(dict(zip(names, letters, strict=True)), pairs, differences, corrected)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return each p after Holm's correction for the number of tests.

    The smallest of ``m`` p is multiplied by ``m``, the next by ``m - 1``, and so on, none falling below the one
    before it (Holm 1979). The probability that any true hypothesis is rejected at level α is then at most
    α, for any dependence of the tests.

    Args:
        ps: The p of each test; None where there is none, which is not counted.
    """
    tested = [number for number, p in enumerate(ps) if p is not None]
    corrected: list[float | None] = [None] * len(ps)
    for number, p in zip(tested, holm_of(np.array([ps[number] for number in tested], float)), strict=True):
        corrected[number] = float(p)
    return corrected


def holm_of(ps: np.ndarray) -> np.ndarray:
    """Return each p of ``[m]`` tests corrected for their number; see :func:`holm`."""
    order = np.argsort(ps, kind="stable")
    corrected = np.empty(len(ps))
    larger = np.minimum(1.0, ps[order] * np.arange(len(ps), 0, -1))
    corrected[order] = np.maximum.accumulate(larger)
    return corrected


def significance_letters(count: int, different: Iterable[tuple[int, int]]) -> list[str]:
    """Return the letters of each metric: two have a letter in common exactly if they are not significantly different.

    A letter stands for a set of metrics of which no two differ, as large as it can be (Piepho 2004, *An algorithm
    for a letter-based representation of all-pairwise comparisons*, whose insert-and-absorb takes time that
    doubles with every letter). Sets are made from the best metric downwards: of the pairs without a common letter,
    the two farthest apart begin a set, and each metric that differs from none of its members joins, best first.
    Where all pairs beyond a distance in rank differ, the sets are windows of the order.

    Args:
        count: Number of metrics, in the order in which letters are given (best first).
        different: Pairs of metrics that differ.

    Returns:
        ``[count]`` letters, ``"a"`` first. Up to 26 stand one after another, three or more neighbours as a range
        (``"a-d"``, ``"acd"``). Where there are more, ``"aa"`` comes after ``"z"``, and commas part them
        (``"y-ab,ad"``).
    """
    alike = _alike(count, different)
    unshared = [bits & ~(1 << number) for number, bits in enumerate(alike)]
    groups: list[list[int]] = []
    lettered = 0
    for start in range(count):
        while unshared[start] or not lettered >> start & 1:
            other = (unshared[start] or 1 << start).bit_length() - 1
            whole = 1 << start | 1 << other
            free = alike[start] & alike[other] & ~whole
            while free:
                newest = (free & -free).bit_length() - 1
                whole |= 1 << newest
                free &= alike[newest] & ~whole
            lettered |= whole
            groups.append(list(_bits(whole)))
            for member in groups[-1]:
                unshared[member] &= ~whole
    letters_of: list[list[int]] = [[] for _ in range(count)]
    for letter, members in enumerate(sorted(groups)):
        for member in members:
            letters_of[member].append(letter)
    return [_label(letters, len(groups)) for letters in letters_of]


def letters_in(label: str) -> set[str]:
    """Return the letters of a label of up to 26 groups: ``a-cf`` has a, b, c and f."""
    letters: set[str] = set()
    for first, last in re.findall(r"([a-z])(?:-([a-z]))?", label):
        start, end = ascii_lowercase.index(first), ascii_lowercase.index(last or first)
        letters |= set(ascii_lowercase[start : end + 1])
    return letters


def rank_ranges(count: int, different: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranks that the tests leave open to each metric, best and worst.

    The best is one more than the number of better metrics that differ from it, the worst is ``count`` less the number
    of worse ones that do.

    Args:
        count: Number of metrics, best first.
        different: Pairs of metrics that differ.
    """
    alike = _alike(count, different)
    better = [(1 << number) - 1 for number in range(count)]
    return [
        (1 + number - (bits & before).bit_count(), number + (bits & ~before).bit_count())
        for number, (bits, before) in enumerate(zip(alike, better, strict=True))
    ]


def _alike(count: int, different: Iterable[tuple[int, int]]) -> list[int]:
    """Return, as bits, which metrics each one is not significantly different from; itself is one of them."""
    pairs = np.array(list(different), np.intp).reshape(-1, 2)
    alike = np.ones((count, count), bool)
    alike[pairs, pairs[:, ::-1]] = False
    return [int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little") for row in alike]


def _bits(whole: int) -> Iterator[int]:
    """Yield the places of the bits that are set, rising."""
    while whole:
        yield (whole & -whole).bit_length() - 1
        whole &= whole - 1


def _label(letters: Sequence[int], in_all: int) -> str:
    runs: list[list[int]] = []
    for letter in letters:
        if runs and runs[-1][-1] == letter - 1:
            runs[-1].append(letter)
        else:
            runs.append([letter])
    parts: list[str] = []
    for run in runs:
        names = [_letter(number) for number in run]
        parts += names if len(run) < 3 else [f"{names[0]}-{names[-1]}"]
    return ("" if in_all <= len(ascii_lowercase) else ",").join(parts)


def _letter(number: int) -> str:
    """Return the name of a letter as spreadsheets name columns: ``a`` to ``z``, ``aa``, ``ab``."""
    more, last = divmod(number, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[last]
