"""Two runs of a task side by side: what they differ in, sample by sample, and word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np

from .finding import ShownRun
from .samples import RunSamples, relative_ranks

By = Literal["either", "first", "second"]
"""Whose advantage comes first: whichever is greater, that of the first, that of the second."""


@dataclass(frozen=True)
class Side:
    """One of two things that are compared.

    Attributes:
        run: Its run.
        samples: The samples of that run.
        metric: The metric.
    """

    run: ShownRun
    samples: RunSamples
    metric: str


@dataclass(frozen=True)
class Differences:
    """Samples of which both sides have a score, the largest difference first.

    Attributes:
        rows: ``[n, 2]`` numbers of the samples in either run.
        differences: ``[n]`` by how much the first is better.
        of_ranks: Whether these are of ranks, from 0 to 1: the two metrics have scales of their own.
    """

    rows: np.ndarray
    differences: np.ndarray
    of_ranks: bool

    def __len__(self) -> int:
        return len(self.rows)


def differences(first: Side, second: Side, by: By) -> Differences:
    """Return the samples that two sides share, in order.

    Args:
        first: One of them.
        second: The other, of the same task.
        by: Which differences come first.
    """
    rows = _shared_rows(first.samples, second.samples)
    values = np.column_stack(
        [side.samples.numbers(side.metric)[rows[:, at]] for at, side in enumerate((first, second))]
    )
    there = np.isfinite(values).all(axis=1)
    rows, values = rows[there], values[there]
    of_ranks = first.metric != second.metric
    better = []
    for side, column in zip((first, second), values.T, strict=True):
        upwards = side.run.record.higher_is_better(side.metric)
        better.append((relative_ranks(column) if of_ranks else column) * (1 if upwards else -1))
    difference = better[0] - better[1]
    keys = {"either": -np.abs(difference), "first": -difference, "second": difference}
    order = np.argsort(keys[by], kind="stable")
    return Differences(rows[order], difference[order], of_ranks)


def _shared_rows(first: RunSamples, second: RunSamples) -> np.ndarray:
    """Return ``[n, 2]`` the numbers of the samples that both have, in the order of the first."""
    if first is second:
        return np.repeat(np.arange(len(first))[:, None], 2, axis=1)
    place = {identity: row for row, identity in enumerate(second.column("id"))}
    shared = [(row, place[identity]) for row, identity in enumerate(first.column("id")) if identity in place]
    return np.asarray(shared, np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class Word:
    """A part of a text, and whether the other text has it."""

    text: str
    shared: bool


def word_differences(first: str, second: str) -> tuple[list[Word], list[Word]]:
    """Return two texts in parts, those that they share and those that one of them has alone, word by word."""
    words = first.split(), second.split()
    found: tuple[list[Word], list[Word]] = [], []
    folded = [[one.lower().strip(".,;:!?\"'") for one in side] for side in words]
    matcher = SequenceMatcher(None, *folded, autojunk=False)
    for kind, *ends in matcher.get_opcodes():
        for side, start, end in ((0, *ends[:2]), (1, *ends[2:])):
            if end > start:
                found[side].append(Word(" ".join(words[side][start:end]), kind == "equal"))
    return found


def comparable(run: ShownRun, runs: Sequence[ShownRun]) -> list[ShownRun]:
    """Return the other runs of a run's task and version; none where ``bench compare`` does not know its protocol."""
    return [
        one for one in runs
        if run.record.protocol.comparable
        and one.key != run.key
        and (one.record.task, one.record.version) == (run.record.task, run.record.version)
    ]  # fmt: skip
