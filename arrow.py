# pyright: basic
# pyarrow has no types that pyright could read.
"""Arrays of pyarrow from their buffers: its own conversions import pandas, which takes longer than a small run."""

from collections.abc import Sequence
from itertools import chain, repeat
from operator import is_not
from typing import Any

import numpy as np

_MOST_BYTES = 2**31 - 1
"""What 32-bit offsets reach."""


def texts(values: Sequence[str | None]) -> Any:
    """Return texts, of which some may be missing."""
    import pyarrow

    filled = [value or "" for value in values]
    together = "".join(filled)
    encoded: Sequence[Sequence[Any]] = filled
    content = together.encode()
    if len(content) > len(together):
        encoded = [value.encode() for value in filled]
    if len(content) > _MOST_BYTES:
        return pyarrow.array(values, pyarrow.string())
    buffers = [_known(values), _offsets(encoded), pyarrow.py_buffer(content)]
    return pyarrow.Array.from_buffers(pyarrow.string(), len(values), buffers)


def floats(values: np.ndarray) -> Any:
    """Return numbers ``[n]``; what is not finite is missing."""
    import pyarrow

    values = np.ascontiguousarray(values, np.float64)
    buffers = [_bits(np.isfinite(values)), pyarrow.py_buffer(values)]
    return pyarrow.Array.from_buffers(pyarrow.float64(), len(values), buffers)


def numbers(column: Any) -> np.ndarray:
    """Return ``[n]`` float64 of a column of floating numbers, or of an array; NaN where one is missing."""
    chunks = getattr(column, "chunks", [column])
    return np.concatenate([np.zeros(0), *map(_numbers_of, chunks)])


def truths(array: Any) -> np.ndarray:
    """Return ``[n]`` which values of an array of truths are true; one that is missing is not."""
    known, content = array.buffers()
    return _read_bits(content, array) & (_read_bits(known, array) if array.null_count else True)


def counts_in_lists(array: Any) -> np.ndarray:
    """Return ``[n]`` how many values each list of an array has."""
    return np.diff(_ends_of(array)).astype(np.int64)


def numbers_in_lists(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a column of lists, NaN where one is missing, and how many each list has."""
    values, counts = [np.zeros(0)], [np.zeros(0, np.int64)]
    for chunk in column.chunks:
        ends = _ends_of(chunk)
        values.append(numbers(chunk.values)[ends[0] : ends[-1]])
        counts.append(counts_in_lists(chunk))
    return np.concatenate(values), np.concatenate(counts)


def _ends_of(array: Any) -> np.ndarray:
    """Return ``[n + 1]`` where lists end in the values of all."""
    content = array.buffers()[1]
    return np.frombuffer(content, np.int32)[array.offset : array.offset + len(array) + 1]


def _read_bits(content: Any, array: Any) -> np.ndarray:
    bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(bool)


def _numbers_of(chunk: Any) -> np.ndarray:
    known, content = chunk.buffers()
    inside = slice(chunk.offset, chunk.offset + len(chunk))
    values = np.frombuffer(content, f"f{chunk.type.bit_width // 8}")[inside].astype(np.float64)
    if chunk.null_count:
        values[~_read_bits(known, chunk)] = np.nan
    return values


def integers(values: Sequence[int]) -> Any:
    """Return whole numbers, such as places of rows that are taken."""
    import pyarrow

    content = pyarrow.py_buffer(np.asarray(values, np.int64))
    return pyarrow.Array.from_buffers(pyarrow.int64(), len(values), [None, content])


def lists_of_texts(values: Sequence[Sequence[str] | None]) -> Any:
    """Return lists of texts, of which some may be missing."""
    import pyarrow

    return _lists(values, texts(list(chain.from_iterable(row or () for row in values))), pyarrow.string())


def lists_of_floats(values: Sequence[Sequence[float | None] | None]) -> Any:
    """Return lists of numbers, of which some may be missing; so are numbers in them that are None."""
    import pyarrow

    every = list(chain.from_iterable(row or () for row in values))
    numbers = np.fromiter((0.0 if number is None else number for number in every), np.float64, len(every))
    buffers = [_known(every), pyarrow.py_buffer(numbers)]
    inside = pyarrow.Array.from_buffers(pyarrow.float64(), len(every), buffers)
    return _lists(values, inside, pyarrow.float64())


def _lists(values: Sequence[Any], inside: Any, of: Any) -> Any:
    import pyarrow

    buffers = [_known(values), _offsets([row or () for row in values])]
    return pyarrow.Array.from_buffers(pyarrow.list_(of), len(values), buffers, children=[inside])


def _offsets(values: Sequence[Sequence[Any]]) -> Any:
    import pyarrow

    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)))
    return pyarrow.py_buffer(np.concatenate([[0], ends]).astype(np.int32))


def _known(values: Sequence[Any]) -> Any:
    return _bits(np.fromiter(map(is_not, values, repeat(None)), bool, len(values)))


def _bits(is_known: np.ndarray) -> Any:
    """Return which values are there as pyarrow has it; None where all are."""
    import pyarrow

    return None if is_known.all() else pyarrow.py_buffer(np.packbits(is_known, bitorder="little"))
