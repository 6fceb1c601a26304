import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capbench.metrics.exact_sums import LIMBS, exact_sums, totals

# Sums of the greatest floats have no float.
FINITE = st.floats(-1e300, 1e300)


@given(
    st.lists(st.tuples(FINITE, st.integers(0, 2**20)), max_size=30),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_sum_is_the_true_one_rounded_once_however_it_is_split(rows, shards, random):
    expected = float(sum(Fraction(value) * weight for value, weight in rows))
    random.shuffle(rows)
    parts = [np.array(rows[shard::shards], dtype=np.float64).reshape(-1, 2) for shard in range(shards)]
    limbs = sum(exact_sums(part[:, :1], part[:, 1]) for part in parts)
    assert isinstance(limbs, np.ndarray)
    assert limbs.shape == (1, LIMBS) and limbs.dtype == np.int64
    assert totals(limbs).tolist() == [expected]


def test_sum_of_a_column_is_that_of_math_fsum():
    values = np.random.default_rng(0).normal(size=(20_000, 2)) ** 9
    sums = totals(exact_sums(values, np.ones(len(values))))
    assert sums.tolist() == [math.fsum(column) for column in values.T.tolist()]
    assert sums.tolist() != values.sum(axis=0).tolist()


@pytest.mark.parametrize("value", [5e-324, 2.0**-1022, 2.0**-1053, 2.0**1005, -1.7976931348623157e308, 2.0**1023])
def test_ends_of_the_range_are_held(value: float):
    assert totals(exact_sums(np.array([[value]]), np.ones(1))).tolist() == [value]


@pytest.mark.parametrize(
    ("value", "weight", "message"),
    [
        (np.nan, 1, "finite values"),
        (np.inf, 0, "finite values"),
        (1, 0.5, "whole numbers as weights"),
        (1, -1, "whole numbers as weights"),
        (1, 2.0**32, "weigh less than 4,294,967,296 together"),
    ],
)
def test_what_cannot_be_added_exactly_is_refused(value: float, weight: float, message: str):
    with pytest.raises(ValueError, match=message):
        exact_sums(np.array([[value]]), np.array([weight]))
