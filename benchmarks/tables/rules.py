"""Tables of what metrics make of changed captions: a row a rule, a column a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..protocols.results import Result
from ..records.task_run import TaskRun

Row = dict[str, str]


def rule_tables(run: TaskRun) -> list[tuple[str, list[Row]]]:
    """Return tables of a run of a protocol whose results are of rules, each with its title.

    The first has the results that come first of each rule, with intervals; another one has each kind of the others
    that all rules have. A rule that changed nothing is in none of them.

    Args:
        run: The run.
    """
    rules: dict[str, list[Result]] = {}
    for result in run.results:
        rules.setdefault(result.category, []).append(result)
    first = {rule: results[0] for rule, results in rules.items()}
    last = {rule: results[-1] for rule, results in rules.items()}
    return [
        (f"{run.record.alias}: share of captions, or of the mean", _rows(run, first, 3)),
        (f"{run.record.alias}: {_kind(next(iter(last.values())))}", _rows(run, last, 2)),
    ]


def _rows(run: TaskRun, rules: Mapping[str, Result], decimals: int) -> list[Row]:
    columns = _columns(run.results)
    rows: list[Row] = []
    for rule, shown in rules.items():
        of_metric = {
            one.metric: one
            for one in run.results
            if one.category == rule and one.statistic == shown.statistic
        }
        cells = {
            label: _cell(run, of_metric[metric], decimals) if metric in of_metric else ""
            for metric, label in columns.items()
        }
        rows.append({"Change": shown.label[1], **cells, "n": f"{shown.n:,}"})
    return rows


def _columns(results: Sequence[Result]) -> dict[str, str]:
    """Return each metric with its label, or its own name where another has the same label."""
    labels = {one.metric: one.label[0] for one in results}
    return {
        metric: label if list(labels.values()).count(label) == 1 else metric
        for metric, label in labels.items()
    }


def _kind(result: Result) -> str:
    return result.label[1].rpartition(": ")[2]


def _cell(run: TaskRun, result: Result, decimals: int) -> str:
    """Return value, interval and significance letters."""
    if result.value is None:
        return "-"
    cells = [_number(result.value, decimals)]
    interval = result.interval
    if interval is not None and interval.low is not None and interval.high is not None:
        cells.append(f"[{_number(interval.low, decimals)}, {_number(interval.high, decimals)}]")
    return " ".join(filter(None, [*cells, run.record.letters(result)]))


def _number(value: float, decimals: int) -> str:
    if abs(value) >= 1e6:
        return f"{value:.1e}"
    return f"{round(value, decimals) + 0.0:.{decimals}f}"
