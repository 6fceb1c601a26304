"""Pairs that are counted a part at a time are those that are counted in one go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from capbench.benchmarks.statistics import partitions
from capbench.benchmarks.statistics.concordance import Concordance
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.benchmarks.statistics.correlation import KendallB, KendallC
from capbench.benchmarks.statistics.partitions import Blocks, counts_by_partitions


def in_blocks(scores: np.ndarray, human: np.ndarray, size: int) -> Blocks:
    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(scores), size):
            yield scores[start : start + size], human[start : start + size]

    return blocks


LEVELS = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 6)), min_size=0, max_size=50)


@given(LEVELS, st.integers(1, 9), st.integers(1, 30))
def test_counts_are_those_of_all_rows_at_once(rows: list[tuple[int, int]], size: int, rows_in_memory: int):
    scores, human = np.array(rows, float).reshape(-1, 2).T
    whole = Concordance(scores, human).counts(np.ones(len(rows)))
    assert counts_by_partitions(in_blocks(scores, human, size), rows_in_memory) == whole
    assert whole.rows == max(len(rows), 1)


@pytest.mark.parametrize("levels", [2, 5, None])
@pytest.mark.parametrize("decimals", [1, 12])
def test_tau_is_that_of_scipy_and_ours_to_the_bit(levels: int | None, decimals: int):
    generator = np.random.default_rng(decimals)
    scores = np.round(generator.normal(size=5000), decimals)
    human = scores + generator.normal(size=5000)
    human = np.digitize(human, np.linspace(-1, 1, levels - 1)).astype(float) if levels else human
    counts = counts_by_partitions(in_blocks(scores, human, 333), 600)
    rated, ones = RatedScores(scores, human, np.arange(5000)), np.ones(5000)
    assert KendallB.of_counts(counts) == KendallB().value(rated, ones)
    assert KendallC.of_counts(counts) == KendallC().value(rated, ones)
    assert KendallB.of_counts(counts) == pytest.approx(kendalltau(scores, human).statistic, rel=1e-12)
    by_scipy = kendalltau(scores, human, variant="c").statistic
    assert KendallC.of_counts(counts) == pytest.approx(by_scipy, rel=1e-12)


def test_no_part_holds_more_than_its_share_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    generator = np.random.default_rng(0)
    rows = np.stack([generator.normal(size=20_000), generator.normal(size=20_000)])
    np.save(tmp_path / "rows.npy", rows)
    held: list[int] = []

    class Watched(Concordance):
        def __init__(self, scores: np.ndarray, human: np.ndarray) -> None:
            held.append(len(scores))
            super().__init__(scores, human)

    monkeypatch.setattr(partitions, "Concordance", Watched)
    monkeypatch.setattr(partitions, "_MOST_SAMPLED", 4000)
    on_disk = np.load(tmp_path / "rows.npy", mmap_mode="r")
    counts = counts_by_partitions(in_blocks(on_disk[0], on_disk[1], 777), 1000)
    # Twenty parts of the scores, twenty of the ratings, and the table of both; bounds come of a sample.
    assert len(held) == 41 and max(held) < 1250
    assert counts == Concordance(*rows).counts(np.ones(20_000))


def test_equal_rows_are_held_once():
    # Most scores are 0, as of a metric that is clipped: they fall into one part, whose cells are few.
    generator = np.random.default_rng(0)
    scores = np.maximum(generator.normal(-1, 1, 3000), 0)
    human = generator.integers(4, size=3000).astype(float)
    assert counts_by_partitions(in_blocks(scores, human, 100), 50) == Concordance(scores, human).counts(
        np.ones(3000)
    )


def test_pairs_without_classes_have_no_tau():
    counts = counts_by_partitions(in_blocks(np.ones(5), np.arange(5.0), 2), 2)
    with pytest.raises(UndefinedStatistic, match="all scores are equal"):
        KendallB.of_counts(counts)


def test_rows_that_are_not_there_when_they_are_read_again_are_noticed():
    scores, human = np.arange(9.0), np.arange(9.0)
    once = iter([in_blocks(scores, human, 4)()])

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from next(once, [(scores[:5], human[:5])])

    with pytest.raises(ValueError, match="there were 9 rows, and 5 when"):
        counts_by_partitions(blocks, 100)
