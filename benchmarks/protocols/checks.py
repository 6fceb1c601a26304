"""Holds the data of a run against what its task expects of a right copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import DataError
from ...tasks.schema import ROWS_OF
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow, SeenValues, item_key
from .document_reader import count_references

if TYPE_CHECKING:
    from .job import Job

_TAU_RATIO_TOLERANCE = 0.001
_NAMED = 6


@dataclass(frozen=True)
class DataCheck:
    """What a task expects of its data, and what was found.

    Attributes:
        check: Name of the check.
        expected: The number that a right copy has.
        found: The number of this one; None where there was none.
        passed: Whether they agree.
    """

    check: str
    expected: float
    found: float | None
    passed: bool


def faults_of_data(checks: Sequence[DataCheck]) -> list[str]:
    """Return what is wrong with a copy of the data: the part that it is, by its categories, then each number."""
    rows_of = [one for one in checks if one.check.startswith(ROWS_OF)]
    there = [one.check.removeprefix(ROWS_OF) for one in rows_of if one.found]
    is_part = 0 < len(there) < len(rows_of)
    faults: list[str] = []
    if is_part:
        more = f" and {len(there) - _NAMED:,} more" if len(there) > _NAMED else ""
        faults.append(f"{len(there)} of {len(rows_of)} categories: mean of {', '.join(there[:_NAMED])}{more}")
    return faults + [
        f"{one.check}: expected {one.expected:,}, found {'nothing' if one.found is None else f'{one.found:,}'}"
        for one in checks
        if not one.passed and (one.found or not (is_part and one in rows_of))
    ]


class Levels:
    """How often each rating occurs.

    Attributes:
        n: How many ratings there are.
        counts: ``[m]`` how often each of the ``m`` that occur does.
    """

    def __init__(self) -> None:
        self.n = 0
        self._values, self.counts = np.zeros(0), np.zeros(0, np.int64)

    def add(self, ratings: np.ndarray) -> None:
        """Count ratings; NaN, of a rater who gave none, is none."""
        values, counts = np.unique(ratings[~np.isnan(ratings)], return_counts=True)
        values, place = np.unique(np.concatenate([self._values, values]), return_inverse=True)
        counts = np.concatenate([self.counts, counts])
        self._values, self.counts = values, np.bincount(place, counts, len(values)).astype(np.int64)
        self.n = int(self.counts.sum())

    def tau_ratio(self) -> float:
        """Return τ-c/τ-b of a metric without ties, which depends on the ratings alone.

        With n rows of which n1 pairs tie in rating, m levels: τ-b = S/sqrt(N(N-n1)) and
        τ-c = 2Sm/(n²(m-1)) for N = n(n-1)/2 pairs and any S.
        """
        n, m = self.n, len(self.counts)
        counts = self.counts.astype(np.float64)
        pairs = n * (n - 1) / 2
        tied = float((counts * (counts - 1) / 2).sum())
        return 2 * m / (n**2 * (m - 1)) * float(np.sqrt(pairs * (pairs - tied)))


def run_checks(
    job: Job, levels: Levels | None = None, categories: Mapping[str, int] | None = None, **found: int
) -> list[DataCheck]:
    """Compare what was found with the ``checks`` of the task.

    Args:
        job: The run; with a limit nothing is compared, since only a part of the data was read.
        levels: The ratings, for the check of their distribution.
        categories: How many rows there are of each; None where the protocol has none.
        found: Counts by name of the check.

    Returns:
        The checks of the task.

    Raises:
        DataError: A check failed and checks are not skipped.
    """
    if job.settings.limit is not None:
        return []
    values: dict[str, float] = dict(found)
    values |= {f"{ROWS_OF}{name}": count for name, count in (categories or {}).items()}
    if job.task.checks.references is not None:
        values["references"] = count_references(job)
    if levels is not None and job.task.checks.tau_ratio is not None and len(levels.counts) > 1:
        values["tau_ratio"] = round(levels.tau_ratio(), 5)
    checks: list[DataCheck] = []
    for name, expected in job.task.checks.expected().items():
        value = values.get(name)
        tolerance = _TAU_RATIO_TOLERANCE if name == "tau_ratio" else 0
        passed = value is not None and abs(value - expected) <= tolerance
        checks.append(DataCheck(name, expected, value, passed))
    if (failed := faults_of_data(checks)) and not job.settings.skip_checks:
        rows = "".join(f"\n  {bad.place}: {bad.reason}" for bad in job.documents.bad_rows[:5])
        raise DataError(
            f"task '{job.task.task}': {job.documents.origin} is not the data that the task expects "
            f"({'; '.join(failed)})"
            + (f"\nRows that could not be read ({len(job.documents.bad_rows)} in all):{rows}" if rows else ""),
            f"'bench data {job.task.task}' says what is expected; --skip_checks goes on with what is there.",
        )
    return checks


class Tally:
    """Counts the rows of shards, for the data checks, and numbers categories in the order in which they come.

    Attributes:
        rows: How many there are.
        categories: Number of each category.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rows = 0
        self.categories: dict[str, int] = {}
        self._in_category: Counter[str] = Counter()
        self._items, self._images = SeenValues(), SeenValues()

    def add(
        self,
        categories: Sequence[str],
        images: Iterable[str],
        samples: Iterable[CaptionRow],
        weights: Sequence[int] = (),
    ) -> None:
        """Count the rows of a shard.

        Args:
            categories: Of each row.
            images: Of each row.
            samples: What the rows have scored.
            weights: How often each row counts in its category; once where that is left out.
        """
        self.rows += len(categories)
        for name, weight in zip(categories, weights or [1] * len(categories), strict=True):
            self.categories.setdefault(name, len(self.categories))
            self._in_category[name] += weight
        if self.job.task.checks.items is not None:
            self._items.add(map(item_key, samples))
        if self.job.task.checks.images is not None:
            self._images.add(images)

    def checks(self, levels: Levels | None = None) -> list[DataCheck]:
        """Compare the counts with the checks of the task; as of :func:`run_checks`.

        Args:
            levels: The ratings, where rows are these.
        """
        return run_checks(
            self.job,
            levels,
            self._in_category,
            documents=len(self.job.documents.rows),
            rows=self.rows if levels is None else levels.n,
            items=len(self._items),
            images=len(self._images),
        )


def no_rows(job: Job, what: str, failures: FailureLog) -> DataError:
    """Return the error of a run that has nothing to score, with the first failures."""
    first = [*failures.entries[:3], *failures.empty[:3]][:3]
    return DataError(
        f"task '{job.task.task}': {what}", "; ".join(f"{one.sample}: {one.subject} {one.reason}" for one in first)
    )
