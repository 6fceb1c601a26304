"""Arrays that are made of buffers are those that pyarrow makes of the values."""

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow
import pytest

from capbench import arrow

MANY = [None if number % 7 == 3 else number for number in range(50)]


@pytest.mark.parametrize(
    "values", [[], ["a"], ["", None, "é\U0001f600", "b\0c"], [None, None], [n if n is None else str(n) for n in MANY]]
)
def test_texts_are_those_of_pyarrow(values: list[str | None]):
    _equal(arrow.texts(values), pyarrow.array(values, pyarrow.string()))
    lists = [values, None, [], values[:1], tuple(values)]
    expected = pyarrow.array(lists, pyarrow.list_(pyarrow.string()))
    _equal(arrow.lists_of_texts(lists), expected)  # type: ignore[arg-type]
    _equal(arrow.lists_of_texts(lists[:1]), expected[:1])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [pyarrow.float64(), pyarrow.float32()])
@pytest.mark.parametrize("values", [[], [1], [0.5, None, -0.0], [None], MANY])
def test_numbers_are_read_back_from_whatever_part_of_whichever_chunk(values: list[float | None], kind: Any):
    column = pyarrow.chunked_array([pyarrow.array(values, kind), pyarrow.array([2.5, None, 3], kind)])
    expected = np.array([np.nan if value is None else value for value in [*values, 2.5, None, 3]])
    for first in (0, 1, len(values)):
        numbers = arrow.numbers(column[first:])
        assert numbers.dtype == np.float64
        assert np.array_equal(numbers, expected[first:], equal_nan=True)
    assert np.array_equal(arrow.numbers(column.chunk(0)), expected[: len(values)], equal_nan=True)


@pytest.mark.parametrize("values", [[], [3], [2, -1, 2**40]])
def test_integers_are_those_of_pyarrow(values: list[int]):
    _equal(arrow.integers(values), pyarrow.array(values, pyarrow.int64()))


def test_numbers_in_lists_are_read_back_with_how_many_each_has():
    lists = [[1.0, None], [], None, [2.0], [3.0, 4.0, 5.0]]
    column = pyarrow.chunked_array([pyarrow.array(lists, pyarrow.list_(pyarrow.float64()))] * 2)
    values, counts = arrow.numbers_in_lists(column)
    assert counts.tolist() == [2, 0, 0, 1, 3] * 2
    assert np.array_equal(values, [1, np.nan, 2, 3, 4, 5] * 2, equal_nan=True)
    values, counts = arrow.numbers_in_lists(column[3:6])
    assert (counts.tolist(), values[:5].tolist(), np.isnan(values[5:]).tolist()) == (
        [1, 3, 2], [2, 3, 4, 5, 1], [True],
    )  # fmt: skip
    values, counts = arrow.numbers_in_lists(column[:0])
    assert len(values) == len(counts) == 0


def test_truths_are_read_back_and_one_that_is_missing_is_none():
    values = [True, None, False] * 7
    for first in (0, 1, 9, 21):
        assert arrow.truths(pyarrow.array(values)[first:]).tolist() == [value is True for value in values[first:]]
        every = pyarrow.array([value is True for value in values])
        assert arrow.truths(every[first:]).tolist() == [value is True for value in values[first:]]


@pytest.mark.parametrize("values", [[], [1], [0.5, None, -0.0], [None], MANY])
def test_numbers_are_those_of_pyarrow(values: list[float | None]):
    numbers = np.array([np.nan if value is None else value for value in values])
    _equal(arrow.floats(numbers), pyarrow.array(values, pyarrow.float64()))
    _equal(arrow.floats(numbers[::-1]), pyarrow.array(values[::-1], pyarrow.float64()))
    lists = [values, None, [], values]
    _equal(arrow.lists_of_floats(lists), pyarrow.array(lists, pyarrow.list_(pyarrow.float64())))


def test_numbers_that_are_not_finite_are_missing():
    assert arrow.floats(np.array([np.inf, 1, -np.inf])).to_pylist() == [None, 1, None]


def test_texts_beyond_32_bits_are_left_to_pyarrow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow, "_MOST_BYTES", 2)
    _equal(arrow.texts(["ab", "c"]), pyarrow.array(["ab", "c"]))


def test_samples_are_made_without_pandas():
    work = """
import sys
import numpy
from capbench.benchmarks.inputs.failures import Failure
from capbench.benchmarks.records.samples import Samples
columns = {"id": ["a"], "candidate": ["b"], "references": [("c",)], "ratings": [[1.0]], "own": [0.5]}
lost = [Failure("d", "data", "is missing")]
table = Samples(lambda: iter([columns]), {"m": numpy.ones(1)}, {}, lost).table()
assert table.num_rows == 2
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", work], check=True)


def _equal(column: Any, expected: Any) -> None:
    column.validate(full=True)
    assert column.type == expected.type and column.equals(expected)
