"""Renders results as tables that can be pasted; what metrics make of changed captions, a row a rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import Any

from ...errors import UsageError, did_you_mean
from ..protocols.job import Result
from ..records.results import result_key
from ..records.task_run import TaskRun
from .csv_text import csv_text

FORMATS = ("github", "latex", "csv", "json")
_WIDEST_REASON = 100
"""Characters; the whole of it is in the record, and on the terminal."""
LEFT = ("Task", "Model", "Metric", "Statistic", "Group", "Note", "Change")
"""Columns of texts."""
TABULATE_FORMATS = {"github": "github", "latex": "latex_booktabs"}


def result_rows(runs: Sequence[TaskRun]) -> list[dict[str, Any]]:
    """Return a flat dict a result, unscaled: what ``--format json`` and ``to_pandas`` give."""
    rows = []
    for run in runs:
        for result in run.results:
            published = run.published.get(result_key(result))
            interval = result.interval
            rows.append(
                {
                    "task": run.record.task,
                    "model": run.record.model_name,
                    "metric": result.metric,
                    "statistic": result.statistic,
                    "category": result.category,
                    "value": result.value,
                    "low": interval.low if interval else None,
                    "high": interval.high if interval else None,
                    "stderr": interval.stderr if interval else None,
                    "p": result.p,
                    "published": published.value if published else None,
                    "no_image": result.best_alone[1] if result.best_alone else None,
                    "n": result.n,
                    "empty": run.record.coverage.empty_count,
                    "note": "; ".join([*run.record.coverage.notes, *filter(None, [result.remark])]),
                    "reason": result.reason,
                }
            )
    return rows


def render(runs: Sequence[TaskRun], fmt: str = "github") -> str:
    """Return the results of some runs as one table; those of protocols whose results are of rules have their own.

    Args:
        runs: The runs.
        fmt: ``github``, ``latex``, ``csv`` or ``json``. The first two show values as papers do (τ × 100,
            rounded), the others as they are.

    Raises:
        UsageError: Unknown format.
    """
    if fmt == "json":
        return json.dumps(result_rows(runs), indent=2, ensure_ascii=False, allow_nan=False)
    if fmt == "csv":
        return csv_text(result_rows(runs))
    if fmt not in TABULATE_FORMATS:
        raise UsageError(f"unknown format '{fmt}'.{did_you_mean(fmt, FORMATS)}", f"Known: {', '.join(FORMATS)}.")
    # LaTeX has no such letter.
    tables = printed_tables(runs, direction if fmt == "github" else lambda result: "")
    return "\n\n".join(_drawn(title, rows, fmt) for title, rows in tables)


def printed_tables(runs: Sequence[TaskRun], mark: Callable[[Result], str]) -> list[tuple[str, list[dict[str, str]]]]:
    """Return the tables of some runs as people read them: the title of each, and its rows.

    Args:
        runs: The runs.
        mark: Gives what stands behind the name of what a result is of.
    """
    tables = [("", _printed_rows([run for run in runs if not run.record.protocol.by_rule], mark))]
    tables += [table for run in runs if run.record.protocol.by_rule for table in _rule_tables(run)]
    return [(title, _filled(rows)) for title, rows in tables if rows]


def _filled(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return rows without the columns that none of them fills."""
    filled = [column for column in rows[0] if any(row[column] for row in rows)]
    return [{column: row[column] for column in filled} for row in rows]


def _drawn(title: str, rows: Sequence[Mapping[str, str]], fmt: str) -> str:
    from tabulate import tabulate

    table = tabulate(
        rows,
        headers="keys",
        tablefmt=TABULATE_FORMATS[fmt],
        disable_numparse=True,
        colalign=["left" if column in LEFT else "right" for column in rows[0]],
    )
    return f"{title}\n\n{table}" if title else table


def direction(result: Result) -> str:
    """Return the arrow behind the name of what a number is of: up where more is better; none where neither way is."""
    return {True: " ↑", False: " ↓", None: ""}[result.higher_is_better]


def _printed_rows(runs: Sequence[TaskRun], mark: Callable[[Result], str]) -> list[dict[str, str]]:
    rows = []
    for run in runs:
        of_model = run.record.protocol.subject == "model"
        for number, result in enumerate(run.results):
            published = run.published.get(result_key(result))
            decimals = max(decimals_of(result), published.decimals if published else 0)

            def show(value: float | None, scale: float = result.scale, decimals: int = decimals) -> str:
                return "" if value is None else show_number(value * scale, decimals)

            interval = result.interval
            low_high = interval is not None and interval.low is not None
            difference = ""
            if published is not None and result.value is not None:
                scaled = (result.value - published.value) * result.scale
                difference = show_difference(scaled, decimals)
            rows.append(
                {
                    "Task": run.record.alias if number == 0 else "",
                    "Model": (run.record.model_name or "") if number == 0 else "",
                    "Metric": _metric_label(run, number) + (mark(result) if of_model else "")
                    if _first_of_metric(run, number)
                    else "",
                    "Statistic": _statistic_label(run, number).rstrip() + ("" if of_model else mark(result)),
                    "Value": show(result.value) or "-",
                    "95% CI": f"[{show(interval.low)}, {show(interval.high)}]" if interval and low_high else "",
                    "No image": _no_image(result, show),
                    "Group": run.record.letters(result),
                    "Published": published.printed if published else "",
                    "Diff": difference,
                    "n": f"{result.n:,}",
                    "Note": "; ".join([*(run.record.coverage.notes if number == 0 else ()), *_remarks(run, number)]),
                }
            )
    return rows


def _no_image(result: Result, show: Callable[[float], str]) -> str:
    """Return what the best rule reaches that does not look at the image, and which that is."""
    return f"{show(result.best_alone[1])} ({result.best_alone[0]})" if result.best_alone else ""


def _remarks(run: TaskRun, number: int) -> list[str]:
    """Return what is to be said beside a number, or why there is none: once, where it is why for all that follow."""
    result = run.results[number]
    exact = "" if result.p is None else f"exact p = {result.p:.3g}"
    is_new = _first_of_metric(run, number) or result.reason != run.results[number - 1].reason
    why = result.reason.partition("\n")[0] if result.value is None and is_new else ""
    return [one for one in (result.remark, exact, shorten(why, _WIDEST_REASON, placeholder=" …")) if one]


def _first_of_metric(run: TaskRun, number: int) -> bool:
    return number == 0 or run.results[number - 1].metric != run.results[number].metric


def _metric_label(run: TaskRun, number: int) -> str:
    """Return the label, with the result's own name where several metrics of the run have one label."""
    result = run.results[number]
    namesakes = {one.metric for one in run.results if one.label[0] == result.label[0]}
    return f"{result.label[0]} ({result.metric})" if len(namesakes) > 1 else result.label[0]


def _statistic_label(run: TaskRun, number: int) -> str:
    """Return the label, with the result's own name where one statistic is listed in several variants."""
    result = run.results[number]
    twins = [r for r in run.results if r.metric == result.metric and r.label == result.label]
    return f"{result.label[1]} ({result.statistic})" if len(twins) > 1 else result.label[1]


def _rule_tables(run: TaskRun) -> list[tuple[str, list[dict[str, str]]]]:
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
        (f"{run.record.alias}: share of captions, or of the mean", _rule_rows(run, first, 3)),
        (f"{run.record.alias}: {next(iter(last.values())).label[1].rpartition(': ')[2]}", _rule_rows(run, last, 2)),
    ]


def _rule_rows(run: TaskRun, rules: Mapping[str, Result], decimals: int) -> list[dict[str, str]]:
    columns = _metric_columns(run.results)
    rows: list[dict[str, str]] = []
    for rule, shown in rules.items():
        of_metric = {
            one.metric: one for one in run.results if one.category == rule and one.statistic == shown.statistic
        }
        cells = {
            label: _rule_cell(run, of_metric[metric], decimals) if metric in of_metric else ""
            for metric, label in columns.items()
        }
        rows.append({"Change": shown.label[1], **cells, "n": f"{shown.n:,}"})
    return rows


def _metric_columns(results: Sequence[Result]) -> dict[str, str]:
    """Return each metric with its label, or its own name where another has the same label."""
    labels = {one.metric: one.label[0] for one in results}
    return {metric: label if list(labels.values()).count(label) == 1 else metric for metric, label in labels.items()}


def _rule_cell(run: TaskRun, result: Result, decimals: int) -> str:
    """Return value, interval and significance letters."""
    if result.value is None:
        return "-"
    cells = [_rule_number(result.value, decimals)]
    interval = result.interval
    if interval is not None and interval.low is not None and interval.high is not None:
        cells.append(f"[{_rule_number(interval.low, decimals)}, {_rule_number(interval.high, decimals)}]")
    return " ".join(filter(None, [*cells, run.record.letters(result)]))


def _rule_number(value: float, decimals: int) -> str:
    return f"{value:.1e}" if abs(value) >= 1e6 else f"{_no_minus_zero(value, decimals):.{decimals}f}"


def decimals_of(result: Result) -> int:
    """Return the digits behind the point that tables show of a result."""
    return 2 if result.scale > 1 or abs(result.value or 0) > 10 else 4


def show_number(value: float, decimals: int) -> str:
    """Return a number as tables print it."""
    # CIDEr's 1-R² reaches 10^7: digits behind the point say nothing there.
    return f"{value:.3e}" if abs(value) >= 1e6 else f"{_no_minus_zero(value, decimals):,.{decimals}f}"


def show_difference(value: float, decimals: int) -> str:
    """Return a difference as tables print it, with its sign."""
    return f"{_no_minus_zero(value, decimals):+.{decimals}f}"


def _no_minus_zero(value: float, decimals: int) -> float:
    return round(value, decimals) + 0.0
