"""System-level values of a captioner: of all documents, and of the parts of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ....mapped_numbers import let_go
from ...statistics.bootstrap import resample_values
from ...statistics.contract import Interval, UndefinedStatistic, finite_value
from ...statistics.influence import Influence, by_influence
from ...statistics.resampling import Value
from ..job import INTERVALS, Collected, Job
from ..results import Result, ScoredMetric, shown_times

CategoryAggregate = Literal["all", "categories"]
"""What stands beside the values of categories: the value of all documents, or the unweighted mean of categories."""


@dataclass(frozen=True)
class _Part:
    """What a value is of: one category, all of them together, or their mean.

    Attributes:
        name: The category; empty for what stands for all.
        members: ``[items]`` each, whether an item counts; the mean over several is taken.
    """

    name: str
    members: Sequence[np.ndarray]

    @property
    def items(self) -> np.ndarray:
        """``[items]`` whether an item counts in any of them."""
        return np.logical_or.reduce(self.members)

    def value(self, scored: ScoredMetric) -> Value:
        """Return what gives the value for weights of the items."""
        values = [scored.value_of_weights(members) for members in self.members]
        return (
            values[0] if len(values) == 1 else lambda weights: float(np.mean([of(weights) for of in values]))
        )

    def influence(self, scored: ScoredMetric) -> Influence | None:
        """Return what each item adds to the value; None where the metric has no sums."""
        found = [scored.influence(members) for members in self.members]
        known = [one for one in found if one is not None]
        return Influence.mean(known) if len(known) == len(found) else None


def system_results(
    job: Job, collected: Collected, scored: Sequence[ScoredMetric], aggregate: CategoryAggregate
) -> list[Result]:
    """Return the system-level value of each metric by category, then of all, with intervals over documents."""
    *categories, whole = _parts(collected, aggregate)
    found: dict[tuple[str, str], tuple[float | None, str]] = {}
    for one in scored:
        found |= {(one.name, part.name): _value(one, part) for part in categories}
        found[one.name, ""] = (
            _value(one, whole) if len(whole.members) > 1 else _of_all(one, collected.weights)
        )
    intervals = _intervals(
        job, collected, scored, [*categories, whole], [key for key in found if found[key][0] is not None]
    )
    results: list[Result] = []
    for one in scored:
        for part in (*categories, whole):
            value, reason = found[one.name, part.name]
            n = 0
            if one.scores is not None and value is not None:
                n = int((part.items & np.isfinite(one.scores.values)).sum())
                let_go()
            results.append(
                Result(
                    one.name,
                    one.aggregation,
                    (one.metric.label, " ".join(filter(None, (one.aggregation, part.name)))),
                    value,
                    n,
                    one.metric.direction,
                    shown_times(job.task.scale, one.metric.range),
                    intervals.get((one.name, part.name)),
                    reason,
                    category=part.name,
                )
            )
    return results


def _parts(collected: Collected, aggregate: CategoryAggregate) -> list[_Part]:
    """Return the categories, where there are several, and what stands for all of them."""
    names, everyone = collected.summary.categories, np.ones(len(collected.weights), bool)
    if len(names) < 2:
        return [_Part("", [everyone])]
    category = collected.numbers["category"]
    members: list[np.ndarray] = []
    for number in range(len(names)):
        members.append(np.zeros_like(everyone))
        members[-1][collected.item_of_sample[category == number]] = True
    of_all = members if aggregate == "categories" else [everyone]
    return [*(_Part(name, [one]) for name, one in zip(names, members, strict=True)), _Part("", of_all)]


def _of_all(scored: ScoredMetric, weights: np.ndarray) -> tuple[float | None, str]:
    value = scored.value_of_all(weights)
    return value, "" if value is not None else scored.error or scored.aggregate.undefined


def _value(scored: ScoredMetric, part: _Part) -> tuple[float | None, str]:
    """Return a value, or None and why there is none."""
    if scored.scores is None:
        return None, scored.error
    try:
        return finite_value(part.value(scored), np.ones(len(scored.scores.values))), ""
    except UndefinedStatistic as error:
        return None, str(error)


def _intervals(
    job: Job,
    collected: Collected,
    scored: Sequence[ScoredMetric],
    parts: Sequence[_Part],
    defined: Sequence[tuple[str, str]],
) -> dict[tuple[str, str], Interval]:
    """Return the interval of each value that there is; all are of the same resamples, drawn once."""
    settings, documents = job.settings, len(collected.weights)
    if not settings.resamples:
        return {}
    asked = {
        (one.name, part.name): (one, part)
        for one in scored
        for part in parts
        if (one.name, part.name) in defined
    }
    found: dict[tuple[str, str], Interval] = {}
    if by_influence(settings.intervals, documents):
        # One after the other: the influences of one value are in memory at a time.
        for key, (one, part) in asked.items():
            if spread := part.influence(one):
                found[key] = spread.interval(settings.level)
            let_go()
    waiting = {str(key): (key, part.value(one)) for key, (one, part) in asked.items() if key not in found}
    if waiting:
        resampled = resample_values(
            {text: value for text, (_, value) in waiting.items()},
            np.arange(documents),
            resamples=settings.resamples,
            seed=settings.seed,
            progress=job.progress(INTERVALS),
        )
        found |= {key: resampled[text].interval(settings.level) for text, (key, _) in waiting.items()}
    return found
