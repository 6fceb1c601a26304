"""Results as tables and rows, and the runs of a call; results on changed captions have a row a rule."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from ...atomic_files import write_whole, written_whole
from ...errors import UsageError, did_you_mean, writing
from ...tasks.index import IndexEntry
from ..protocols.job import Result
from ..records.task_run import TaskRun
from .text import LATEX_SYMBOLS, csv_text, decimals_for, no_minus_zero, show_difference, show_interval, show_number

if TYPE_CHECKING:
    import pandas
    import pyarrow

FORMATS = ("github", "latex", "csv", "json")
_WIDEST_REASON = 100
"""Characters; the record and the terminal have the full reason."""
_WIDTH = 100
"""Characters of a table where no terminal says otherwise."""
_HEADINGS = ("Task", "Model", "Metric")
LEFT = ("", "Task", "Model", "Metric", "Statistic", "Group", "Note", "Change", "Pair", "Rater", "Figure", "Of")
"""Columns of texts."""
_TABULATE_FORMATS = {"github": "github", "latex": "latex_booktabs"}


def result_rows(runs: Sequence[TaskRun]) -> list[dict[str, Any]]:
    """Return a flat dict a result, unscaled, for ``--format json`` and ``to_pandas``."""
    rows = []
    for run in runs:
        for result in run.results:
            published = run.record.published.get(result.key)
            rows.append(
                {
                    "task": run.record.task,
                    "model": run.record.model_name,
                    **{name: getattr(result, name) for name in ("metric", "statistic", "category", "value")},
                    **{name: getattr(result.interval, name, None) for name in ("low", "high", "stderr")},
                    "p": result.p,
                    "published": published.value if published else None,
                    "no_image": result.best_alone[1] if result.best_alone else None,
                    "n": result.n,
                    "empty": run.record.empty_count,
                    "note": "; ".join([*run.record.notes, *filter(None, [result.remark])]),
                    "reason": result.reason,
                }
            )
    return rows


def render(runs: Sequence[TaskRun], fmt: str = "github") -> str:
    """Return the results of runs as one table; runs of protocols with rules have separate tables.

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
    if fmt not in _TABULATE_FORMATS:
        raise UsageError(f"unknown format '{fmt}'.{did_you_mean(fmt, FORMATS)}", f"Known: {', '.join(FORMATS)}.")
    # LaTeX has no arrows.
    tables = printed_tables(runs, direction if fmt == "github" else lambda result: "")
    return "\n\n".join((f"{title}\n\n" if title else "") + tabulated(rows, fmt) for title, rows in tables)


def printed_tables(runs: Sequence[TaskRun], mark: Callable[[Result], str]) -> list[tuple[str, list[dict[str, str]]]]:
    """Return the formatted tables of runs: the title of each, and its rows.

    Args:
        runs: The runs.
        mark: Returns the suffix of a metric's or statistic's name, such as its arrow.
    """
    tables = [("", _printed_rows([run for run in runs if not run.record.protocol.by_rule], mark))]
    tables += [table for run in runs if run.record.protocol.by_rule for table in _rule_tables(run)]
    return [(title, filled(rows)) for title, rows in tables if rows]


def filled(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return rows without empty columns."""
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    return [{column: row[column] for column in columns} for row in rows]


def tabulated(rows: Sequence[Mapping[str, str]], fmt: str) -> str:
    """Return rows as a table, columns of :data:`LEFT` at the left.

    A ``github`` table that is wider than the terminal, or than 100 columns where there is none, is narrowed: notes
    become numbered lines below it, tasks and models become headings, and what still does not fit is continued below.

    Args:
        rows: Column to text, the same columns in each.
        fmt: ``github`` or ``latex``.
    """
    if fmt == "latex":
        # A note would be the widest column: comments have them.
        notes = [f"% {note}\n" for note in dict.fromkeys(row.get("Note", "") for row in rows) if note]
        columns = [{name: cell for name, cell in row.items() if name != "Note"} for row in rows]
        return "".join([*notes, _tabulated(columns, fmt).translate(LATEX_SYMBOLS)])
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    if _width(rows) <= width:
        return _tabulated(rows, fmt)
    notes = dict.fromkeys(row["Note"] for row in rows if row.get("Note"))
    numbers = {note: f"[{number}]" for number, note in enumerate(notes, 1)} | {"": ""}
    rows = [{**row, "Note": numbers[row["Note"]]} if notes else row for row in rows]
    tables: list[str] = []
    for heading, block in _blocks(rows, width) if _width(rows) > width else [("", rows)]:
        parts = [_tabulated(part, fmt) for part in _continued(block, width)]
        tables.append("\n\n".join([heading, *parts] if heading else parts))
    return "\n\n".join([*tables, *(["\n".join(f"{numbers[note]} {note}" for note in notes)] if notes else [])])


def _width(rows: Sequence[Mapping[str, str]]) -> int:
    """Return the width of a table; tabulate leaves two spaces more next to the names of its columns."""
    return sum(max(len(name) + 2, *(len(row[name]) for row in rows)) + 3 for name in rows[0]) + 1


def _blocks(rows: Sequence[Mapping[str, str]], width: int) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the rows of each task; texts that are only in the first become its heading, until the rest fits."""
    starts = [number for number, row in enumerate(rows) if row.get("Task") or not number]
    for start, end in itertools.pairwise([*starts, len(rows)]):
        block = filled(rows[start:end])
        headings: list[str] = []
        for name in _HEADINGS:
            if _width(block) > width and name in block[0] and not any(row[name] for row in block[1:]):
                headings.append(block[0][name])
                block = [{key: text for key, text in row.items() if key != name} for row in block]
        yield ", ".join(headings), block


def _continued(rows: Sequence[Mapping[str, str]], width: int) -> Iterator[list[dict[str, str]]]:
    """Yield the columns of a table in parts that fit the width, each after the columns of texts at the left."""
    names = list(rows[0])
    texts = list(itertools.takewhile(LEFT.__contains__, names))
    part = [*texts]
    for name in names[len(texts) :]:
        if len(part) > len(texts) and _width([{key: row[key] for key in [*part, name]} for row in rows]) > width:
            yield [{key: row[key] for key in part} for row in rows]
            part = [*texts]
        part.append(name)
    yield [{key: row[key] for key in part} for row in rows]


def _tabulated(rows: Sequence[Mapping[str, str]], fmt: str) -> str:
    from tabulate import tabulate

    return tabulate(
        rows,
        headers="keys",
        tablefmt=_TABULATE_FORMATS[fmt],
        disable_numparse=True,
        colalign=["left" if column in LEFT else "right" for column in rows[0]],
    )


def direction(result: Result) -> str:
    """Return the arrow after a name: up where higher is better; none without a direction."""
    return {True: " ↑", False: " ↓", None: ""}[result.higher_is_better]


def _printed_rows(runs: Sequence[TaskRun], mark: Callable[[Result], str]) -> list[dict[str, str]]:
    interval = _interval_name(runs)
    return [
        _printed_row(run, result, run.results[at - 1] if at else None, mark, interval)
        for run in runs
        for at, result in enumerate(run.results)
    ]


def _interval_name(runs: Sequence[TaskRun]) -> str:
    """Return the head of the column of intervals, with their level where all runs have the same."""
    levels = {run.record.settings.level for run in runs}
    return f"{100 * levels.pop():g}% CI" if len(levels) == 1 else "CI"


def _printed_row(
    run: TaskRun, result: Result, before: Result | None, mark: Callable[[Result], str], interval: str
) -> dict[str, str]:
    """Return the row of a result, without the task, model and metric that the row above has."""
    published, scale = run.record.published.get(result.key), result.scale
    decimals = max(decimals_for(scale, [result.value]), published.decimals if published else 0)
    metric, statistic = result.label
    # Where metrics, or variants of a statistic, have the same label, their names follow it in brackets.
    if any(other.label[0] == metric and other.metric != result.metric for other in run.results):
        metric = f"{metric} ({result.metric})"
    if sum((other.metric, other.label) == (result.metric, result.label) for other in run.results) > 1:
        statistic = f"{statistic} ({result.statistic})"
    if run.record.protocol.subject == "model":
        metric += mark(result)
    else:
        statistic = statistic.rstrip() + mark(result)
    is_new = before is None or before.metric != result.metric
    difference = ""
    if published is not None and result.value is not None:
        difference = show_difference((result.value - published.value) * scale, decimals)
    # A reason that the next rows have, too, is printed once.
    says_why = result.value is None and (is_new or before is None or result.reason != before.reason)
    notes = [
        *(run.record.notes if before is None else ()),
        result.remark,
        "" if result.p is None else f"exact p = {result.p:.3g}",
        shorten(result.reason.partition("\n")[0], _WIDEST_REASON, placeholder=" …") if says_why else "",
    ]
    alone = result.best_alone
    return {
        "Task": run.record.alias if before is None else "",
        "Model": (run.record.model_name or "") if before is None else "",
        "Metric": metric if is_new else "",
        "Statistic": statistic.rstrip(),
        "Value": "-" if result.value is None else show_number(result.value * scale, decimals),
        interval: show_interval(result.interval, scale, decimals),
        "No image": f"{show_number(alone[1] * scale, decimals)} ({alone[0]})" if alone else "",
        "Group": run.record.letters(result),
        "Published": published.printed if published else "",
        "Diff": difference,
        "n": f"{result.n:,}",
        "Note": "; ".join(filter(None, notes)),
    }


def _rule_tables(run: TaskRun) -> list[tuple[str, list[dict[str, str]]]]:
    """Return the two tables of a run of a protocol with rules, each with its title.

    The first has the first result of each rule, with its interval; the second has the last result of each rule. A rule
    that changed nothing is in neither.

    Args:
        run: The run.
    """
    last = {result.category: result for result in run.results}
    first = {rule: next(result for result in run.results if result.category == rule) for rule in last}
    return [
        (f"{run.record.alias}: share of captions, or of the mean", _rule_rows(run, first, 3)),
        (f"{run.record.alias}: {next(iter(last.values())).label[1].rpartition(': ')[2]}", _rule_rows(run, last, 2)),
    ]


def _rule_rows(run: TaskRun, rules: Mapping[str, Result], decimals: int) -> list[dict[str, str]]:
    labels = {result.metric: result.label[0] for result in run.results}
    sharing = Counter(labels.values())
    # A metric whose label another has, too, has its name as column.
    columns = {metric: label if sharing[label] == 1 else metric for metric, label in labels.items()}
    rows: list[dict[str, str]] = []
    for rule, shown in rules.items():
        of_rule = [result for result in run.results if (result.category, result.statistic) == (rule, shown.statistic)]
        cells = {columns[result.metric]: _rule_cell(run, result, decimals) for result in of_rule}
        counts = sorted({result.n for result in of_rule})
        n = "-".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
        rows.append({"Change": shown.label[1], **dict.fromkeys(columns.values(), ""), **cells, "n": n})
    return rows


def _rule_cell(run: TaskRun, result: Result, decimals: int) -> str:
    """Return value, interval and significance letters."""
    if result.value is None:
        return "-"
    numbers = [result.value, *((result.interval and result.interval.ends) or ())]
    value, *ends = (f"{n:.1e}" if abs(n) >= 1e6 else f"{no_minus_zero(n, decimals):.{decimals}f}" for n in numbers)
    interval = f"[{', '.join(ends)}]" if ends else ""
    return " ".join(filter(None, [value, interval, run.record.letters(result)]))


def legend(runs: Sequence[TaskRun]) -> list[str]:
    """Return the legend of a table: lines for the columns and labels that it has.

    Args:
        runs: The runs; tables of protocols with rules need no legend.
    """
    shown = [run for run in runs if run.results and not run.record.protocol.by_rule]
    parts = (_values_said, _precision_said, _columns_said, _terms_said, _counts_said)
    return list(dict.fromkeys(line for part in parts for line in part(shown)))


def _values_said(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield directions, scales and upper limits of values."""
    results = [result for run in runs for result in run.results]
    arrows = {True: "↑ higher is better", False: "↓ lower is better"}
    if said := [text for up, text in arrows.items() if any(result.higher_is_better is up for result in results)]:
        yield "; ".join(said)
    scales = {result.scale for result in results} - {1.0}
    if scales:
        times = ", ".join(f"{scale:g}" for scale in sorted(scales))
        yield f"values are × {times}; unscaled in csv, json and records"
    tops: dict[str, str] = {}
    for run in runs:
        of_model = run.record.protocol.subject == "model"
        for result in run.results:
            name = result.label[0] if of_model else result.label[1].removesuffix(result.category).rstrip()
            _, top = run.record.ends_of(result.metric, result.statistic)
            # Most have an upper limit of 1, or of 100 %.
            far = f"at most {top * result.scale:,g} as shown" if top != 1 else ""
            tops[name] = "no upper limit, unscaled" if math.isinf(top) else far
    for said in dict.fromkeys(filter(None, tops.values())):
        yield f"{', '.join(name for name, top in tops.items() if top == said)}: {said}"


def _precision_said(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield the precision of encoders that do not compute in single precision."""
    for run in runs:
        if run.record.encoder_dtype != "fp32":
            yield f"{run.record.settings.encoder}: dtype={run.record.encoder_dtype}"


def _columns_said(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield the meaning of the columns of intervals, letters, published values and image-blind baselines."""
    results = [(run, result) for run in runs for result in run.results]
    methods = {result.interval.method for _, result in results if result.interval and result.interval.low is not None}
    if methods:
        drawn = " or ".join(dict.fromkeys(run.record.protocol.resampled for run in runs))
        words = {"bootstrap": "bootstrap", "influence": "influence functions", "wilson": "Wilson"}
        method = " or ".join(word for name, word in words.items() if name in methods)
        yield f"{_interval_name(runs)}: {method} over {drawn}"
    alphas = {entry.alpha for run in runs for entry in run.record.significance.values()}
    if alphas and any(run.record.letters(result) for run, result in results):
        yield (
            "Group: metrics with a letter in common are not significantly different "
            f"(p ≥ {', '.join(f'{alpha:g}' for alpha in sorted(alphas))} after Holm; 'bench compare RUN')"
        )
    papers = dict.fromkeys(
        f"{value.paper}, Table {value.table}" for run in runs for value in run.record.published.values()
    )
    if papers:
        has_difference = any(result.value is not None and result.key in run.record.published for run, result in results)
        difference = "; Diff: ours minus published" if has_difference else ""
        yield f"Published: {'; '.join(papers)}{difference}"
    if any(result.best_alone for _, result in results):
        yield "No image: best image-blind baseline (its rule)"


def _terms_said(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield the meaning of labels and categories."""
    for run in runs:
        labels = {result.label[0] for result in run.results}
        yield from (f"{term}: {meaning}" for term, meaning in run.record.protocol.terms.items() if term in labels)
        categories = {result.category for result in run.results}
        named: Mapping[str, str] = run.record.config.get("category_names", {})
        yield from (f"{name}: {meaning}" for name, meaning in named.items() if name in categories)


def _counts_said(runs: Sequence[TaskRun]) -> Iterator[str]:
    """Yield the unit of n, where it is not documents."""
    for counted in dict.fromkeys(run.record.protocol.counted for run in runs):
        of = ", ".join(
            f"{run.record.alias} has {run.record.documents.effective:,} documents"
            for run in runs
            if run.record.protocol.counted == counted
            and any(result.n != run.record.documents.effective for result in run.results)
        )
        if of:
            yield f"n: {counted}; {of}"


@dataclass(frozen=True)
class Run:
    """The runs of one call, a task each, and the groups whose score they give."""

    tasks: list[TaskRun] = field(default_factory=list)
    groups: Sequence[IndexEntry] = ()

    def __getitem__(self, task: str) -> TaskRun:
        for run in self.tasks:
            if run.record.task == task:
                return run
        raise KeyError(task)

    def group_scores(self) -> dict[str, float | None]:
        """Return the score of each group by its label, unscaled; None where a result is missing or undefined."""
        scores: dict[str, float | None] = {}
        for score in filter(None, (group.score for group in self.groups)):
            values = [self._as_more_is_better(task, key) for task, key in score.mean_of.items()]
            defined = [value for value in values if value is not None]
            scores[score.label] = sum(defined) / len(values) if len(defined) == len(values) else None
        return scores

    def _as_more_is_better(self, task: str, key: str) -> float | None:
        results = {result.key: result for run in self.tasks if run.record.task == task for result in run.results}
        result = results.get(key)
        if result is None or result.value is None:
            return None
        return 1 - result.value if result.higher_is_better is False else result.value

    def group_lines(self) -> Iterator[str]:
        """Yield each group's score in words."""
        values = self.group_scores()
        for score in filter(None, (group.score for group in self.groups)):
            value = values[score.label]
            shown = "no value: a result is missing" if value is None else f"{show_number(100 * value, 2)} (× 100)"
            yield f"{score.label}: {shown}; mean of {', '.join(f'{task} {key}' for task, key in score.mean_of.items())}"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row a result: task, model, metric, statistic, value, interval, published value, n."""
        import pandas

        return pandas.DataFrame(result_rows(self.tasks))

    def table(self, fmt: str = "github") -> str:
        """Return the results as a table: ``github``, ``latex``, ``csv`` or ``json``."""
        return render(self.tasks, fmt)

    def _repr_html_(self) -> str:
        """Return the tables and their legend, for notebooks."""
        from .text import html_lines, html_output, html_table

        tables = printed_tables(self.tasks, direction)
        return html_output(
            *(html_table(rows, LEFT, title) for title, rows in tables),
            html_lines([*self.group_lines(), *legend(self.tasks)]),
        )

    def __str__(self) -> str:
        """Return the table and its legend."""
        return "\n".join([self.table(), *self.group_lines(), "", *legend(self.tasks)])


COLUMNS = (
    "task", "version", "model", "metric", "statistic", "category", "value", "low", "high", "stderr",
    "published", "n", "fingerprint", "date",
)  # fmt: skip
"""Columns of the table. Values are plain numbers (a tau of 0.439); ``date`` is the start of the run, in UTC."""


def flat_rows(runs: Sequence[TaskRun]) -> list[dict[str, Any]]:
    """Return a dict of ``COLUMNS`` a result, in the order of the runs."""
    rows = []
    for run in runs:
        record = run.record
        own = {"version": str(record.version), "fingerprint": record.fingerprint, "date": record.started}
        for row in result_rows([run]):
            known = row | own | {"category": row["category"] or None}
            rows.append({column: known[column] for column in COLUMNS})
    return rows


def to_arrow(runs: Sequence[TaskRun]) -> pyarrow.Table:
    """Return the flat table with typed columns: texts, float64, int64, and ``date`` as UTC milliseconds."""
    import pyarrow

    types = dict.fromkeys(COLUMNS, pyarrow.string())
    types |= dict.fromkeys(("value", "low", "high", "stderr", "published"), pyarrow.float64())
    types |= {"n": pyarrow.int64(), "date": pyarrow.timestamp("ms", "UTC")}
    return pyarrow.Table.from_pylist(flat_rows(runs), pyarrow.schema(list(types.items())))


def write_table(runs: Sequence[TaskRun], fmt: str, path: Path) -> None:
    """Write the flat table.

    Args:
        runs: The runs.
        fmt: ``csv`` (dates in ISO 8601), ``parquet``, or ``latex``: as ``bench run`` prints it.
        path: The file.

    Raises:
        UsageError: It cannot be written.
    """
    with writing(f"-o {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        if fmt == "parquet":
            import pyarrow.parquet

            with written_whole(path) as draft:
                pyarrow.parquet.write_table(to_arrow(runs), draft, compression="zstd")
        elif fmt == "csv":
            # An undefined number is an empty field.
            rows = [{**row, "date": row["date"].isoformat(timespec="seconds")} for row in flat_rows(runs)]
            write_whole(path, csv_text(rows) + "\n")
        else:
            write_whole(path, render(runs, "latex") + "\n")
