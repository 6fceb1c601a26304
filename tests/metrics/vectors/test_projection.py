from __future__ import annotations

import numpy as np
import pytest

from capbench.metrics.vectors.projection import proportions

SIZE = 48


def by_lstsq(vectors: np.ndarray, members: np.ndarray, k: int) -> np.ndarray:
    """The definition word for word: a call of lstsq for each vector, on members of norm 1."""
    members = members / np.linalg.norm(members, axis=1, keepdims=True)
    found = []
    for vector in vectors:
        nearest = members[np.argsort(-(members @ vector), kind="stable")[:k]].T
        coefficients = np.linalg.lstsq(nearest, vector, rcond=None)[0]
        found.append(np.linalg.norm(nearest @ coefficients) / np.linalg.norm(vector))
    return np.array(found)


def vectors(generator: np.random.Generator, count: int) -> np.ndarray:
    """Vectors of any length about a direction that they share."""
    return generator.lognormal(size=(count, 1)) * (0.5 + generator.normal(size=(count, SIZE)))


def assert_equal_to_lstsq(pairs: list[tuple[np.ndarray, np.ndarray]], k: int) -> None:
    found = proportions(pairs, k)
    assert len(found) == len(pairs)
    for (first, second), (by_second, by_first) in zip(pairs, found, strict=True):
        np.testing.assert_allclose(by_second, by_lstsq(first, second, k), rtol=0, atol=1e-6)
        np.testing.assert_allclose(by_first, by_lstsq(second, first, k), rtol=0, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10, 100])
def test_values_are_those_of_lstsq_on_sets_of_all_sizes(k: int):
    generator = np.random.default_rng(0)
    sizes = [(1, 1), (1, 9), (60, 2), (12, 12), (3, 40), *generator.integers(1, 30, size=(40, 2)).tolist()]
    assert_equal_to_lstsq([(vectors(generator, n), vectors(generator, m)) for n, m in sizes], k)


@pytest.mark.parametrize("distance", [0.0, 1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-8])
def test_members_that_are_nearly_or_quite_the_same(distance: float):
    generator = np.random.default_rng(1)
    pairs = []
    for _ in range(10):
        first, second = vectors(generator, 6), vectors(generator, 5)
        # Three of each, the copies as far away as said.
        first = np.concatenate([first, *(first + distance * generator.normal(size=first.shape) for _ in "ab")])
        second = np.concatenate([second, second + distance * generator.normal(size=second.shape)])
        pairs.append((first, second))
    for k in (2, 4, 10):
        assert_equal_to_lstsq(pairs, k)


def test_members_that_depend_on_each_other_and_are_no_copies():
    generator = np.random.default_rng(2)
    a, b = vectors(generator, 2)
    assert_equal_to_lstsq([(np.stack([a, b, a + b, a + 2 * b]), vectors(generator, 3))], 4)


def test_vectors_that_point_away_from_every_member():
    generator = np.random.default_rng(3)
    first = vectors(generator, 8)
    assert_equal_to_lstsq([(first, -first[:3])], 2)
    # k = 1 is the absolute cosine with the most similar member, which here is the least unlike.
    (value,), _ = proportions([(np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0], [-0.6, 0.8]]))], 1)[0]
    assert value == pytest.approx(0.6)


def test_value_calculated_by_hand():
    # Onto the plane of x and y, (1, 2, 2) is (1, 2, 0): sqrt(5) / 3. With z alone: 2 / 3.
    vector = np.array([[1.0, 2.0, 2.0]])
    (both,), each = proportions([(vector, np.array([[1.0, 0.0, 0.0], [1.0, 5.0, 0.0]]))], 2)[0]
    assert both == pytest.approx(np.sqrt(5) / 3)
    assert each == pytest.approx([1 / 3, 11 / (3 * np.sqrt(26))])
    (one,), _ = proportions([(vector, np.array([[0.0, 0.0, 7.0], [-1.0, 0.0, 0.0]]))], 1)[0]
    assert one == pytest.approx(2 / 3)


def test_members_beyond_k_do_not_count_though_they_would_explain_the_rest():
    vector = np.array([[1.0, 1.0, 0.5]])
    members = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    # A repeat takes one of the two places, and adds nothing.
    assert proportions([(vector, members)], 2)[0][0] == pytest.approx([np.sqrt(2) / 1.5])
    assert proportions([(vector, members)], 3)[0][0] == pytest.approx([1.0])


def test_copies_that_differ_by_the_rounding_of_single_precision_add_nothing():
    generator = np.random.default_rng(4)
    first, second = vectors(generator, 5).astype(np.float32), vectors(generator, 4).astype(np.float32)
    copies = second * np.float32(1 + 1e-7) + np.float32(1e-7) * generator.normal(size=second.shape).astype(np.float32)
    (plain, _), (with_copies, _) = proportions([(first, second), (first, np.concatenate([second, copies]))], 8)
    np.testing.assert_allclose(with_copies, plain, atol=1e-6)


def test_values_lie_between_zero_and_one_and_do_not_depend_on_lengths():
    generator = np.random.default_rng(5)
    first, second = vectors(generator, 20), vectors(generator, 20)
    by_second, by_first = proportions([(first, second)], 5)[0]
    again, _ = proportions([(3 * first, generator.uniform(1, 9, size=(20, 1)) * second)], 5)[0]
    np.testing.assert_allclose(again, by_second, rtol=1e-12)
    assert ((by_second >= 0) & (by_second <= 1) & (by_first >= 0) & (by_first <= 1)).all()
    np.testing.assert_allclose(np.concatenate(proportions([(first, first)], 1)[0]), 1.0, rtol=1e-12)


def test_no_pairs_give_no_values():
    assert proportions([], 3) == []
