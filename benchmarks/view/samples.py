# pyright: basic
# pyarrow has no types that pyright could read.
"""Searches and sorts the samples of a run: values are in memory, texts are read when needed."""

import threading
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from ...arrow import counts_in_lists, numbers, numbers_in_lists, truths
from ..records.record import Record
from ..records.samples import COLUMNS, open_samples, row_groups
from .filters import DISAGREEMENT, TITLES, ExtraColumns, FilterError, select

_ORDERS_KEPT = 8


class RunSamples:
    """The samples of a run by index, from 0, in the order of the file. Thread-safe.

    Args:
        folder: The folder of the run.
        record: Its record.

    Raises:
        DataError: The run has no samples, or the file was changed.
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self._file, self._record = open_samples(folder, record), record
        self._lock = threading.Lock()
        self.order = lru_cache(_ORDERS_KEPT)(self.sorted_rows)
        schema = self._file.schema_arrow
        self.columns: list[str] = schema.names
        self.metrics = [
            field.name
            for field in schema
            if pyarrow.types.is_floating(field.type) and field.name.partition(".")[0] not in COLUMNS
        ]
        self.ratings = [name for name in self.columns if name.partition(".")[0] == "ratings"]
        self.names = [
            field.name for field in schema
            if pyarrow.types.is_string(field.type)
            or (pyarrow.types.is_list(field.type) and pyarrow.types.is_string(field.type.value_type))
        ]  # fmt: skip
        self.numbers, self.counts = cache(self._read_numbers), cache(self._counts)
        # Users page through neighbours.
        self._part = lru_cache(1)(self._read_part)

    def __len__(self) -> int:
        return self._file.metadata.num_rows

    @cached_property
    def rated(self) -> list[str]:
        """The columns with ratings: ``ratings``, or one per aspect."""
        return [name for name in self.ratings if np.isfinite(self.numbers(name)).any()]

    @cached_property
    def sortable(self) -> list[str]:
        """The columns of numbers: ratings and metrics."""
        return [*self.rated, *self.metrics]

    @cached_property
    def called(self) -> dict[str, str]:
        """The columns by name and by label, in lower case; a label of several columns is left out."""
        labels = {**TITLES, **{name: column_label(self._record, name) for name in self.sortable}}
        called = {label: name for name, label in DISAGREEMENT.items()}
        for name in [*self.sortable, *self.names]:
            for text in (name.lower(), str(labels.get(name, name)).lower()):
                called[text] = name if called.get(text, name) == name else ""
        return {text: name for text, name in called.items() if name}

    def _read_numbers(self, name: str) -> np.ndarray:
        """Return ``[n]`` scores of a metric, or mean ratings; NaN if missing."""
        column = self.column(name)
        return _means(column) if name in self.ratings else numbers(column)

    def _counts(self, name: str) -> bool:
        """Return whether a metric counts: all values are integers, some greater than 1."""
        values = self.numbers(name)
        values = values[np.isfinite(values)]
        return bool((values == np.round(values)).all() and (values > 1).any())

    def rank(self, name: str, sample: int) -> tuple[int, int, int] | None:
        """Return the rank, 1 for the best, and the numbers of samples with it and with any; None without a score.

        Args:
            name: The metric, or a column of ratings.
            sample: Index of the sample.
        """
        values = self.numbers(name) * (1 if self._record.higher_is_better(name) else -1)
        if not np.isfinite(values[sample]):
            return None
        before, equal = (values > values[sample]).sum(), (values == values[sample]).sum()
        return int(before) + 1, int(equal), int(np.isfinite(values).sum())

    def sorted_rows(
        self, sort: str = "", descending: bool = False, query: str = "", extra: ExtraColumns | None = None
    ) -> np.ndarray:
        """Return the sorted indices of samples.

        Args:
            sort: A metric, a column of ratings or of ``extra``; missing values come last. Empty for the order of the
                file.
            descending: Whether to sort in descending order.
            query: A filter (:func:`~.filters.select`); empty for all samples.
            extra: Further columns of numbers.

        Raises:
            FilterError: The filter cannot be read.
        """
        extra = extra or {}
        rows = np.flatnonzero(select(query, self, extra)) if query.strip() else np.arange(len(self))
        if not sort:
            return rows
        values = (extra[sort]() if sort in extra else self.numbers(sort))[rows]
        return rows[np.argsort(-values if descending else values, kind="stable")]

    def rows(self, wanted: Sequence[int]) -> list[dict[str, Any]]:
        """Return samples as rows in the given order; reads only their row groups."""
        wanted_rows = np.asarray(wanted, np.int64)
        rows: dict[int, dict[str, Any]] = {}
        for start, end, group in row_groups(self._file):
            inside = np.unique(wanted_rows[(wanted_rows >= start) & (wanted_rows < end)])
            if inside.size:
                part = self._part(group)
                # Not 'take': creating the array of indices imports pandas.
                rows.update((row, part.slice(row - start, 1).to_pylist()[0]) for row in inside.tolist())
        return [rows[number] for number in wanted_rows.tolist()]

    def find(self, identity: str) -> int | None:
        """Return the index of the sample with an id; None if there is none."""
        index = pyarrow.compute.index(self.column("id"), identity).as_py()  # type: ignore[attr-defined]
        return index if index >= 0 else None

    def _read_part(self, group: int) -> Any:
        """Return a row group."""
        with self._lock:
            return self._file.read_row_group(group, use_threads=False)

    def column(self, name: str) -> pyarrow.ChunkedArray:
        """Return all values of a column."""
        with self._lock:
            return self._file.read([name], use_threads=False)[name]

    def failed(self) -> np.ndarray:
        """Return ``[n]`` whether each sample has a failure."""
        if "failure" not in self.columns:
            return np.zeros(len(self), bool)
        return _all_truths(self.column("failure").is_valid())

    def empty(self) -> np.ndarray:
        """Return ``[n]`` whether the caption of each sample was counted as empty."""
        blank = pyarrow.compute.utf8_trim_whitespace(self.column("candidate"))  # type: ignore[attr-defined]
        return self._equal(blank, "") & ~self.failed()

    def equal(self, name: str, text: str, *, differs: bool) -> np.ndarray:
        """Return ``[n]`` whether each sample has a text in a column, or another one."""
        column = self.column(name)
        if pyarrow.types.is_list(column.type):
            raise FilterError(f"column '{name}' holds lists of texts: compare it by 'contains'")
        equal = self._equal(column, text)
        return ~equal & _all_truths(column.is_valid()) if differs else equal

    def _equal(self, column: Any, text: str) -> np.ndarray:
        return _all_truths(pyarrow.compute.equal(column, text))  # type: ignore[attr-defined]

    def containing(self, query: str, name: str = "") -> np.ndarray:
        """Return ``[n]`` whether a text of each sample, or its text in one column, contains another, ignoring case."""
        chosen = np.zeros(len(self), bool)
        for start, _, group in row_groups(self._file):
            with self._lock:
                texts = self._file.read_row_group(group, [name] if name else self.names, use_threads=False)
            for column in texts.combine_chunks().columns:
                for chunk in column.chunks:
                    chosen[start + _rows_containing(chunk, query)] = True
        return chosen


def column_label(record: Record, name: str) -> str:
    """Return the label of a column of numbers."""
    kind, _, aspect = name.partition(".")
    if kind == "ratings":
        return f"human rating, {aspect}" if aspect else "human rating"
    return DISAGREEMENT.get(name) or record.metric_label(name)


def _all_truths(column: Any) -> np.ndarray:
    """Return ``[n]`` which values of a chunked column of truths are true; a missing one is not."""
    return np.concatenate([np.zeros(0, bool), *map(truths, column.chunks)])


def _rows_containing(values: Any, query: str) -> np.ndarray:
    """Return the indices of texts, or of lists of texts, that contain a text, ignoring case."""
    if pyarrow.types.is_list(values.type):
        counts = counts_in_lists(values)
        # Not 'flatten', which skips null lists.
        inside = values.values.slice(values.offsets[0].as_py(), int(counts.sum()))
        return np.unique(np.repeat(np.arange(len(values)), counts)[_rows_containing(inside, query)])
    matches = pyarrow.compute.match_substring  # type: ignore[attr-defined]
    return np.flatnonzero(truths(matches(values, query, ignore_case=True)))


def _means(column: Any) -> np.ndarray:
    """Return the mean of the finite values of each list; NaN if there are none."""
    values, counts = numbers_in_lists(column)
    of_list, there = np.repeat(np.arange(len(counts)), counts), np.isfinite(values)
    known = np.bincount(of_list[there], minlength=len(counts))
    sums = np.bincount(of_list[there], values[there], minlength=len(counts))
    return np.divide(sums, known, out=np.full(len(counts), np.nan), where=known > 0)


def relative_ranks(values: np.ndarray) -> np.ndarray:
    """Return relative ranks, 0 for the lowest and 1 for the highest value; ties get the same rank."""
    if len(values) < 2:
        return np.full(len(values), 0.5)
    # Not scipy's, which takes longer to import than a page to be made.
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[place] / (len(values) - 1)


def most_apart(x: np.ndarray, y: np.ndarray, most: int) -> list[int]:
    """Return the indices of at most so many samples that rank higher by ``x`` than by ``y``, furthest apart first."""
    rows = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    apart = relative_ranks(x[rows]) - relative_ranks(y[rows])
    order = np.argsort(-apart, kind="stable")[:most]
    return rows[order[apart[order] > 0]].tolist()


def spread(columns: np.ndarray) -> np.ndarray:
    """Return the greatest difference of ``[k, n]`` values of each sample, ``[n]``; NaN with fewer than two."""
    there = np.isfinite(columns)
    high = np.where(there, columns, -np.inf).max(axis=0, initial=-np.inf)
    low = np.where(there, columns, np.inf).min(axis=0, initial=np.inf)
    return np.where(there.sum(axis=0) > 1, high - low, np.nan)


def shared_rows(first: RunSamples, second: RunSamples) -> np.ndarray:
    """Return ``[n, 2]`` indices of the common samples, in the order of the first run."""
    ids, others = (samples.column("id") for samples in (first, second))
    if ids.equals(others):
        return np.column_stack([np.arange(len(first))] * 2)
    place = {identity: row for row, identity in enumerate(others.to_pylist())}
    shared = [(row, place[identity]) for row, identity in enumerate(ids.to_pylist()) if identity in place]
    return np.asarray(shared, np.int64).reshape(-1, 2)
