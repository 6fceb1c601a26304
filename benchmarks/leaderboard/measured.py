"""Measured results of runs as table rows, before ranking."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pyarrow

from ...arrow import numbers
from ...errors import DataError
from ...metrics import metrics as known_metrics
from ..comparing.finished_runs import settings_text
from ..protocols.job import Result
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, open_samples
from ..statistics.intervals import FEWEST_FOR_LETTERS
from ..statistics.paired import p_of_mean_differences
from ..statistics.significance import holm_of, rank_ranges, significance_letters
from .board import BoardRun, Column


class MeasuredValue(NamedTuple):
    """A value of a row: the result, its run, and its key in the run's record."""

    result: Result
    run: BoardRun
    key: str


@dataclass(frozen=True)
class MeasuredRow:
    """A row of measured results.

    Attributes:
        name: The metric, or the model.
        model: For a metric, the model that it was computed with.
        metric: Name of the metric in records; empty for rows that are models.
        run: Its run; if there are several, the one with most of its values.
        values: Its values by column.
        ranked: Whether it is ranked: it covers all the data, and the same data as most rows.
        marks: Warnings for comparisons with other rows.
    """

    name: str
    model: str
    metric: str
    run: BoardRun
    values: Mapping[str, MeasuredValue]
    ranked: bool = True
    marks: tuple[str, ...] = ()

    def value(self, column: str) -> float | None:
        """Return the value of a column; None if there is none."""
        return self.values[column].result.value if column in self.values else None


def measured_metrics(runs: Sequence[BoardRun]) -> list[MeasuredRow]:
    """Return one row per metric and model, from the newest of the runs with the most documents."""
    names = _names_of_models(runs)
    by_model: dict[tuple[str, str], MeasuredRow] = {}
    for run in sorted(runs, key=_merit, reverse=True):
        by_metric: dict[str, dict[str, MeasuredValue]] = {}
        for key, result in _shown(run.record).items():
            column = ".".join(filter(None, (result.statistic, result.category)))
            by_metric.setdefault(result.metric, {})[column] = MeasuredValue(result, run, key)
        for metric, values in by_metric.items():
            model = " + ".join(names[role] for role in models_of_metric(run.record, metric))
            label = next(iter(values.values())).result.label[0]
            by_model.setdefault((metric, model), MeasuredRow(label, model, metric, run, values))
    rows = list(by_model.values())
    known = Counter((row.name, row.model) for row in rows)
    # Two settings of a metric may have the same label.
    return _same_data(
        [replace(row, name=f"{row.name} ({row.metric})") if known[row.name, row.model] > 1 else row for row in rows],
        with_captions=True,
    )


def _shown(record: Record) -> dict[str, Result]:
    """Return the results with a column; for rules that change captions, the first of each, after the mean of these."""
    if not record.protocol.by_rule:
        return dict(record.results)
    first: dict[tuple[str, str], str] = {}
    for key, result in record.results.items():
        first.setdefault((result.metric, result.category), key)
    shown: dict[str, Result] = {}
    for metric in record.metrics:
        rules = {key: record.results[key] for (name, _), key in first.items() if name == metric}
        # Games are no shares of captions.
        shares = {key: replace(rule, scale=100.0) for key, rule in rules.items() if rule.higher_is_better}
        if shares:
            shown[f"{metric}.{RULES}"] = _mean_of(metric, list(shares.values()))
        shown |= rules | shares
    return shown


RULES = "rules"
"""The column of the mean over rules."""


def _mean_of(metric: str, rules: Sequence[Result]) -> Result:
    """Return the mean share of captions that change as expected over rules; without a value where a rule has none."""
    values = [rule.value for rule in rules if rule.value is not None]
    missing = [rule.label[1] for rule in rules if rule.value is None]
    reason = f"no value of {', '.join(missing)}" if missing else ""
    label = rules[0].label[0], f"mean of {len(rules)} rules"
    mean = None if missing else fmean(values)
    return Result(metric, RULES, label, mean, sum(rule.n for rule in rules), True, 100.0, reason=reason)


def measured_models(runs: Sequence[BoardRun]) -> list[MeasuredRow]:
    """Return one row per model and settings; runs on the same captions are merged."""
    labels, names = _told_apart({_identity(run.record) for run in runs}), _names_of_models(runs)
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
                    by = " + ".join(names[role] for role in models_of_metric(run.record, result.metric))
                    column = f"{key} [{by}]"
                if column not in values or (values[column].result.value is None and result.value is not None):
                    values[column] = MeasuredValue(result, run, key)
        most = Counter(value.run.key for value in values.values())
        main = max((first, *others), key=lambda run: (most[run.key], _merit(run)))
        rows.append(MeasuredRow(labels[identity], "", "", main, values))
    return _same_data(rows, with_captions=False)


def models_of_metric(record: Record, metric: str) -> list[tuple[str, str]]:
    """Return name and arguments (as JSON) of the models that a metric of a run used."""
    name = record.registered_name(metric)
    needs: Iterable[str] = ("encoder", "judge")
    if name in known_metrics and isinstance(stated := known_metrics[name].needs, frozenset):
        needs = stated
    return [(name, _as_json(used)) for role, (name, used) in record.settings.metric_models.items() if role in needs]


def _merit(run: BoardRun) -> tuple[bool, int, float, str]:
    return run.record.is_whole, run.record.documents.effective, run.record.date, run.key


def _as_json(value: Any) -> str:
    return json.dumps(value or {}, sort_keys=True)


def _identity(record: Record) -> tuple[str, ...]:
    """Return the identity of a model: name, arguments and decoding settings."""
    settings = record.settings
    return record.model_name or "no model", _as_json(settings.model_args), _as_json(settings.decoding)


def _told_apart(models: set[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return a name of each model (its name, and settings as JSON), with the settings that differ between namesakes."""
    names: dict[tuple[str, ...], str] = {}
    for name, *settings in models:
        namesakes = [other for other in models if other[0] == name]
        differing = [own for n, own in enumerate(settings, 1) if len({other[n] for other in namesakes}) > 1]
        told_apart = "; ".join(filter(None, (settings_text(json.loads(own)) for own in differing)))
        names[name, *settings] = f"{name} ({told_apart})" if told_apart else name
    return names


def _names_of_models(runs: Sequence[BoardRun]) -> dict[tuple[str, ...], str]:
    """Return the name of each encoder or judge, with its arguments if the name is ambiguous."""
    used = (model for run in runs for model in run.record.settings.metric_models.values())
    return _told_apart({(name, _as_json(arguments)) for name, arguments in used})


def _metrics_of_several_models(runs: Sequence[BoardRun]) -> set[str]:
    """Return the metrics with several encoders or judges; each of these has a column."""
    used = {
        (metric, *models)
        for run in runs
        for metric in run.record.metrics
        # A measure of the row's own model is no column of its own.
        if (models := [model for model in models_of_metric(run.record, metric) if model[0] != run.record.model_name])
    }
    return {metric for metric, count in Counter(metric for metric, *_ in used).items() if count > 1}


def _same_data(rows: list[MeasuredRow], *, with_captions: bool) -> list[MeasuredRow]:
    """Exclude rows on a part of the data or on other data than most rows from the ranking, and mark the latter.

    If no row covers all documents, rows on a subset are ranked among themselves.
    """

    def data(row: MeasuredRow) -> str:
        record, subset = row.run.record, row.run.record.subset
        # Captions differ between captioners, but metrics must be computed on the same captions.
        scored = record.data_hash if with_captions else [record.documents_hash, subset and subset.hash]
        return _as_json([scored, record.protocol.fingerprint()])

    whole = [row for row in rows if row.run.record.is_whole]
    counts = Counter(map(data, whole))
    latest = {data(row): row.run.record.date for row in sorted(whole, key=lambda row: row.run.record.date)}
    of_all = {data(row) for row in whole if row.run.record.subset is None}
    usual = max(counts, key=lambda value: (value in of_all, counts[value], latest[value], value), default=None)
    return [
        row
        if data(row) == usual and row.run.record.is_whole
        else replace(row, ranked=False, marks=("other data than most rows",) if row.run.record.is_whole else ())
        for row in rows
    ]


ALPHA = 0.05
LONGEST_LABEL = 12
"""Maximum number of letters of a row; above it, the column shows only ranges of ranks."""


_SampleColumns = tuple[Any, dict[str, np.ndarray]]
"""Ids of samples, and their scores by column."""
Group = tuple[str, tuple[int, int] | None]
"""Significance letters (two rows have a letter in common exactly if they are not significantly different; empty if only
ranks are given), and the best and worst rank that the tests do not exclude."""
Groups = Mapping[str, Mapping[int, Group]]
"""Column to ``id`` of a row to group."""


def groups_of_metrics(columns: Sequence[Column], rows: Sequence[MeasuredRow]) -> tuple[Groups, list[str]]:
    """Return the letters from the record, for columns whose values all come from the same run.

    Letters of different runs are not comparable. A row without a value has no letters.
    """
    groups: dict[str, dict[int, Group]] = {}
    several = False
    for column in columns:
        values = {id(row): row.values[column.key] for row in rows if row.value(column.key) is not None}
        runs = {value.run.key: value.run.record for value in values.values()}
        if len(runs) == 1:
            (record,) = runs.values()
            groups[column.key] = {at: (record.letters(value.result), None) for at, value in values.items()}
        several = several or len(runs) > 1
    note = "No groups, as the rows come from several runs; `bench compare RUN RUN` tests differences."
    return groups, [note] if several else []


def groups_of_models(columns: Sequence[Column], rows: Sequence[MeasuredRow]) -> tuple[Groups, list[str]]:
    """Return groups of captioners, by the mean score over the documents that all of them have a score for."""
    if len(rows) < 2:
        return {}, []
    groups: dict[str, dict[int, Group]] = {}
    reasons: dict[str, list[str]] = {}
    crowded: list[str] = []
    samples: dict[Path, _SampleColumns | None] = {}
    for column in columns:
        measured = [row for row in rows if row.value(column.key) is not None]
        if len(measured) < 2:
            continue
        of_rows, reason = _groups(column, measured, samples)
        if reason:
            reasons.setdefault(reason, []).append(column.label)
            continue
        groups[column.key] = {id(row): mark for row, mark in zip(measured, of_rows, strict=True)}
        if not of_rows[0][0] and column.higher_is_better is not None:
            crowded.append(column.label)
    notes = [f"{', '.join(labels)}: no groups, as {reason}." for reason, labels in reasons.items()]
    if crowded:
        notes.append(f"{', '.join(crowded)}: no letters, as there are too many; ranges of ranks show differences.")
    return groups, notes


def _groups(
    column: Column, measured: Sequence[MeasuredRow], samples: dict[Path, _SampleColumns | None]
) -> tuple[list[Group], str]:
    values = [row.values[column.key] for row in measured]
    metric, records = values[0].result.metric, [value.run.record for value in values]
    origins = [record.made_by.get(metric) for record in records]
    if origins[0] is None:
        return [], "only `bench compare RUN RUN` tests them"
    if any(origin != origins[0] for origin in origins):
        return [], "the settings of the metric differ between runs"
    if records[0].made_by[metric].get("aggregation") == "corpus":
        return [], "these are corpus-level values, not means over captions"
    scores = _common([value.run for value in values], metric, samples)
    if scores is None:
        return [], "samples of a run are missing"
    if scores.shape[1] < FEWEST_FOR_LETTERS:
        return [], f"fewer than {FEWEST_FOR_LETTERS} captions"
    order = sorted(
        range(len(measured)), key=lambda n: (values[n].result.value or 0.0) * (1 if column.lower_is_better else -1)
    )
    ps = p_of_mean_differences(scores[order])
    better, worse = np.triu_indices(len(order), 1)
    differ = holm_of(ps[better, worse]) < ALPHA
    pairs = list(zip(better[differ].tolist(), worse[differ].tolist(), strict=True))
    letters = significance_letters(len(order), pairs)
    if max(map(len, letters)) > LONGEST_LABEL:
        letters = [""] * len(order)
    groups = list(zip(letters, rank_ranges(len(order), pairs), strict=True))
    return [groups[place] for place in np.argsort(order).tolist()], ""


def _common(runs: Sequence[BoardRun], metric: str, known: dict[Path, _SampleColumns | None]) -> np.ndarray | None:
    """Return ``[models, documents]`` scores on the documents that all runs scored; None if the samples of one lack.

    Args:
        runs: The runs.
        metric: The metric.
        known: Cache of samples, by the folder of the run.
    """
    scores: list[tuple[Any, np.ndarray]] = []
    for run in runs:
        if run.folder not in known:
            known[run.folder] = _columns_of(run, known)
        read = known[run.folder]
        if read is None or metric not in read[1]:
            return None
        scores.append((read[0], read[1][metric]))
    aligned = [values for _, values in scores]
    if any(ids is not scores[0][0] for ids, _ in scores):
        places = [{identity: n for n, identity in enumerate(ids.to_pylist())} for ids, _ in scores]
        wanted = [identity for identity in places[0] if all(identity in at for at in places)]
        rows = [np.array([at[identity] for identity in wanted], np.int64) for at in places]
        aligned = [values[at] for at, values in zip(rows, aligned, strict=True)]
    stacked = np.stack(aligned)
    return stacked[:, np.isfinite(stacked).all(axis=0)]


def _columns_of(run: BoardRun, known: Mapping[Path, _SampleColumns | None]) -> _SampleColumns | None:
    """Return ids and scores by column; None if the file is missing or damaged, or an id occurs twice."""
    if (run.folder / SAMPLES_FILE).is_symlink():
        return None
    try:
        with open_samples(run.folder, run.record) as file:
            names = [field.name for field in file.schema_arrow if pyarrow.types.is_float64(field.type)]
            table = file.read(columns=["id", *names], use_threads=False)
            ids = table["id"]
            are_unique = len(ids.unique()) == len(ids)
    except (DataError, OSError, KeyError, pyarrow.ArrowException):
        return None
    columns = {name: numbers(table[name]) for name in names}
    # Most runs of a task have the same documents, so their ids are stored and compared once.
    usual = next((read[0] for read in known.values() if read is not None), None)
    if usual is not None and ids.equals(usual):
        return usual, columns
    return (ids, columns) if are_unique else None
