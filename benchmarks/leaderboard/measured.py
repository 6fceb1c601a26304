"""What runs measured, row by row, before it is ranked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...metrics import metrics as known_metrics
from ..protocols.job import Result
from ..records.entries import UsedModel
from ..records.record import Record
from .board import BoardRun


@dataclass(frozen=True)
class MeasuredRow:
    """A row that was measured.

    Attributes:
        name: The metric, or the model.
        model: Beside a metric: the model that it was computed with.
        metric: Name of the metric in records; empty for rows that are models.
        run: The run behind it; of several, the one behind most of it.
        results: Its numbers by column.
        runs: The run behind each of them.
        keys: The key of each in its record.
        ranked: Whether it is held against others: it is of all data, and of the data that most rows are of.
        marks: What a reader must know.
    """

    name: str
    model: str
    metric: str
    run: BoardRun
    results: Mapping[str, Result]
    runs: Mapping[str, BoardRun]
    keys: Mapping[str, str]
    ranked: bool = True
    marks: tuple[str, ...] = ()


def measured_metrics(runs: Sequence[BoardRun]) -> list[MeasuredRow]:
    """Return a row a metric and model: of several runs the newest of those with the most documents."""
    names = _names_of_models(runs)
    found: dict[tuple[str, str], MeasuredRow] = {}
    for run in sorted(runs, key=_merit, reverse=True):
        by_metric: dict[str, dict[str, tuple[str, Result]]] = {}
        for key, result in _shown(run.record).items():
            column = ".".join(filter(None, (result.statistic, result.category)))
            by_metric.setdefault(result.metric, {})[column] = key, result
        for metric, columns in by_metric.items():
            model = " + ".join(names[one] for one in models_of_metric(run.record, metric))
            _, first = next(iter(columns.values()))
            if (metric, model) not in found:
                results = {column: result for column, (_, result) in columns.items()}
                keys = {column: key for column, (key, _) in columns.items()}
                found[metric, model] = MeasuredRow(
                    first.label[0], model, metric, run, results, dict.fromkeys(results, run), keys
                )
    return _same_data(_namesakes_told_apart(list(found.values())), with_captions=True)


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
        results: dict[str, Result] = {}
        behind: dict[str, BoardRun] = {}
        keys: dict[str, str] = {}
        for run in (first, *others):
            if run.record.data_hash != first.record.data_hash:
                continue
            for key, result in run.record.results.items():
                column = key
                if result.metric in several:
                    by = " + ".join(names[one] for one in models_of_metric(run.record, result.metric))
                    column = f"{key} [{by}]"
                known = results.get(column)
                if known is None or (known.value is None and result.value is not None):
                    results[column], behind[column], keys[column] = result, run, key
        most = Counter(run.key for run in behind.values())
        main = max((first, *others), key=lambda run: (most[run.key], _merit(run)))
        rows.append(MeasuredRow(labels[identity], "", "", main, results, behind, keys))
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


def in_words(settings: Any) -> str:
    """Return settings as ``key=value, key=value``."""
    if not isinstance(settings, dict):
        return "" if settings is None else str(settings)
    return ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))


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
        parts = [in_words(json.loads(identity[n])) for n in differing]
        told_apart = "; ".join(filter(None, parts))
        names[identity] = f"{identity[0]} ({told_apart})" if told_apart else identity[0]
    return names


def _names_of_models(runs: Sequence[BoardRun]) -> dict[tuple[str, str], str]:
    """Return what an encoder or judge is called: with its arguments where two of them share the name."""
    known = {_named(one) for run in runs for one in run.record.settings.metric_models.values()}
    shared = Counter(name for name, _ in known)
    return {
        (name, arguments): f"{name} ({in_words(json.loads(arguments))})" if shared[name] > 1 else name
        for name, arguments in known
    }


def _metrics_of_several_models(runs: Sequence[BoardRun]) -> set[str]:
    """Return the metrics that were computed with several encoders or judges, and so are several columns."""
    models: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for run in runs:
        for metric in run.record.metrics:
            models.setdefault(metric, set()).add(tuple(models_of_metric(run.record, metric)))
    return {metric for metric, used in models.items() if len(used) > 1}


def _namesakes_told_apart(rows: list[MeasuredRow]) -> list[MeasuredRow]:
    """Add the name in records where two settings of one metric have one label."""
    known = Counter((row.name, row.model) for row in rows)
    return [replace(row, name=f"{row.name} ({row.metric})") if known[row.name, row.model] > 1 else row for row in rows]


def _same_data(rows: list[MeasuredRow], *, with_captions: bool) -> list[MeasuredRow]:
    """Leave rows of a part of the data, or of other data than most, out of the ranking, and mark the latter.

    Rows of a subset are ranked among themselves, where no row is of all documents.
    """

    def data(row: MeasuredRow) -> str:
        record, subset = row.run.record, row.run.record.coverage.subset
        # Captions of two models differ; those that metrics judge may not.
        scored = record.data_hash if with_captions else [record.documents_hash, subset and subset.hash]
        return _as_json([scored, record.protocol.fingerprint()])

    whole = [row for row in rows if row.run.record.is_whole]
    counts = Counter(map(data, whole))
    latest = {data(row): row.run.record.date for row in sorted(whole, key=lambda row: row.run.record.date)}
    of_all = {data(row) for row in whole if row.run.record.coverage.subset is None}
    usual = max(counts, key=lambda one: (one in of_all, counts[one], latest[one], one), default=None)
    return [
        row
        if data(row) == usual and row.run.record.is_whole
        else replace(row, ranked=False, marks=("other data than most rows",) if row.run.record.is_whole else ())
        for row in rows
    ]
