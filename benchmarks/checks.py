"""Holds the data of a run against what its task expects of a right copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError

if TYPE_CHECKING:
    from .protocols.contract import Job

_TAU_RATIO_TOLERANCE = 0.001


def tau_ratio(human: np.ndarray) -> float:
    """Return τ-c/τ-b of a metric without ties, which depends on the ratings alone.

    With n rows of which n1 pairs tie in rating, m levels: τ-b = S/sqrt(N(N-n1)) and
    τ-c = 2Sm/(n²(m-1)) for N = n(n-1)/2 pairs and any S.

    Args:
        human: ``[n]`` ratings, of at least two levels.
    """
    n = len(human)
    counts = np.unique(human, return_counts=True)[1].astype(np.float64)
    pairs = n * (n - 1) / 2
    tied = float((counts * (counts - 1) / 2).sum())
    m = len(counts)
    return 2 * m / (n**2 * (m - 1)) * float(np.sqrt(pairs * (pairs - tied)))


def run_checks(job: Job, human: np.ndarray | None = None, **found: int) -> list[dict[str, Any]]:
    """Compare what was found with the ``checks`` of the task.

    Args:
        job: The run; with a limit nothing is compared, since only a part of the data was read.
        human: ``[n]`` ratings, for the check of their distribution.
        found: Counts by name of the check.

    Returns:
        One record a check: name, expected, found, passed.

    Raises:
        DataError: A check failed and checks are not skipped.
    """
    if job.settings.limit is not None:
        return []
    values: dict[str, float] = dict(found)
    if human is not None and job.task.checks.tau_ratio is not None and len(np.unique(human)) > 1:
        values["tau_ratio"] = round(tau_ratio(human), 5)
    records = []
    for name, expected in job.task.checks.model_dump(exclude_none=True).items():
        value = values.get(name)
        tolerance = _TAU_RATIO_TOLERANCE if name == "tau_ratio" else 0
        passed = value is not None and abs(value - expected) <= tolerance
        records.append({"check": name, "expected": expected, "found": value, "passed": passed})
    failed = [record for record in records if not record["passed"]]
    if failed and not job.settings.skip_checks:
        faults = "; ".join(f"{r['check']}: expected {r['expected']}, found {r['found']}" for r in failed)
        rows = "".join(f"\n  {bad.place}: {bad.reason}" for bad in job.documents.bad_rows[:5])
        raise DataError(
            f"task '{job.task.task}': {job.documents.origin} is not the data that the task expects ({faults})"
            + (
                f"\nRows that could not be read ({len(job.documents.bad_rows)} in all):{rows}" if rows else ""
            ),
            f"'bench data {job.task.task}' says what is expected; --skip_checks goes on with what is there.",
        )
    return records
