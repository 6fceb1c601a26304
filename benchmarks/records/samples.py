# pyright: basic
# pyarrow has no types that pyright could read.
"""Builds and reads ``samples.parquet``, which has a row a sample."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from ... import arrow
from ...errors import DataError
from ..inputs.failures import Failure
from ..inputs.items import SeenValues
from ..inputs.settings import COLUMNS, NAMING_COLUMNS, ColumnType
from .files import read_file
from .publishing import unquoted_row, without_folders
from .record import Record

SAMPLES_FILE = "samples.parquet"
ROWS = 10_000
"""Rows that are read or written at a time."""

Columns = Mapping[str, Sequence[Any] | np.ndarray]
"""Values of rows by column."""


@dataclass(frozen=True)
class Samples:
    """A row a scored sample, in parts, and a row a failed one; not all at once in memory.

    Attributes:
        parts: Returns an iterator over batches of the protocol's columns; it may be called repeatedly.
        scores: Metric to ``[n]`` values, not finite where a row has none.
        reasons: Row to the reason why metrics could not score it.
        lost: Samples that failed before the metrics.
    """

    parts: Callable[[], Iterator[Columns]]
    scores: Mapping[str, np.ndarray]
    reasons: Mapping[int, str]
    lost: Sequence[Failure]

    def tables(self) -> Iterator[Any]:
        """Yield the rows as pyarrow tables of one schema."""
        import pyarrow

        few = max(map(len, self.scores.values()), default=ROWS + 1) <= ROWS
        kept = list(self._columns()) if few else None
        schema = pyarrow.unify_schemas([_schema(columns) for columns in kept or self._columns()])
        for columns in kept or self._columns():
            table = _table(columns)
            for field in schema:
                if field.name not in table.column_names:
                    table = table.append_column(field, pyarrow.nulls(len(table), field.type))
            table = table.select(schema.names)
            # A cast imports modules that take longer than a small run's samples.
            yield table if table.schema == schema else table.cast(schema)

    def table(self) -> Any:
        """Return all rows as one pyarrow table."""
        import pyarrow

        return pyarrow.concat_tables(self.tables()).combine_chunks()

    def _columns(self) -> Iterator[Columns]:
        """Yield all columns of the rows, some rows at a time."""
        first = 0
        names: list[str] = []
        for columns in self.parts():
            rows = range(first, first + len(columns["id"]))
            first = rows.stop
            values = {name: column[rows.start : rows.stop] for name, column in self.scores.items()}
            whole = {**columns, **values, "failure": [self.reasons.get(row) for row in rows]}
            names = list(whole)
            yield whole
        if self.lost:
            lost = {
                "id": [failure.sample for failure in self.lost],
                "failure": [f"{failure.stage} {failure.reason}" for failure in self.lost],
            }
            nothing = [None] * len(self.lost)
            yield {name: lost.get(name, nothing) for name in names}


def _schema(columns: Columns) -> Any:
    """Return the schema of columns; types that follow from a column's name need no values."""
    import pyarrow

    types = {}
    for name, values in columns.items():
        is_known = _known_type(name) or (isinstance(values, np.ndarray) and values.dtype.kind == "f")
        types[name] = _column(name, values[:0] if is_known else values).type
    return pyarrow.schema(types)


def _known_type(name: str) -> ColumnType | None:
    return COLUMNS.get(name.partition(".")[0])


def _table(columns: Columns) -> Any:
    """Return columns as pyarrow table."""
    import pyarrow

    return pyarrow.table({name: _column(name, values) for name, values in columns.items()})


def _column(name: str, values: Any) -> Any:
    """Return a column as pyarrow array; a column without values has the null type, unless its name has a type."""
    import pyarrow

    known: dict[ColumnType | None, Callable[[Any], Any]] = {
        "text": arrow.texts,
        "texts": arrow.lists_of_texts,
        "numbers": arrow.lists_of_floats,
        "integer": partial(pyarrow.array, type=pyarrow.int64()),
    }
    if build := known.get(_known_type(name)):
        return build(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return arrow.floats(values)
    if all(value is None for value in values):
        return pyarrow.nulls(len(values))
    if all(value is None or isinstance(value, Real) for value in values):
        return arrow.floats(np.array([math.nan if value is None else value for value in values], np.float64))
    return pyarrow.array(values)


def _shortened(texts: Iterable[str | None]) -> dict[str, str]:
    """Return the texts with absolute paths, each with the last parts alone; with a hash where two become the same.

    Args:
        texts: All texts that occur.
    """
    short: dict[str, str] = {}
    plain = SeenValues()
    rest = iter(texts)
    while some := list(islice(rest, ROWS)):
        names = {text: without_folders(text) for text in dict.fromkeys(some) if text is not None}
        short |= {text: name for text, name in names.items() if name != text}
        plain.add(text for text, name in names.items() if name == text)
    if len(set(short.values())) < len(short) or plain.holds_any(short.values()):
        return {text: without_folders(text, distinct=True) for text in short}
    return short


def scores_alone(tables: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield samples without texts of the data: only id, image, category, numbers (a value a metric), and failure.

    Args:
        tables: Returns the samples; it is called twice.
    """
    import pyarrow

    short = {
        name: _shortened(text for table in tables() for text in table[name].to_pylist()) for name in ("id", "image")
    }
    for table in tables():
        kept = table.select([field.name for field in table.schema if _is_score(field)])
        texts = {name: [names.get(text, text) for text in kept[name].to_pylist()] for name, names in short.items()}
        texts["failure"] = [text and without_folders(unquoted_row(text)) for text in kept["failure"].to_pylist()]
        for name, column in texts.items():
            kept = kept.set_column(kept.column_names.index(name), name, pyarrow.array(column, pyarrow.string()))
        yield kept


def _is_score(field: Any) -> bool:
    """Return whether a column identifies samples, or holds scores."""
    import pyarrow

    named = field.name in NAMING_COLUMNS or field.name.startswith("scores.")
    return named or field.type == pyarrow.float64()


def read_samples(folder: Path, record: Record) -> Any:
    """Return the samples of a run, as pyarrow table.

    Args:
        folder: Folder of the run.
        record: Its record.

    Raises:
        DataError: They are missing, changed, or unreadable.
    """
    with open_samples(folder, record) as file:
        return read_columns(folder, file)


def read_columns(folder: Path, file: Any, names: Sequence[str] | None = None) -> Any:
    """Return columns of samples as pyarrow table.

    Args:
        folder: Folder of the run.
        file: Its samples, from :func:`open_samples`.
        names: Names of the columns; None for all.

    Raises:
        DataError: They cannot be read.
    """
    import pyarrow

    try:
        return file.read(None if names is None else list(names), use_threads=False)
    except (OSError, pyarrow.ArrowException) as error:
        raise _unreadable(folder, error) from error


def row_groups(file: Any) -> Iterator[tuple[int, int, int]]:
    """Yield the first row of each row group of samples, the one after its last, and its number."""
    start = 0
    for group in range(file.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        yield start, end, group
        start = end


def open_samples(folder: Path, record: Record) -> Any:
    """Return the samples of a run as ``pyarrow.parquet.ParquetFile``.

    Args:
        folder: Folder of the run.
        record: Its record.

    Raises:
        DataError: As of :func:`read_samples`.
    """
    import pyarrow
    import pyarrow.parquet

    if not (folder / SAMPLES_FILE).is_file():
        raise DataError(
            f"{folder}: has no {SAMPLES_FILE} with the scores of single captions",
            "Run the task again without --log_samples none.",
        )
    try:
        # From memory: the content that was verified is the one that is read later.
        return pyarrow.parquet.ParquetFile(pyarrow.BufferReader(read_file(folder, record, SAMPLES_FILE)))
    except (OSError, pyarrow.ArrowException) as error:
        raise _unreadable(folder, error) from error


def _unreadable(folder: Path, error: Exception) -> DataError:
    return DataError(f"{folder / SAMPLES_FILE}: cannot be read as samples: {error}")


def write_samples(tables: Iterable[Any], path: Path) -> None:
    """Write samples as Parquet file, with row groups that do not depend on the sizes of the tables.

    Raises:
        OSError: It cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    writer, waiting, before = None, [], pyarrow.default_memory_pool()
    # Arrow's default pool does not return memory to the system.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    try:
        for table in tables:
            writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema, compression="zstd")
            waiting.append(table)
            whole = pyarrow.concat_tables(waiting)
            full = len(whole) // ROWS * ROWS
            if full:
                writer.write_table(whole.slice(0, full).combine_chunks(), row_group_size=ROWS)
            waiting = [whole.slice(full)]
        if writer and len(waiting[0]):
            writer.write_table(waiting[0].combine_chunks(), row_group_size=ROWS)
    finally:
        if writer:
            writer.close()
        pyarrow.set_memory_pool(before)
