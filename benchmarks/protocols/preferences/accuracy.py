"""Accuracy: what choices count on average, of a category or of all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...statistics.contract import UndefinedStatistic
from ...statistics.influence import influence_of_mean
from ...statistics.rated_rows import first_seen
from ..job import Collected, Job
from ..results import Result


def accuracy_result(
    job: Job,
    collected: Collected,
    subject: tuple[str, str],
    statistic: str,
    credit: np.ndarray,
    categories: Sequence[str],
    *,
    by_category: bool,
    reason: str = "",
) -> Result:
    """Return the accuracy in some categories, with an interval over images.

    Args:
        job: The run.
        collected: Its choices.
        subject: Name and label of what it is of.
        statistic: Its name.
        credit: ``[choices]`` what each counts; NaN where it does not.
        categories: One category, or all of them.
        by_category: Whether several give their unweighted mean, not the value of all choices.
        reason: Why there is no credit at all.
    """
    members = _members(collected, categories, np.isfinite(credit), by_category)

    def accuracy(weights: np.ndarray) -> float:
        shares: list[float] = []
        for mask in members:
            if not weights[mask].any():
                raise UndefinedStatistic("a category has no choice that counts")
            shares.append(float(np.average(credit[mask], weights=weights[mask])))
        return float(np.mean(shares))

    named, value, interval = list(categories if len(categories) == 1 else ()), None, None
    try:
        if not reason:
            value = accuracy(np.ones(len(credit)))
            interval = job.settings.interval(
                accuracy,
                first_seen(collected.numbers["image"]),
                lambda: np.mean([influence_of_mean(credit, 1.0 * one) for one in members], axis=0),
            )
    except UndefinedStatistic as error:
        reason = str(error)
    return Result(
        subject[0],
        statistic,
        (subject[1], " ".join([*statistic.split("_"), *named])),
        value,
        int(sum(mask.sum() for mask in members)),
        True,
        job.task.scale,
        interval,
        reason,
        category="".join(named),
    )


def _members(
    collected: Collected, categories: Sequence[str], counts: np.ndarray, by_category: bool
) -> list[np.ndarray]:
    """Return ``[choices]`` which choices count in each category, or in all of them together."""
    numbers = [collected.summary.categories.index(one) for one in categories]
    members = [(collected.numbers["category"] == one) & counts for one in numbers]
    return members if by_category else [np.logical_or.reduce(members)]
