"""Resamples that several processes share are those of one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from capbench.benchmarks.statistics import bootstrap, resampling, sample_kendall
from capbench.benchmarks.statistics.bootstrap import resample, resample_all, resample_value
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.benchmarks.statistics.correlation import KendallB, Pearson
from capbench.benchmarks.statistics.paired import paired_bootstrap, paired_means
from capbench.benchmarks.statistics.resampling import Fork, OfSums, draw, on_resamples
from capbench.benchmarks.statistics.sample_kendall import SampleKendall

pytestmark = pytest.mark.costly

shared = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")


def rows(seed: int = 0) -> RatedScores:
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=300)
    return RatedScores(scores, np.round(scores + generator.normal(size=300)), generator.integers(40, size=300))


def test_draws_can_begin_later():
    image = np.array([0, 1, 1, 2])
    later = list(draw(image, 3, 6, 5, first=4))
    assert len(later) == 2
    for one, other in zip(later, islice(draw(image, 3, 6, 5), 4, None), strict=True):
        assert np.array_equal(one, other) and not one.flags.writeable


@shared
@pytest.mark.parametrize("processes", [2, 3, 12])
def test_numbers_do_not_depend_on_how_many_processes_share_them(processes: int):
    known, several = {"b": KendallB(), "r": Pearson()}, [rows(1), rows(2)]
    one = resample(known, several, resamples=11, seed=4, processes=1)
    other = resample(known, several, resamples=11, seed=4, processes=processes)
    for name in known:
        assert np.array_equal(one[name].values, other[name].values)
    paired = {"a": [rows(1)]}
    first, second = (paired_bootstrap(KendallB(), paired, resamples=9, processes=n) for n in (1, processes))
    assert np.array_equal(first["a"].resampled.values, second["a"].resampled.values)  # pyright: ignore
    means = {"a": rows(1).scores}
    first, second = (paired_means(means, rows(1).groups, resamples=9, processes=n) for n in (1, processes))
    assert np.array_equal(first["a"].resampled.values, second["a"].resampled.values)  # pyright: ignore


@shared
def test_processes_are_other_ones_and_end():
    ids = resample_value(lambda weights: float(os.getpid()), np.arange(9), resamples=31, processes=3).values
    # The first resample is made here before the others begin; what is left is 10 each.
    assert [len(set(ids[start : start + 10])) for start in (1, 11, 21)] == [1, 1, 1]
    assert ids[0] == ids[1] == os.getpid() and len(set(ids)) == 3
    assert multiprocessing.active_children() == []


@shared
def test_part_of_a_process_that_is_killed_is_made_here():
    def value(weights: np.ndarray) -> float:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(weights[0])

    here = os.getpid()
    alone = resample_value(lambda weights: float(weights[0]), np.arange(9), resamples=12, processes=1)
    assert np.array_equal(resample_value(value, np.arange(9), resamples=12, processes=3).values, alone.values)


@shared
@pytest.mark.parametrize("processes", [1, 3])
def test_latest_reason_for_an_undefined_value_is_told_whoever_found_it(processes: int):
    def value(weights: np.ndarray) -> float:
        if weights[0]:
            raise UndefinedStatistic(f"{int(weights.argmax())} is drawn most")
        return 1.0

    found = resample_value(value, np.arange(4), resamples=40, seed=1, processes=processes)
    drawn = [one for one in draw(np.arange(4), 4, 40, 1) if one[0]]
    assert found.reason == f"{int(drawn[-1].argmax())} is drawn most"
    assert np.count_nonzero(np.isnan(found.values)) == len(drawn)


@shared
def test_progress_of_shared_resamples_rises_to_all_of_them():
    seen: list[tuple[int, int]] = []
    on_resamples([lambda weights: 1.0], np.arange(3), 3, 21, 0, 2, lambda done, total: seen.append((done, total)))
    assert [total for _, total in seen] == [21] * len(seen)
    done = [one for one, _ in seen]
    assert done == sorted(done) and done[-1] == 21 and done[0] < 21


@shared
def test_few_resamples_of_few_rows_are_made_by_one_process(monkeypatch: pytest.MonkeyPatch):
    def processes() -> int:
        value = lambda weights: float(os.getpid())  # noqa: E731
        return len(set(resample_value(value, np.arange(10), resamples=20).values))

    assert processes() == 1
    monkeypatch.setattr(resampling, "_WORTH_SHARING", 200)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr("threading.active_count", lambda: 1)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    assert processes() == 3
    # Where something runs beside, a fork might stop at what that holds.
    monkeypatch.setattr("threading.active_count", lambda: 2)
    assert processes() == 1


@pytest.mark.parametrize("rows", [1, 255, 256, 1000])
def test_value_of_sums_is_the_same_for_one_weight_and_for_many(rows: int):
    terms = np.random.default_rng(rows).integers(9, size=(rows, 3)).astype(float)
    value = OfSums(lambda sums: float(sums[0] + 10 * sums[2]), terms)
    found, _ = on_resamples([value, np.argmax], np.arange(rows), rows, 70, 3)
    weights = np.stack(list(draw(np.arange(rows), rows, 70, 3)))
    assert found[:, 0].tolist() == (weights @ terms @ [1, 0, 10]).tolist()
    assert [value(one) for one in weights] == found[:, 0].tolist()
    assert found[:, 1].tolist() == weights.argmax(axis=1).tolist()


@shared
@pytest.mark.parametrize("processes", [2, 3, 24])
def test_sums_do_not_depend_on_how_many_processes_share_the_resamples(processes: int):
    terms = np.random.default_rng(0).normal(size=(1000, 2))

    def value(sums: np.ndarray) -> float:
        if sums[0] < 0:
            raise UndefinedStatistic(f"{sums[0]} is below 0")
        return float(sums[1])

    one, other = (on_resamples([OfSums(value, terms)], np.arange(1000), 1000, 150, 4, n) for n in (1, processes))
    assert np.array_equal(*(found for found, _ in (one, other)), equal_nan=True)
    assert one[1] == other[1] != [""]


def test_few_draws_are_in_memory_at_a_time():
    rows, resamples = 50_000, 100
    value = OfSums(lambda sums: float(sums[0]), np.ones((rows, 1)))
    tracemalloc.start()
    on_resamples([value], np.arange(rows), rows, resamples, 0, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Stacked, and one by one.
    assert peak < 2.3 * 32 * rows * 8 < resamples * rows * 8


@pytest.mark.parametrize("rows_together, passes", [(1_000_000, 2), (1200, 3), (1, 4)])
def test_metrics_of_the_same_rows_see_draws_that_are_made_once(
    rows_together: int, passes: int, monkeypatch: pytest.MonkeyPatch
):
    one, other = rows(1), rows(2)
    others = [RatedScores(two.scores, two.human, one.groups) for two in (rows(3), rows(4))]
    tau, sample = {"b": KendallB(), "r": Pearson()}, {"s": SampleKendall(), "b": KendallB()}
    metrics = {"a": (tau, [one, one]), "b": (sample, [others[0], one]), "c": (tau, [other]), "d": (tau, others)}
    alone = {name: resample(*of, resamples=23, seed=4) for name, of in metrics.items()}
    drawn: list[np.ndarray] = []

    def counted(*arguments: Any) -> Iterator[np.ndarray]:
        for weights in draw(*arguments):
            drawn.append(weights)
            yield weights

    monkeypatch.setattr(resampling, "draw", counted)
    monkeypatch.setattr(bootstrap, "_ROWS_TOGETHER", rows_together)
    seen: list[tuple[int, int]] = []
    found = resample_all(metrics, resamples=23, seed=4, progress=lambda done, total: seen.append((done, total)))
    for name, of in alone.items():
        assert list(found[name]) == list(of)
        for statistic, expected in of.items():
            assert np.array_equal(found[name][statistic].values, expected.values)
    # All but the third have two raters.
    assert len(drawn) == 23 * (2 * passes - 1)
    assert seen[-1] == (7 * 23, 7 * 23) and [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_statistic_prepares_each_metric_once(monkeypatch: pytest.MonkeyPatch):
    prepared: list[int] = []
    taus = sample_kendall._taus
    monkeypatch.setattr(sample_kendall, "_taus", lambda *of: prepared.append(1) or taus(*of))
    statistic = SampleKendall()
    one = rows(1)
    other = RatedScores(rows(2).scores, one.human, one.groups)
    resample_all({"a": ({"s": statistic}, [one]), "b": ({"s": statistic}, [other])}, resamples=9)
    assert len(prepared) == 2


def test_metrics_without_a_statistic_have_no_resamples():
    assert resample_all({"a": ({}, [rows()])}, resamples=3) == {"a": {}}
    assert resample_all({}, resamples=3) == {}


@shared
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_ended_says_nothing_although_its_parent_raises_at_the_signal(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
):
    def raise_it(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def be_ended() -> Any:
        signal.raise_signal(number)
        time.sleep(60)

    before = signal.signal(number, raise_it)
    try:
        fork = Fork(be_ended)
        assert fork.made() is None
        fork.end()
    finally:
        signal.signal(number, before)
    assert capfd.readouterr().err == ""
