"""Compares the data of a run with the checks of its task."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import DataError
from ...tasks.schema import ROWS_OF
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow, SeenValues, item_key
from ..inputs.recorded import RecordedCheck
from .document_reader import count_references

if TYPE_CHECKING:
    from .job import Job

_TAU_RATIO_TOLERANCE = 0.001
_NAMED = 6


def faults_of_data(checks: Sequence[RecordedCheck]) -> list[str]:
    """Return the faults of a copy of the data: the categories that it has, if a part, then each number."""
    rows_of = [check for check in checks if check.check.startswith(ROWS_OF)]
    there = [check.check.removeprefix(ROWS_OF) for check in rows_of if check.found]
    is_part = 0 < len(there) < len(rows_of)
    faults: list[str] = []
    if is_part:
        more = f" and {len(there) - _NAMED:,} more" if len(there) > _NAMED else ""
        faults.append(f"{len(there)} of {len(rows_of)} categories: mean of {', '.join(there[:_NAMED])}{more}")
    return faults + [
        f"{check.check}: expected {check.expected:,}, found {'nothing' if check.found is None else f'{check.found:,}'}"
        for check in checks
        if not check.passed and (check.found or not (is_part and check in rows_of))
    ]


def _tau_ratio(levels: Counter[float]) -> float:
    """Return τ-c/τ-b of a metric without ties, which depends on the ratings alone.

    With n rows of which n1 pairs tie in rating, m levels: τ-b = S/sqrt(N(N-n1)) and
    τ-c = 2Sm/(n²(m-1)) for N = n(n-1)/2 pairs and any S.

    Args:
        levels: Count of each of the ``m`` distinct ratings.
    """
    n, m = levels.total(), len(levels)
    pairs = n * (n - 1) / 2
    tied = sum(count * (count - 1) / 2 for count in levels.values())
    return 2 * m / (n**2 * (m - 1)) * math.sqrt(pairs * (pairs - tied))


def run_checks(
    job: Job, levels: Counter[float] | None = None, categories: Mapping[str, int] | None = None, **counts: int
) -> list[RecordedCheck]:
    """Compare the number of documents, and other counts, with the ``checks`` of the task.

    Args:
        job: The run; with a limit nothing is compared.
        levels: Count of each distinct rating, for the check of their distribution.
        categories: Number of rows of each; None where the protocol has none.
        **counts: Other counts by name of the check.

    Returns:
        The checks of the task.

    Raises:
        DataError: A check failed and checks are not skipped.
    """
    if job.settings.limit is not None:
        return []
    values: dict[str, float] = {"documents": len(job.documents.rows), **counts}
    values |= {f"{ROWS_OF}{name}": count for name, count in (categories or {}).items()}
    if job.task.checks.references is not None:
        values["references"] = count_references(job)
    if levels is not None and job.task.checks.tau_ratio is not None and len(levels) > 1:
        values["tau_ratio"] = round(_tau_ratio(levels), 5)
    checks: list[RecordedCheck] = []
    for name, expected in job.task.checks.expected().items():
        value = values.get(name)
        tolerance = _TAU_RATIO_TOLERANCE if name == "tau_ratio" else 0
        passed = value is not None and abs(value - expected) <= tolerance
        checks.append(RecordedCheck(check=name, expected=expected, found=value, passed=passed))
    if (failed := faults_of_data(checks)) and not job.settings.skip_checks:
        rows = "".join(f"\n  {bad.place}: {bad.reason}" for bad in job.documents.bad_rows[:5])
        raise DataError(
            f"task '{job.task.task}': {job.documents.origin} is not the data that the task expects "
            f"({'; '.join(failed)})" + (f"\nUnreadable rows ({len(job.documents.bad_rows)}):{rows}" if rows else ""),
            f"'bench data {job.task.task}' prints the expected data; --skip_checks continues with this data.",
        )
    return checks


class Tally:
    """Counts the rows of shards for the data checks, and numbers categories in order of occurrence.

    Attributes:
        rows: Number of rows.
        categories: Number of each category.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rows = 0
        self.categories: dict[str, int] = {}
        self._in_category: Counter[str] = Counter()
        self._items, self._images = SeenValues(), SeenValues()

    def add(self, categories: Sequence[str], samples: Sequence[CaptionRow], weights: Sequence[int] = ()) -> None:
        """Count the rows of a shard.

        Args:
            categories: Of each row.
            samples: The scored samples of the rows.
            weights: Weight of each row in its category; by default 1.
        """
        self.rows += len(categories)
        for name, weight in zip(categories, weights or [1] * len(categories), strict=True):
            self.categories.setdefault(name, len(self.categories))
            self._in_category[name] += weight
        if self.job.task.checks.items is not None:
            self._items.add(map(item_key, samples))
        if self.job.task.checks.images is not None:
            self._images.add(sample.image for sample in samples)

    def checks(self, levels: Counter[float] | None = None) -> list[RecordedCheck]:
        """Compare the counts with the checks of the task; as of :func:`run_checks`.

        Args:
            levels: Count of each distinct rating, where each row is one.
        """
        return run_checks(
            self.job,
            levels,
            self._in_category,
            rows=self.rows if levels is None else levels.total(),
            items=len(self._items),
            images=len(self._images),
        )


def no_rows(job: Job, message: str, failures: FailureLog) -> DataError:
    """Return the error of a run with nothing to score, with the first failures."""
    first = [*failures.entries[:3], *failures.empty[:3]][:3]
    return DataError(
        f"task '{job.task.task}': {message}",
        "; ".join(f"{failure.sample}: {failure.subject} {failure.reason}" for failure in first),
    )
