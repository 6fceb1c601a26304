"""Published tables with the results of finished runs."""

from collections.abc import Mapping, Sequence

from ...adapters.captioners.recorded import RecordedCaptions
from ...tasks.index import TaskIndex
from ..protocols.job import Result
from ..records.record import Record
from ..suites.inputs import RowInputs, RowModel
from ..suites.places import RowModels
from ..suites.plan import wanted_runs
from ..suites.read import Suite, list_suites
from ..suites.run import TableCell, suite_cells
from ..tables.text import show_difference, show_number
from .board import BoardRun, SuiteCell, SuiteTable
from .collect import installed_versions
from .measured import models_of_metric

NOT_RUN = "not run"
"""Reason for an empty cell that a run can fill."""


def suite_tables(runs: Sequence[BoardRun], index: TaskIndex) -> tuple[SuiteTable, ...]:
    """Return every published table with at least one measured cell, by runs of the installed version of their task.

    Args:
        runs: The runs that are shown.
        index: The installed tasks.
    """
    versions = installed_versions(index, {run.record.task for run in runs})
    by_task: dict[str, list[BoardRun]] = {}
    for run in sorted(runs, key=lambda run: (run.record.documents.effective, run.record.date, run.key), reverse=True):
        record = run.record
        if record.is_whole and record.subset is None and versions.get(record.task) == str(record.version):
            by_task.setdefault(record.task, []).append(run)
    tables = (_table(suite, by_task) for suite in list_suites())
    return tuple(table for table in tables if table is not None and table.measured)


def _table(suite: Suite, by_task: Mapping[str, Sequence[BoardRun]]) -> SuiteTable | None:
    by_place: dict[tuple[RowModels, str, str], dict[tuple[str, str], Result]] = {}
    keys: dict[int, str] = {}
    reasons: dict[tuple[RowModels, str, str], str] = {}
    inputs = RowInputs(models=_recorded_rows(suite, by_task))
    for models, tasks in wanted_runs(suite, inputs).items():
        for task, metrics in tasks.items():
            for metric in metrics:
                place = (models, task, metric)
                for run in by_task.get(task, ()):
                    if results := _results(run.record, models, metric):
                        by_place[place] = {(result.statistic, result.category): result for result in results}
                        keys.update({id(result): run.key for result in results})
                        break
                reasons.setdefault(place, "" if place in by_place else NOT_RUN)
    if not by_place:
        return None
    rows: dict[str, dict[str, SuiteCell]] = {}
    heads: dict[str, None] = {}
    for cell in suite_cells(suite, by_place, reasons, inputs):
        heads[cell.head] = None
        known = rows.setdefault(cell.label, {}).get(cell.head)
        # Rows with the same label are merged, for example if a table uses another metric for videos.
        if known is None or not known.measured:
            rows[cell.label][cell.head] = _cell(cell, keys.get(id(cell.result), ""))
    return SuiteTable(
        suite.suite,
        suite.description,
        tuple(heads),
        tuple((label, tuple(cells.get(head) for head in heads)) for label, cells in rows.items()),
        suite.note,
    )


def _recorded_rows(suite: Suite, by_task: Mapping[str, Sequence[BoardRun]]) -> dict[int, RowModel]:
    """Return the rows with the name of recorded captions that a run scored."""
    tasks = {column.task for column in suite.columns if column.metric}
    runs = [run.record for task in tasks for run in by_task.get(task, ())]
    names = {record.model_name for record in runs if _is_recorded(record)}
    rows = enumerate(suite.rows)
    return {number: RowModel(model=row.printed_model) for number, row in rows if row.printed_model in names}


def _is_recorded(record: Record) -> bool:
    return record.settings.adapter == RecordedCaptions.adapter


def _results(record: Record, models: RowModels, metric: str) -> list[Result]:
    """Return the results of a run for a row of a suite; empty if the run used other models."""
    if record.settings.decoding != models.decoding and not _is_recorded(record):
        return []
    results = list(record.results.values())
    if metric:
        results = [result for result in results if result.metric == metric]
    if not results:
        return []
    names = [name for name, _ in models_of_metric(record, results[0].metric)] if metric else []
    if record.protocol.needs_captioner:
        same = record.model_name == models.model and {*names} <= {models.encoder, models.judge}
    elif metric:
        same = names == [name for name in (models.model, models.encoder, models.judge) if name]
    else:
        same = record.model_name == models.model
    return results if same else []


def _cell(cell: TableCell, run: str) -> SuiteCell:
    published, result = cell.published, cell.result
    printed = published.printed if published else ""
    if result is None or result.value is None:
        return SuiteCell("", printed, "", "", cell.reason)
    scale = published.scale if published else result.scale
    decimals = max(2, published.decimals if published else 0)
    difference = show_difference(result.value * scale - published.value, decimals) if published else ""
    return SuiteCell(show_number(result.value * scale, decimals), printed, difference, run, "")
