"""What a plot of agreement shows, read from records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import DataError, UsageError, did_you_mean
from ..protocols import names_where
from ..protocols.results import Result
from ..records.record import Record
from .runs import Chosen, by_task, choose, limit_note, require_metrics

if TYPE_CHECKING:
    from ..protocols.contract import Protocol


@dataclass(frozen=True)
class Estimate:
    """How far a metric agrees with human judgement, unscaled.

    Attributes:
        label: Name of the metric in the plot.
        value: The measured value; None where it is undefined.
        low: Lower end of its confidence interval; None where it has none.
        high: Upper end.
        n: Rows behind it.
        published: The published value.
        printed: The same as the paper prints it.
        group: Significance letters; empty where there are none.
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    published: float | None
    printed: str
    group: str


@dataclass(frozen=True)
class Panel:
    """One task.

    Attributes:
        title: The task.
        statistic: The statistic as papers print it.
        scale: Values are shown times this.
        level: Coverage of the intervals.
        alpha: Level of the significance letters; None where there are none.
        estimates: The metrics, best first; those without a value last.
    """

    title: str
    statistic: str
    scale: float
    level: float
    alpha: float | None
    estimates: Sequence[Estimate]

    @property
    def axis(self) -> str:
        """What the axis is called."""
        return self.statistic if self.scale == 1 else f"{self.statistic} × {self.scale:g}"

    @property
    def counts(self) -> str:
        """How many rows are behind the values."""
        counts = sorted({one.n for one in self.estimates})
        return f"n = {counts[0]:,}" if len(counts) == 1 else f"n = {counts[0]:,}–{counts[-1]:,}"

    @property
    def decimals(self) -> int:
        """Digits behind the point in texts, as in tables."""
        largest = max((abs(one.value) for one in self.estimates if one.value is not None), default=0.0)
        return 2 if self.scale > 1 or largest > 10 else 4

    @property
    def shown(self) -> list[float]:
        """All numbers in the panel."""
        return [
            value
            for one in self.estimates
            for value in (one.value, one.low, one.high, one.published)
            if value is not None
        ]

    @property
    def logarithmic(self) -> bool:
        """Whether values are positive and too far apart for a linear axis (1-R² can be 1 or 10,000,000)."""
        return bool(self.shown) and min(self.shown) > 0 and max(self.shown) > 200 * min(self.shown)


def agreement_panels(
    records: Sequence[Record], statistic: str, metrics: Sequence[str], notes: list[str]
) -> list[Panel]:
    """Return a panel a task.

    Args:
        records: Runs.
        statistic: Name of the statistic; empty for each task's own.
        metrics: Names of metrics; empty for all.
        notes: Is given a text for every task that is left out.

    Raises:
        DataError: No run is of a protocol that measures agreement.
        UsageError: No run has the statistic, or one of the metrics.
    """
    fitting = [record for record in records if _measures_agreement(record.protocol) and record.results]
    if not fitting:
        first, known = records[0], " or ".join(names_where(_measures_agreement))
        raise DataError(
            f"no run measures agreement with human judgement; that of task '{first.task}' is of protocol "
            f"{first.output_type}",
            f"Plot runs of tasks of protocol {known}: bench ls tasks --tag agreement",
        )
    for title, _ in by_task([record for record in records if record not in fitting]):
        notes.append(f"{title} is left out: it has no agreement with human judgement")
    known = list(dict.fromkeys(name for record in fitting for name in _statistics(record)))
    if statistic and statistic not in known:
        raise UsageError(
            f"no run has statistic '{statistic}'.{did_you_mean(statistic, known)}",
            f"There are: {', '.join(known)}. What a task computes is its key 'statistics'.",
        )
    require_metrics(metrics, (metric for record in fitting for metric in record.metrics))
    panels = []
    for title, group in by_task(fitting):
        name = statistic or _default(group[0])
        chosen = [
            one
            for one in choose(group, lambda record, name=name: _metrics(record, name))
            if not metrics or one.metric in metrics
        ]
        if chosen:
            panels.append(_panel(title, chosen, name))
        else:
            lacking = f"statistic {name}" if not metrics else f"statistic {name} of {', '.join(metrics)}"
            notes.append(f"{title} is left out: it has no {lacking}")
    if not panels:
        raise UsageError(f"no run has statistic '{statistic}' of {', '.join(metrics)}")
    return panels


def _measures_agreement(protocol: Protocol[Any] | type[Protocol[Any]]) -> bool:
    return protocol.subject == "metric" and not protocol.by_rule


def _statistic(key: str, result: Result) -> str:
    """Return the statistic of a result, with its category: ``accuracy.HM`` of ``cider.accuracy.HM``."""
    return key.removeprefix(result.metric + ".")


def _statistics(record: Record) -> list[str]:
    return list(dict.fromkeys(_statistic(key, result) for key, result in record.results.items()))


def _default(record: Record) -> str:
    """Return the protocol's statistic, over all categories where there are any, or the task's first."""
    names, own = _statistics(record), record.protocol.statistic
    return own if own in names else names[0]


def _metrics(record: Record, statistic: str) -> list[str]:
    results = record.results.items()
    return [result.metric for key, result in results if _statistic(key, result) == statistic]


def _panel(title: str, chosen: Sequence[Chosen], statistic: str) -> Panel:
    record = chosen[0].record
    # Letters say what differs within a run; those of two runs have nothing to do with each other.
    one_run = all(one.record is record for one in chosen)
    estimates = [_estimate(one, statistic, with_letters=one_run) for one in chosen]
    first = record.results[f"{chosen[0].metric}.{statistic}"]
    significance = record.significance.get(first.statistic)
    sign = -1.0 if first.higher_is_better else 1.0
    return Panel(
        title=title + limit_note(one.record for one in chosen),
        statistic=first.label[1],
        scale=first.scale,
        level=record.settings.level,
        alpha=significance.alpha if significance and any(one.group for one in estimates) else None,
        estimates=sorted(estimates, key=lambda one: math.inf if one.value is None else sign * one.value),
    )


def _estimate(one: Chosen, statistic: str, *, with_letters: bool) -> Estimate:
    key = f"{one.metric}.{statistic}"
    result, published = one.record.results[key], one.record.published.get(key)
    interval = result.interval
    return Estimate(
        label=one.label,
        value=_finite(result.value),
        low=_finite(interval and interval.low),
        high=_finite(interval and interval.high),
        n=result.n,
        published=_finite(published and published.value),
        printed=published.printed if published else "",
        group=one.record.letters(result) if with_letters else "",
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
