# pyright: basic
# pyarrow has no types that pyright could read.
"""What ``samples.parquet`` holds: a row a sample, made and read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal

from ...errors import DataError
from ..inputs.failures import Failure
from .files import read_file
from .publishing import unquoted_row, without_folders
from .record import Record

SAMPLES_FILE = "samples.parquet"
ColumnType = Literal["text", "texts", "numbers", "integer"]
NAMING_COLUMNS = ("id", "image", "category", "failure")
"""Columns of texts that tell samples apart; all others are what the data set, or a model that saw it, says."""
COLUMNS: Mapping[str, ColumnType] = {
    **dict.fromkeys(NAMING_COLUMNS, "text"),
    "candidate": "text",
    **dict.fromkeys(("references", "candidates", "negatives"), "texts"),
    "ratings": "numbers",
    "preferred": "integer",
}
"""Columns whose type the values alone might not tell; no metric is called so, as its own name is that of its column."""


def sample_table(columns: Mapping[str, Sequence[Any]], failures: Sequence[Failure]) -> Any:
    """Return a row a scored sample and a row a failed one, as pyarrow table.

    Args:
        columns: What the protocol says of each sample; ``failure`` among them.
        failures: The samples that were lost before they could be scored.
    """
    import pyarrow

    types = {
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "numbers": pyarrow.list_(pyarrow.float64()),
        "integer": pyarrow.int64(),
    }
    lost = [failure for failure in failures if failure.stage != "metric"]
    table = {}
    for name, values in columns.items():
        more: Sequence[str | None] = [None] * len(lost)
        if name == "id":
            more = [failure.sample for failure in lost]
        elif name == "failure":
            more = [f"{failure.stage} {failure.reason}" for failure in lost]
        if name in COLUMNS:
            table[name] = pyarrow.array([*values, *more], types[COLUMNS[name]])
        elif all(value is None or isinstance(value, Real) for value in values):
            table[name] = pyarrow.array([*map(_finite, values), *more], pyarrow.float64())
        else:
            table[name] = pyarrow.array([*values, *more])
    return pyarrow.table(table)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def scores_alone(samples: Any) -> Any:
    """Return samples without what the data says: id, image, category, numbers (a value a metric), and failure are left.

    Images that had an absolute path have its last part; two that would become one have a hash behind it.
    """
    import pyarrow

    kept = samples.select(
        [one.name for one in samples.schema if one.name in NAMING_COLUMNS or one.type == pyarrow.float64()]
    )
    for name in ("id", "image", "failure"):
        texts = [one for one in dict.fromkeys(kept[name].to_pylist()) if one is not None]
        if name == "failure":
            short = {text: without_folders(unquoted_row(text)) for text in texts}
        else:
            short = dict(zip(texts, without_folders(dict.fromkeys(texts)), strict=True))
        column = pyarrow.array([short.get(one) for one in kept[name].to_pylist()], pyarrow.string())
        kept = kept.set_column(kept.column_names.index(name), name, column)
    return kept


def read_samples(folder: Path, record: Record) -> Any:
    """Return the samples of a run, as pyarrow table.

    Args:
        folder: That of the run.
        record: Its record.

    Raises:
        DataError: The folder has none, or they are not those of the run, or cannot be read.
    """
    import pyarrow

    with open_samples(folder, record) as file:
        try:
            return file.read()
        except (OSError, pyarrow.ArrowException) as error:
            raise _unreadable(folder, error) from error


def open_samples(folder: Path, record: Record) -> Any:
    """Return the samples of a run as ``pyarrow.parquet.ParquetFile``, of which parts can be read.

    Args:
        folder: That of the run.
        record: Its record.

    Raises:
        DataError: As of :func:`read_samples`.
    """
    import pyarrow
    import pyarrow.parquet

    if not (folder / SAMPLES_FILE).is_file():
        raise DataError(
            f"{folder}: has no {SAMPLES_FILE}, which holds the scores of single captions",
            "Run the task again without --no-log_samples (or --log_samples none).",
        )
    try:
        # From memory: what is read later is what was held against the record.
        return pyarrow.parquet.ParquetFile(pyarrow.BufferReader(read_file(folder, record, SAMPLES_FILE)))
    except (OSError, pyarrow.ArrowException) as error:
        raise _unreadable(folder, error) from error


def _unreadable(folder: Path, error: Exception) -> DataError:
    return DataError(f"{folder / SAMPLES_FILE}: cannot be read as the samples of a run: {error}")


def samples_file(samples: Any) -> bytes:
    """Return samples as Parquet file."""
    import pyarrow
    import pyarrow.parquet

    written = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(samples, written, compression="zstd")
    return written.getvalue().to_pybytes()
