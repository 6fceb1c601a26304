"""What is in memory besides rows, scores and ratings, a row."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from capbench.benchmarks.statistics.contract import RatedScores
from capbench.benchmarks.statistics.correlation import KendallB
from capbench.benchmarks.statistics.rated_rows import first_seen

ROWS = 100_000


def bytes_a_row(work: Callable[[], object]) -> float:
    """Return the most that a call has in memory, what it keeps among it."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / ROWS
    finally:
        tracemalloc.stop()


def test_tau_needs_few_bytes_a_row():
    random = np.random.default_rng(0)
    rows = RatedScores(random.normal(size=ROWS), random.integers(5, size=ROWS) * 1.0, np.arange(ROWS))
    assert bytes_a_row(lambda: rows.concordance) < 60
    weights = np.ones(ROWS)
    assert bytes_a_row(lambda: KendallB().value(rows, weights)) < 75


@pytest.mark.parametrize("images, most", [(2**62, 30), (ROWS // 3, 45), (1, 45)])
def test_images_are_numbered_as_they_come_in_few_bytes_a_row(images: int, most: int):
    names = np.random.default_rng(0).integers(-images, images, size=ROWS)
    found: list[np.ndarray] = []
    assert bytes_a_row(lambda: found.append(first_seen(names))) < most
    assert np.array_equal(found[0], first_seen(names.astype(str).tolist()))
