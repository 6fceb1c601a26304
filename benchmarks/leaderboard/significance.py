"""Significance letters of a leaderboard: those of records for metrics, a paired bootstrap for captioners."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...errors import DataError
from ..records.samples import SAMPLES_FILE, open_samples
from ..statistics.multiple_comparisons import holm, significance_letters
from ..statistics.paired import p_of_mean_differences
from .board import BoardRun, Column
from .measured import Measured

ALPHA = 0.05
SEED = 1234

Groups = dict[str, dict[int, str]]
"""Column to row (its identity) to letters."""


def letters_of_metrics(columns: Sequence[Column], rows: Sequence[Measured]) -> tuple[Groups, list[str]]:
    """Return the letters that records hold, where all numbers of a column are of one run.

    Letters of two runs say nothing of a metric of one and a metric of the other. A row without a number has none.
    """
    groups: Groups = {}
    several = False
    for column in columns:
        measured = {id(row): row for row in rows if column.key in row.results}
        measured = {at: row for at, row in measured.items() if row.results[column.key].value is not None}
        runs = {row.runs[column.key].key: row.runs[column.key].record for row in measured.values()}
        if len(runs) == 1:
            (record,) = runs.values()
            groups[column.key] = {at: record.letters(row.results[column.key]) for at, row in measured.items()}
        several = several or len(runs) > 1
    note = "The rows are of several runs, so no groups are given; `bench compare RUN RUN` tests them."
    return groups, [note] if several else []


def letters_of_models(columns: Sequence[Column], rows: Sequence[Measured]) -> tuple[Groups, list[str]]:
    """Return letters of captioners, by the mean over the captions that all of them have a score for."""
    if len(rows) < 2:
        return {}, []
    groups: Groups = {}
    reasons: dict[str, list[str]] = {}
    samples = _Samples()
    for column in columns:
        measured = [
            row for row in rows if column.key in row.results and row.results[column.key].value is not None
        ]
        if len(measured) < 2:
            continue
        letters, reason = _letters(column, measured, samples)
        if reason:
            reasons.setdefault(reason, []).append(column.label)
        else:
            groups[column.key] = {id(row): one for row, one in zip(measured, letters, strict=True)}
    return groups, [f"{', '.join(labels)}: no groups, as {reason}." for reason, labels in reasons.items()]


def _letters(column: Column, measured: Sequence[Measured], samples: _Samples) -> tuple[list[str], str]:
    metric = measured[0].results[column.key].metric
    records = [row.runs[column.key].record for row in measured]
    made = [record.made_by.get(metric) for record in records]
    if made[0] is None:
        return [], "they are not of metrics"
    if any(one != made[0] for one in made):
        return [], "the metric was not computed alike in all runs"
    if records[0].is_of_corpus(metric):
        return [], "their values are of all captions together, not means over captions"
    values, reason = samples.common([row.runs[column.key] for row in measured], metric)
    if values is None:
        return [], reason
    ps = p_of_mean_differences(values, alpha=ALPHA, seed=SEED)
    order = sorted(
        range(len(measured)),
        key=lambda n: (measured[n].results[column.key].value or 0.0) * (-1 if column.higher_is_better else 1),
    )
    pairs = [(one, other) for n, one in enumerate(order) for other in order[n + 1 :]]
    place = {row: number for number, row in enumerate(order)}
    corrected = holm([float(ps[one, other]) for one, other in pairs])
    different = [
        (place[one], place[other])
        for (one, other), p in zip(pairs, corrected, strict=True)
        if p is not None and p < ALPHA
    ]
    letters = significance_letters(len(order), different)
    return [letters[place[row]] for row in range(len(measured))], ""


class _Samples:
    """Reads the samples of runs, each once."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[list[str], dict[str, np.ndarray]] | None] = {}

    def common(self, runs: Sequence[BoardRun], metric: str) -> tuple[np.ndarray | None, str]:
        """Return ``[models, documents]`` scores of the documents that all runs scored, or why there are none."""
        scores = []
        for run in runs:
            read = self._read(run)
            if read is None or metric not in read[1]:
                return None, "not every run has its samples"
            scores.append((read[0], read[1][metric]))
        ids = scores[0][0]
        if any(other != ids for other, _ in scores):
            shared = set(ids).intersection(*(other for other, _ in scores[1:]))
            ids = [one for one in ids if one in shared]
            aligned = []
            for known, values in scores:
                places = {one: n for n, one in enumerate(known)}
                aligned.append(values[[places[one] for one in ids]] if ids else values[:0])
        else:
            aligned = [values for _, values in scores]
        stacked = np.stack(aligned)
        stacked = stacked[:, np.isfinite(stacked).all(axis=0)]
        if stacked.shape[1] < 2:
            return None, "fewer than two documents were scored in all runs"
        return stacked, ""

    def _read(self, run: BoardRun) -> tuple[list[str], dict[str, np.ndarray]] | None:
        if run.folder not in self._known:
            self._known[run.folder] = _columns_of(run)
        return self._known[run.folder]


def _columns_of(run: BoardRun) -> tuple[list[str], dict[str, np.ndarray]] | None:
    """Return ids and the columns of numbers; None where the file is missing or damaged, or ids occur twice."""
    import pyarrow

    if (run.folder / SAMPLES_FILE).is_symlink():
        return None
    try:
        with open_samples(run.folder, run.record) as file:
            schema = file.schema_arrow
            numbers = [field.name for field in schema if pyarrow.types.is_float64(field.type)]
            if "id" not in schema.names or not pyarrow.types.is_string(schema.field("id").type):
                return None
            table = file.read(columns=["id", *numbers])
    except (DataError, OSError, pyarrow.ArrowException):
        return None
    ids = table["id"].to_pylist()
    if len(set(ids)) != len(ids):
        return None
    return ids, {name: table[name].to_numpy(zero_copy_only=False) for name in numbers}
