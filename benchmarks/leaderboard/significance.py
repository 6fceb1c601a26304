"""Significance groups of a leaderboard: those of records for metrics, a paired bootstrap for captioners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...arrow_arrays import numbers
from ...errors import DataError
from ..records.samples import SAMPLES_FILE, open_samples
from ..statistics.multiple_comparisons import holm_of, rank_ranges, significance_letters
from ..statistics.paired import p_of_mean_differences
from .board import BoardRun, Column
from .measured import MeasuredRow

ALPHA = 0.05
SEED = 1234
LONGEST_LABEL = 12
"""Where the letters of a row would be longer, its column has ranks alone: nobody could read them in a table."""


@dataclass(frozen=True)
class Group:
    """What tests say of a number among those of its column.

    Attributes:
        letters: Two rows share one if, and only if, they do not differ; empty where only ranks are given.
        ranks: Best and worst rank that the tests leave open; None where only letters are known.
    """

    letters: str
    ranks: tuple[int, int] | None = None


Groups = Mapping[str, Mapping[int, Group]]
"""Column to row (its identity) to group."""


def groups_of_metrics(columns: Sequence[Column], rows: Sequence[MeasuredRow]) -> tuple[Groups, list[str]]:
    """Return the letters that records hold, where all numbers of a column are of one run.

    Letters of two runs say nothing of a metric of one and a metric of the other. A row without a number has none.
    """
    groups: dict[str, dict[int, Group]] = {}
    several = False
    for column in columns:
        measured = {id(row): row for row in rows if column.key in row.results}
        measured = {at: row for at, row in measured.items() if row.results[column.key].value is not None}
        runs = {row.runs[column.key].key: row.runs[column.key].record for row in measured.values()}
        if len(runs) == 1:
            (record,) = runs.values()
            groups[column.key] = {at: Group(record.letters(row.results[column.key])) for at, row in measured.items()}
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
    samples = _Samples()
    for column in columns:
        measured = [row for row in rows if column.key in row.results and row.results[column.key].value is not None]
        if len(measured) < 2:
            continue
        of_rows, reason = _groups(column, measured, samples)
        if reason:
            reasons.setdefault(reason, []).append(column.label)
            continue
        groups[column.key] = {id(row): one for row, one in zip(measured, of_rows, strict=True)}
        if not of_rows[0].letters and column.higher_is_better is not None:
            crowded.append(column.label)
    notes = [f"{', '.join(labels)}: no groups, as {reason}." for reason, labels in reasons.items()]
    if crowded:
        notes.append(f"{', '.join(crowded)}: no letters, which would be too many to read; ranks say who differs.")
    return groups, notes


def _groups(column: Column, measured: Sequence[MeasuredRow], samples: _Samples) -> tuple[list[Group], str]:
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
    order = sorted(
        range(len(measured)),
        key=lambda n: (measured[n].results[column.key].value or 0.0) * (1 if column.lower_is_better else -1),
    )
    ps = p_of_mean_differences(values[order], alpha=ALPHA, seed=SEED)
    better, worse = np.triu_indices(len(order), 1)
    differ = holm_of(ps[better, worse]) < ALPHA
    pairs = list(zip(better[differ].tolist(), worse[differ].tolist(), strict=True))
    letters = significance_letters(len(order), pairs)
    if max(map(len, letters)) > LONGEST_LABEL:
        letters = [""] * len(order)
    groups = [Group(*one) for one in zip(letters, rank_ranges(len(order), pairs), strict=True)]
    return [groups[place] for place in np.argsort(order).tolist()], ""


class _Samples:
    """Reads the samples of runs, each once."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Any, dict[str, np.ndarray]] | None] = {}
        self._usual_ids: Any = None

    def common(self, runs: Sequence[BoardRun], metric: str) -> tuple[np.ndarray | None, str]:
        """Return ``[models, documents]`` scores of the documents that all runs scored, or why there are none."""
        scores = []
        for run in runs:
            read = self._read(run)
            if read is None or metric not in read[1]:
                return None, "not every run has its samples"
            scores.append((read[0], read[1][metric]))
        first = scores[0][0]
        if any(ids is not first for ids, _ in scores):
            known = [ids.to_pylist() for ids, _ in scores]
            shared = set(known[0]).intersection(*known[1:])
            wanted = [one for one in known[0] if one in shared]
            aligned = []
            for ids, (_, values) in zip(known, scores, strict=True):
                places = {one: n for n, one in enumerate(ids)}
                aligned.append(values[[places[one] for one in wanted]] if wanted else values[:0])
        else:
            aligned = [values for _, values in scores]
        stacked = np.stack(aligned)
        stacked = stacked[:, np.isfinite(stacked).all(axis=0)]
        if stacked.shape[1] < 2:
            return None, "fewer than two documents were scored in all runs"
        return stacked, ""

    def _read(self, run: BoardRun) -> tuple[Any, dict[str, np.ndarray]] | None:
        """Return ids and columns of numbers; None where they cannot be read, or ids occur twice."""
        if run.folder not in self._known:
            read = _columns_of(run)
            # Runs of a task are mostly of the same documents: their ids are kept, and looked at, once.
            if read is not None and self._usual_ids is not None and read[0].equals(self._usual_ids):
                read = self._usual_ids, read[1]
            elif read is not None and len(read[0].unique()) != len(read[0]):
                read = None
            elif read is not None and self._usual_ids is None:
                self._usual_ids = read[0]
            self._known[run.folder] = read
        return self._known[run.folder]


def _columns_of(run: BoardRun) -> tuple[Any, dict[str, np.ndarray]] | None:
    """Return ids and the columns of numbers; None where the file is missing or damaged."""
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
    return table["id"], {name: numbers(table[name]) for name in names}
