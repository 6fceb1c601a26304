"""What runs measured, row by row, before it is ranked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...arrow import numbers
from ...errors import DataError
from ...metrics import metrics as known_metrics
from ..comparing.finished_runs import settings_text
from ..protocols.job import Result
from ..records.entries import UsedModel
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, open_samples
from ..statistics.multiple_comparisons import holm_of, rank_ranges, significance_letters
from ..statistics.paired import p_of_mean_differences
from .board import BoardRun, Column


class MeasuredValue(NamedTuple):
    """A number of a row: the result, the run behind it, and its key in the run's record."""

    result: Result
    run: BoardRun
    key: str


@dataclass(frozen=True)
class MeasuredRow:
    """A row that was measured.

    Attributes:
        name: The metric, or the model.
        model: Beside a metric: the model that it was computed with.
        metric: Name of the metric in records; empty for rows that are models.
        run: The run behind it; of several, the one behind most of it.
        values: Its numbers by column.
        ranked: Whether it is held against others: it is of all data, and of the data that most rows are of.
        marks: What a reader must know.
    """

    name: str
    model: str
    metric: str
    run: BoardRun
    values: Mapping[str, MeasuredValue]
    ranked: bool = True
    marks: tuple[str, ...] = ()

    def result(self, column: str) -> Result | None:
        """Return the number of a column; None where the row has none."""
        return self.values[column].result if column in self.values else None

    def has(self, column: str) -> bool:
        """Tell whether the row has a number in a column, and it is defined."""
        return column in self.values and self.values[column].result.value is not None


def measured_metrics(runs: Sequence[BoardRun]) -> list[MeasuredRow]:
    """Return a row a metric and model: of several runs the newest of those with the most documents."""
    names = _names_of_models(runs)
    found: dict[tuple[str, str], MeasuredRow] = {}
    for run in sorted(runs, key=_merit, reverse=True):
        by_metric: dict[str, dict[str, MeasuredValue]] = {}
        for key, result in _shown(run.record).items():
            column = ".".join(filter(None, (result.statistic, result.category)))
            by_metric.setdefault(result.metric, {})[column] = MeasuredValue(result, run, key)
        for metric, values in by_metric.items():
            model = " + ".join(names[one] for one in models_of_metric(run.record, metric))
            label = next(iter(values.values())).result.label[0]
            found.setdefault((metric, model), MeasuredRow(label, model, metric, run, values))
    rows = list(found.values())
    known = Counter((row.name, row.model) for row in rows)
    # Two settings of one metric may have one label.
    return _same_data(
        [replace(row, name=f"{row.name} ({row.metric})") if known[row.name, row.model] > 1 else row for row in rows],
        with_captions=True,
    )


def _shown(record: Record) -> dict[str, Result]:
    """Return the results that have a column: of rules that change captions, the first of each."""
    if not record.protocol.by_rule:
        return dict(record.results)
    first: dict[tuple[str, str], str] = {}
    for key, result in record.results.items():
        first.setdefault((result.metric, result.category), key)
    return {key: record.results[key] for key in first.values()}


def measured_models(runs: Sequence[BoardRun]) -> list[MeasuredRow]:
    """Return a row a model and its settings; runs of the same captions fill each other's gaps."""
    labels, names = _row_names(runs), _names_of_models(runs)
    several = _metrics_of_several_models(runs)
    by_row: dict[tuple[str, ...], list[BoardRun]] = {}
    for run in sorted(runs, key=_merit, reverse=True):
        by_row.setdefault(_identity(run.record), []).append(run)
    rows = []
    for identity, (first, *others) in by_row.items():
        values: dict[str, MeasuredValue] = {}
        for run in (first, *others):
            if run.record.data_hash != first.record.data_hash:
                continue
            for key, result in run.record.results.items():
                column = key
                if result.metric in several:
                    by = " + ".join(names[one] for one in models_of_metric(run.record, result.metric))
                    column = f"{key} [{by}]"
                if column not in values or (values[column].result.value is None and result.value is not None):
                    values[column] = MeasuredValue(result, run, key)
        most = Counter(one.run.key for one in values.values())
        main = max((first, *others), key=lambda run: (most[run.key], _merit(run)))
        rows.append(MeasuredRow(labels[identity], "", "", main, values))
    return _same_data(rows, with_captions=False)


def models_of_metric(record: Record, metric: str) -> list[tuple[str, str]]:
    """Return name and arguments (as JSON) of the models that a metric of a run was computed with."""
    name = record.registered_name(metric)
    needs: Iterable[str] = ("encoder", "judge")
    if name in known_metrics and isinstance(stated := known_metrics[name].needs, frozenset):
        needs = stated
    return [_named(one) for role, one in record.settings.metric_models.items() if role in needs]


def _named(model: UsedModel) -> tuple[str, str]:
    return model.name, _as_json(model.arguments)


def _merit(run: BoardRun) -> tuple[bool, int, float, str]:
    return run.record.is_whole, run.record.documents.effective, run.record.date, run.key


def _as_json(value: Any) -> str:
    return json.dumps(value or {}, sort_keys=True)


def _identity(record: Record) -> tuple[str, ...]:
    """Return what tells models apart: name, arguments and decoding settings."""
    settings = record.settings
    return record.model_name or "no model", _as_json(settings.model_arguments), _as_json(settings.decoding)


def _row_names(runs: Sequence[BoardRun]) -> dict[tuple[str, ...], str]:
    """Return the name of each model, with the settings in which it differs from others of its name."""
    identities = {_identity(run.record) for run in runs}
    names = {}
    for identity in identities:
        twins = [other for other in identities if other[0] == identity[0]]
        differing = [n for n in (1, 2) if len({twin[n] for twin in twins}) > 1]
        parts = [settings_text(json.loads(identity[n])) for n in differing]
        told_apart = "; ".join(filter(None, parts))
        names[identity] = f"{identity[0]} ({told_apart})" if told_apart else identity[0]
    return names


def _names_of_models(runs: Sequence[BoardRun]) -> dict[tuple[str, str], str]:
    """Return what an encoder or judge is called: with its arguments where two of them share the name."""
    known = {_named(one) for run in runs for one in run.record.settings.metric_models.values()}
    shared = Counter(name for name, _ in known)
    return {
        (name, arguments): f"{name} ({settings_text(json.loads(arguments))})" if shared[name] > 1 else name
        for name, arguments in known
    }


def _metrics_of_several_models(runs: Sequence[BoardRun]) -> set[str]:
    """Return the metrics that were computed with several encoders or judges, and so are several columns."""
    models: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for run in runs:
        for metric in run.record.metrics:
            models.setdefault(metric, set()).add(tuple(models_of_metric(run.record, metric)))
    return {metric for metric, used in models.items() if len(used) > 1}


def _same_data(rows: list[MeasuredRow], *, with_captions: bool) -> list[MeasuredRow]:
    """Leave rows of a part of the data, or of other data than most, out of the ranking, and mark the latter.

    Rows of a subset are ranked among themselves, where no row is of all documents.
    """

    def data(row: MeasuredRow) -> str:
        record, subset = row.run.record, row.run.record.subset
        # Captions of two models differ; those that metrics judge may not.
        scored = record.data_hash if with_captions else [record.documents_hash, subset and subset.hash]
        return _as_json([scored, record.protocol.fingerprint()])

    whole = [row for row in rows if row.run.record.is_whole]
    counts = Counter(map(data, whole))
    latest = {data(row): row.run.record.date for row in sorted(whole, key=lambda row: row.run.record.date)}
    of_all = {data(row) for row in whole if row.run.record.subset is None}
    usual = max(counts, key=lambda one: (one in of_all, counts[one], latest[one], one), default=None)
    return [
        row
        if data(row) == usual and row.run.record.is_whole
        else replace(row, ranked=False, marks=("other data than most rows",) if row.run.record.is_whole else ())
        for row in rows
    ]


ALPHA = 0.05
SEED = 1234
LONGEST_LABEL = 12
"""Where the letters of a row would be longer, its column has ranks alone: nobody could read them in a table."""


_SampleColumns = tuple[Any, dict[str, np.ndarray]]
"""Ids of samples, and their columns of numbers."""
Group = tuple[str, tuple[int, int] | None]
"""What tests say of a number among those of its column: letters, of which two rows share one if, and only if, they do
not differ (empty where only ranks are given); and best and worst rank that the tests leave open."""
Groups = Mapping[str, Mapping[int, Group]]
"""Column to row (its identity) to group."""


def groups_of_metrics(columns: Sequence[Column], rows: Sequence[MeasuredRow]) -> tuple[Groups, list[str]]:
    """Return the letters that records hold, where all numbers of a column are of one run.

    Letters of two runs say nothing of a metric of one and a metric of the other. A row without a number has none.
    """
    groups: dict[str, dict[int, Group]] = {}
    several = False
    for column in columns:
        values = {id(row): row.values[column.key] for row in rows if row.has(column.key)}
        runs = {one.run.key: one.run.record for one in values.values()}
        if len(runs) == 1:
            (record,) = runs.values()
            groups[column.key] = {at: (record.letters(one.result), None) for at, one in values.items()}
        several = several or len(runs) > 1
    note = "The rows are of several runs, so no groups are given; `bench compare RUN RUN` tests them."
    return groups, [note] if several else []


def groups_of_models(columns: Sequence[Column], rows: Sequence[MeasuredRow]) -> tuple[Groups, list[str]]:
    """Return groups of captioners, by the mean over the captions that all of them have a score for."""
    if len(rows) < 2:
        return {}, []
    groups: dict[str, dict[int, Group]] = {}
    reasons: dict[str, list[str]] = {}
    crowded: list[str] = []
    samples: dict[Path, _SampleColumns | None] = {}
    for column in columns:
        measured = [row for row in rows if row.has(column.key)]
        if len(measured) < 2:
            continue
        of_rows, reason = _groups(column, measured, samples)
        if reason:
            reasons.setdefault(reason, []).append(column.label)
            continue
        groups[column.key] = {id(row): one for row, one in zip(measured, of_rows, strict=True)}
        if not of_rows[0][0] and column.higher_is_better is not None:
            crowded.append(column.label)
    notes = [f"{', '.join(labels)}: no groups, as {reason}." for reason, labels in reasons.items()]
    if crowded:
        notes.append(f"{', '.join(crowded)}: no letters, which would be too many to read; ranks say who differs.")
    return groups, notes


def _groups(
    column: Column, measured: Sequence[MeasuredRow], samples: dict[Path, _SampleColumns | None]
) -> tuple[list[Group], str]:
    values = [row.values[column.key] for row in measured]
    metric, records = values[0].result.metric, [one.run.record for one in values]
    made = [record.made_by.get(metric) for record in records]
    if made[0] is None:
        return [], "they are not of metrics"
    if any(one != made[0] for one in made):
        return [], "the metric was not computed alike in all runs"
    if records[0].is_of_corpus(metric):
        return [], "their values are of all captions together, not means over captions"
    scores, reason = _common([one.run for one in values], metric, samples)
    if scores is None:
        return [], reason
    order = sorted(
        range(len(measured)), key=lambda n: (values[n].result.value or 0.0) * (1 if column.lower_is_better else -1)
    )
    ps = p_of_mean_differences(scores[order], alpha=ALPHA, seed=SEED)
    better, worse = np.triu_indices(len(order), 1)
    differ = holm_of(ps[better, worse]) < ALPHA
    pairs = list(zip(better[differ].tolist(), worse[differ].tolist(), strict=True))
    letters = significance_letters(len(order), pairs)
    if max(map(len, letters)) > LONGEST_LABEL:
        letters = [""] * len(order)
    groups = list(zip(letters, rank_ranges(len(order), pairs), strict=True))
    return [groups[place] for place in np.argsort(order).tolist()], ""


def _common(
    runs: Sequence[BoardRun], metric: str, known: dict[Path, _SampleColumns | None]
) -> tuple[np.ndarray | None, str]:
    """Return ``[models, documents]`` scores of the documents that all runs scored, or why there are none.

    Args:
        runs: The runs.
        metric: The metric.
        known: The samples that were read, by the folder of the run; each is read once.
    """
    scores: list[tuple[Any, np.ndarray]] = []
    for run in runs:
        if run.folder not in known:
            known[run.folder] = _columns_of(run, known)
        read = known[run.folder]
        if read is None or metric not in read[1]:
            return None, "not every run has its samples"
        scores.append((read[0], read[1][metric]))
    aligned = [values for _, values in scores]
    if any(ids is not scores[0][0] for ids, _ in scores):
        ids_of = [ids.to_pylist() for ids, _ in scores]
        shared = set(ids_of[0]).intersection(*ids_of[1:])
        places = [{one: n for n, one in enumerate(ids)} for ids in ids_of]
        wanted = [one for one in ids_of[0] if one in shared]
        aligned = [
            values[[at[one] for one in wanted]] if wanted else values[:0]
            for at, values in zip(places, aligned, strict=True)
        ]
    stacked = np.stack(aligned)
    stacked = stacked[:, np.isfinite(stacked).all(axis=0)]
    if stacked.shape[1] < 2:
        return None, "fewer than two documents were scored in all runs"
    return stacked, ""


def _columns_of(run: BoardRun, known: Mapping[Path, _SampleColumns | None]) -> _SampleColumns | None:
    """Return ids and the columns of numbers; None where the file is missing or damaged, or ids occur twice."""
    import pyarrow

    if (run.folder / SAMPLES_FILE).is_symlink():
        return None
    try:
        with open_samples(run.folder, run.record) as file:
            schema = file.schema_arrow
            names = [field.name for field in schema if pyarrow.types.is_float64(field.type)]
            if "id" not in schema.names or not pyarrow.types.is_string(schema.field("id").type):
                return None
            table = file.read(columns=["id", *names], use_threads=False)
    except (DataError, OSError, pyarrow.ArrowException):
        return None
    columns = {name: numbers(table[name]) for name in names}
    # Runs of a task are mostly of the same documents: their ids are kept, and looked at, once.
    usual = next((read[0] for read in known.values() if read is not None), None)
    if usual is not None and table["id"].equals(usual):
        return usual, columns
    return (table["id"], columns) if len(table["id"].unique()) == len(table["id"]) else None
