"""What people prefer, in the forms in which data gives it: votes, ties, grades, rankings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....rows import parse_number
from ..document_reader import is_list


@dataclass(frozen=True)
class VoteReading:
    """How a task's votes are read.

    Attributes:
        tie_words: Texts that say that there is no difference, lower-cased.
        grades: The grades that say most for the first of two, and most for the second; None where votes are numbers of
            candidates.
    """

    tie_words: frozenset[str]
    grades: tuple[float, float] | None


def shares_of(
    preferred: Any, candidates: int, reading: VoteReading, systems: Sequence[str] = ()
) -> tuple[float, ...] | str:
    """Return the share of the votes that each candidate has, or why a value is no vote.

    Args:
        preferred: A vote, or a list of votes, of which null ones are of people who gave none. A vote is the number of a
            candidate, from 0; what wrote it; a word for a tie; of two candidates a number between 0 (the first) and
            1 (the second), so that 0.5 is a tie; or a grade.
        candidates: How many there are.
        reading: How votes are read.
        systems: What wrote each, where that is known.

    Returns:
        ``candidates`` shares of sum 1.
    """
    given = [vote for vote in (preferred if is_list(preferred) else [preferred]) if vote is not None]
    if not given:
        return "is missing"
    votes: list[list[float]] = []
    for vote in given:
        shares = _shares(vote, candidates, reading, systems)
        if isinstance(shares, str):
            return shares
        votes.append(shares)
    return tuple(math.fsum(column) / len(votes) for column in zip(*votes, strict=True))


def _shares(vote: Any, candidates: int, reading: VoteReading, systems: Sequence[str]) -> list[float] | str:
    if isinstance(vote, str):
        if vote.strip().lower() in reading.tie_words:
            return [1 / candidates] * candidates
        if systems.count(vote) == 1:
            return _all_for(systems.index(vote), candidates)
    try:
        number = parse_number(vote)
    except (TypeError, ValueError, OverflowError):
        names = f", none of {', '.join(map(repr, systems))}" if systems else ""
        return f"is no number of a candidate, no tie{names}: {vote!r:.80}"
    if reading.grades is not None:
        return _graded(number, candidates, reading.grades)
    if candidates == 2 and 0 <= number <= 1:
        return [1 - number, number]
    if number in range(candidates):
        return _all_for(int(number), candidates)
    return f"is a vote for a candidate that does not exist, as there are {candidates} (from 0): {vote!r:.80}"


def _graded(number: float, candidates: int, grades: tuple[float, float]) -> list[float] | str:
    if candidates != 2:
        return f"is a grade of two candidates, and there are {candidates}"
    share = (number - grades[0]) / (grades[1] - grades[0])
    if not 0 <= share <= 1:
        return f"lies outside of the grades {grades[0]:g} to {grades[1]:g}: {number:g}"
    return [1 - share, share]


def _all_for(candidate: int, candidates: int) -> list[float]:
    return [float(number == candidate) for number in range(candidates)]


def pairs_of_ranking(ranking: Any, candidates: int) -> list[tuple[int, int, tuple[float, float]]] | str:
    """Return all pairs of ranked candidates with the shares of both, or why a value is no ranking.

    Args:
        ranking: The rank of each candidate, 1 for the best; equal ranks are a tie, null is a candidate without.
        candidates: How many there are.
    """
    if not is_list(ranking) or len(ranking) != candidates:
        return f"is not a list of {candidates} ranks: {ranking!r:.80}"
    ranks: list[float | None] = []
    for rank in ranking:
        try:
            ranks.append(None if rank is None else parse_number(rank))
        except (TypeError, ValueError, OverflowError):
            return f"holds a rank that is no number: {rank!r:.80}"
    found: list[tuple[int, int, tuple[float, float]]] = []
    for first, one in enumerate(ranks):
        for second in range(first + 1, candidates):
            other = ranks[second]
            if one is not None and other is not None:
                share = 0.5 if one == other else float(one > other)
                found.append((first, second, (1 - share, share)))
    return found or "has no two ranks"
