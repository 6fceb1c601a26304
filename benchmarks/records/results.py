"""The numbers of a run as its record holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ...metrics import metrics
from ...tasks.schema import StatisticEntry
from ..protocols.job import Result
from ..statistics import statistics
from ..statistics.bootstrap import Interval
from .entries import RecordedResult

_UNKNOWN = (0.0, 1.0)
NO_ERROR = "N/A"
"""What lm-eval writes for a standard error that there is none of."""


def result_key(result: Result) -> str:
    """Return the name of a result in records.

    ``metric`` alone for system values, else ``metric.statistic``, and ``.category`` where it is of one.
    """
    if result.statistic in ("mean", "corpus") and not result.category:
        return result.metric
    return ".".join(filter(None, (result.metric, result.statistic, result.category)))


def result_entries(results: Sequence[Result]) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool]]:
    """Return results in lm-eval's layout, our intervals, and whether higher is better, where that says something.

    lm-eval keys a value ``"metric,filter"`` and its error ``"metric_stderr,filter"``; an agreement of
    ``cider`` by ``kendall_c`` is the metric ``cider.kendall_c`` there.
    """
    values: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    higher: dict[str, bool] = {}
    for result in results:
        key = result_key(result)
        interval = result.interval
        values[f"{key},none"] = result.value
        has_error = interval is not None and interval.stderr is not None
        values[f"{key}_stderr,none"] = interval.stderr if interval and has_error else NO_ERROR
        if result.higher_is_better is not None:
            higher[key] = result.higher_is_better
        intervals[key] = {
            "metric": result.metric,
            "statistic": result.statistic,
            "label": list(result.label),
            "n": result.n,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "resamples": interval.resamples if interval else 0,
            "reason": result.reason or (interval.reason if interval else ""),
            **({"method": interval.method} if interval and interval.method != "bootstrap" else {}),
            **({"text_alone": dict(result.alone)} if result.alone else {}),
            **({"p": result.p} if result.p is not None else {}),
            **({"remark": result.remark} if result.remark else {}),
        }
    return values, intervals, higher


def ends_of_metric(name: str) -> tuple[float, float]:
    """Return the least and greatest value of a registered metric; 0 and 1 of one that is not known here."""
    return metrics[name].range if name in metrics else _UNKNOWN


def has_direction(name: str) -> bool:
    """Return whether a system that has more, or less, of a registered metric is better; True of an unknown one."""
    return metrics[name].has_direction if name in metrics else True


def ends_of_statistic(statistic: str, config: Mapping[str, Any]) -> tuple[float, float]:
    """Return the least and greatest value of a statistic; 0 and 1 of one that is not known here.

    Args:
        statistic: What the task calls it, with its aspect.
        config: The keys of the task file.
    """
    human = config.get("doc_to_human")
    aspects = [str(one) for one in cast("dict[str, Any]", human)] if isinstance(human, dict) else []
    listed = [StatisticEntry(**one) for one in config.get("statistics", [])]
    name = {name: one.statistic for one in listed for name in one.names(aspects)}.get(statistic)
    return statistics[name].range if isinstance(name, str) and name in statistics else _UNKNOWN


def read_results(
    values: Mapping[str, Any],
    recorded: Mapping[str, RecordedResult],
    higher_is_better: Mapping[str, bool],
    has_direction: Callable[[str], bool],
    scale_of: Callable[[str, str], float],
) -> dict[str, Result]:
    """Return by key what :func:`result_entries` wrote, in its order.

    Args:
        values: The values in lm-eval's layout.
        recorded: What else is recorded of results.
        higher_is_better: By key; a key that is left out counts as True.
        has_direction: Gives whether more, or less, of a metric is better.
        scale_of: Gives what tables show the numbers of a metric and a statistic times.
    """
    results: dict[str, Result] = {}
    for key, one in recorded.items():
        value, error = values[f"{key},none"], values.get(f"{key}_stderr,none", NO_ERROR)
        interval = None
        # Of a value that is not there, and without resamples, no interval was asked for.
        if one.resamples or one.method != "bootstrap" or (value is not None and one.reason):
            stderr = None if error == NO_ERROR else error
            interval = Interval(one.low, one.high, stderr, one.resamples, one.reason, one.method)
        whole = f"{one.metric}.{one.statistic}."
        results[key] = Result(
            metric=one.metric,
            statistic=one.statistic,
            label=(one.label[0], one.label[1]),
            value=value,
            n=one.n,
            higher_is_better=higher_is_better.get(key, True) if has_direction(one.metric) else None,
            scale=scale_of(one.metric, one.statistic),
            interval=interval,
            # Of a value that is there, the reason is that of the interval which is not.
            reason=one.reason if value is None else "",
            category=key.removeprefix(whole) if key.startswith(whole) else "",
            alone=one.text_alone,
            p=one.p,
            remark=one.remark,
        )
    return results
