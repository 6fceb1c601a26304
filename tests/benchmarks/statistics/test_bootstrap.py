"""Resamples of whole images: what they scatter by, and that several processes share those of one."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pytest

from capbench.benchmarks.statistics import Draws, bootstrap
from capbench.benchmarks.statistics.bootstrap import (
    Fork,
    OfSums,
    Resamples,
    draw,
    on_resamples,
    resample_all,
    resample_values,
)
from capbench.benchmarks.statistics.contract import Interval, RatedScores, Statistic, UndefinedStatistic
from capbench.benchmarks.statistics.correlation import KendallB, KendallC, Pearson
from capbench.benchmarks.statistics.sample_kendall import SampleKendall

pytestmark = pytest.mark.costly

shared = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")


def correlated_rows(seed: int | np.random.Generator = 0, images: int = 100, rows_per_image: int = 1) -> RatedScores:
    noise = np.random.default_rng(seed).normal(size=(2, images))
    return RatedScores(
        *(np.repeat(x, rows_per_image) for x in (0.6 * noise[0] + 0.8 * noise[1], noise[0], np.arange(images)))
    )


def rows(seed: int = 0) -> RatedScores:
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=300)
    return RatedScores(scores, np.round(scores + generator.normal(size=300)), generator.integers(40, size=300))


def intervals(
    statistics: Mapping[str, Statistic], *raters: RatedScores, level: float = 0.95, **draws: Any
) -> dict[str, Interval]:
    resampled = resample_all({"": (statistics, raters)}, Draws(**draws))[""]
    return {name: values.interval(level) for name, values in resampled.items()}


def test_resamples_of_several_raters_are_the_means_of_their_own():
    raters = [RatedScores(rows(seed).scores, rows(seed).human, np.repeat(np.arange(40), 8)[:300]) for seed in (1, 2)]
    draws = Draws(20, 3)
    both, *each = (
        resample_all({"": ({"": Pearson()}, part)}, draws)[""][""] for part in (raters, raters[:1], raters[1:])
    )
    assert both.values == pytest.approx(np.mean([own.values for own in each], axis=0))
    assert both.value == pytest.approx(np.mean([own.value for own in each]))


def of_value(value: Callable[[np.ndarray], float], rows: int, **draws: Any) -> Resamples:
    """Resamples of a value of rows that are an image each."""
    return resample_values({"": value}, np.arange(rows), Draws(**draws))[""]


def mean_of(scores: np.ndarray) -> Callable[[np.ndarray], float]:
    return lambda weights: float(weights @ scores / weights.sum())


def test_seed_alone_decides_an_interval_whatever_else_is_asked():
    rated, tau = correlated_rows(), {"tau": KendallB()}
    first, again, other = (intervals(tau, rated, resamples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    among = intervals({"r": Pearson(), "c": KendallC(), **tau}, rated, resamples=50, seed=1)
    assert among["tau"] == first["tau"]


def test_interval_covers_the_true_correlation_about_as_often_as_its_level_says():
    # 120 samples of 100 rows with r = 0.6: the binomial standard error of a share of 0.9 is 0.027.
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(120):
        interval = intervals({"r": Pearson()}, correlated_rows(generator), resamples=60, level=0.9)["r"]
        covered += interval.low <= 0.6 <= interval.high
    assert 0.82 <= covered / 120 <= 0.96


def test_standard_error_of_a_mean_equals_the_formula():
    # Of a mean of n values: their (population) standard deviation over sqrt(n).
    scores = np.random.default_rng(0).normal(size=400)
    interval = of_value(mean_of(scores), 400, resamples=2000).interval()
    assert interval.stderr == pytest.approx(scores.std() / 20, rel=0.05)
    assert interval.low < scores.mean() < interval.high


def test_copied_rows_of_an_image_add_no_certainty():
    single, tripled = correlated_rows(), correlated_rows(rows_per_image=3)
    as_if_independent = RatedScores(tripled.scores, tripled.human, np.arange(len(tripled)))
    stderr = [
        intervals({"r": Pearson()}, rated, resamples=500)["r"].stderr for rated in (single, tripled, as_if_independent)
    ]
    assert stderr[1] == pytest.approx(stderr[0], rel=1e-9)
    assert stderr[2] == pytest.approx(stderr[0] / np.sqrt(3), rel=0.15)


def test_raters_who_rated_different_images_share_the_draws_of_an_image():
    # The second rater rated the last 50 images only; a resample draws an image for both raters or neither.
    rated = correlated_rows()
    drawn: list[list[float]] = []

    class Remember(Statistic):
        label = "remember"

        def value(self, rated: RatedScores, weights: np.ndarray) -> float:
            drawn.append(weights[rated.groups >= 50].tolist())
            return 0.0

    intervals({"r": Remember()}, rated, resamples=5)
    intervals({"r": Remember()}, rated, rated.at(np.arange(50, 100)), resamples=5)
    # Next to the resamples, values are asked for on all rows.
    resampled = [weights for weights in drawn if set(weights) != {1.0}]
    assert resampled[5:] == resampled[:5] * 2 and len(resampled) == 15


def test_an_image_drawn_twice_counts_twice_in_sample_tau():
    rated = RatedScores(np.array([1.0, 2, 3, 1, 2, 3]), np.array([1.0, 2, 3, 3, 2, 1]), np.array([0, 0, 0, 1, 1, 1]))
    # Image 0 has tau 1, image 1 has -1: the resamples give 1, 0 or -1.
    interval = intervals({"tau": SampleKendall()}, rated, resamples=400)["tau"]
    assert (interval.low, interval.high) == (-1, 1)
    assert interval.stderr == pytest.approx(np.sqrt(0.5), rel=0.1)


def test_undefined_resamples_are_left_out_and_counted_and_a_few_keep_the_interval():
    # One image has another rating: a resample without it (36.6 %) has no tau. Of four, exp(-4) miss them all: 1.8 %.
    single, four = (
        intervals(
            {"tau": KendallB()},
            RatedScores(np.arange(100.0), (np.arange(100) < others).astype(float), np.arange(100)),
            resamples=500,
        )["tau"]
        for others in (1, 4)
    )
    assert (single.low, single.high, single.stderr) == (None, None, None)
    assert single.resamples == pytest.approx(0.634 * 500, abs=40)
    assert "all ratings are equal" in single.reason
    assert four.low is not None
    assert 470 <= four.resamples < 500
    assert four.reason == ""


def test_one_image_has_no_interval():
    rated = RatedScores(np.arange(5.0), np.arange(5.0), np.zeros(5, int))
    interval = intervals({"tau": KendallB()}, rated, resamples=20)["tau"]
    assert interval.low is None
    assert "fewer than 2 images" in interval.reason


def raises(error: Exception) -> Callable[..., float]:
    def value(*_: object) -> float:
        raise error

    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (raises(UndefinedStatistic("nothing to average")), "nothing to average"),
        (lambda weights: np.inf, "the statistic returned no finite number"),
        (raises(ZeroDivisionError("no weights")), "the statistic raised ZeroDivisionError: no weights"),
    ],
)
def test_a_value_that_is_undefined_not_finite_or_fails_costs_its_own_interval(value, reason):
    values = {"bad": value, "good": mean_of(np.arange(10.0))}
    resampled = resample_values(values, np.arange(10), Draws(20))
    assert resampled["bad"].interval().reason == f"undefined on 20 of 20 resamples ({reason})"
    assert resampled["good"].interval() == of_value(mean_of(np.arange(10.0)), 10, resamples=20).interval()


def test_draws_can_begin_later():
    image = np.array([0, 1, 1, 2])
    later = list(draw(image, 3, 6, 5, first=4))
    assert len(later) == 2
    for drawn, other in zip(later, islice(draw(image, 3, 6, 5), 4, None), strict=True):
        assert np.array_equal(drawn, other) and not drawn.flags.writeable


@shared
@pytest.mark.parametrize("processes", [2, 12])
def test_numbers_do_not_depend_on_how_many_processes_share_them(processes: int):
    known = {"": ({"b": KendallB(), "r": Pearson()}, [rows(1), rows(2)])}
    serial, other = (resample_all(known, Draws(11, 4, processes=n))[""] for n in (1, processes))
    for name in ("b", "r"):
        assert np.array_equal(serial[name].values, other[name].values)


@shared
def test_processes_are_other_ones_and_end():
    ids = of_value(lambda weights: float(os.getpid()), 9, resamples=31, processes=3).values
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
    alone = of_value(lambda weights: float(weights[0]), 9, resamples=12, processes=1)
    assert np.array_equal(of_value(value, 9, resamples=12, processes=3).values, alone.values)


@shared
def test_progress_of_shared_resamples_rises_to_all_of_them():
    seen: list[tuple[int, int]] = []
    of_value(lambda weights: 1.0, 3, resamples=21, processes=2, progress=lambda *numbers: seen.append(numbers))
    assert [total for _, total in seen] == [21] * len(seen)
    done = [count for count, _ in seen]
    assert done == sorted(done) and done[-1] == 21 and done[0] < 21


@pytest.mark.parametrize("rows", [1, 255, 256, 1000])
def test_value_of_sums_is_the_same_for_one_weight_and_for_many(rows: int):
    terms = np.random.default_rng(rows).integers(9, size=(rows, 3)).astype(float)
    value = OfSums(lambda sums: float(sums[0] + 10 * sums[2]), terms)
    estimates, _ = on_resamples([value, np.argmax], np.arange(rows), rows, Draws(70, 3))
    weights = np.stack(list(draw(np.arange(rows), rows, 70, 3)))
    assert estimates[:, 0].tolist() == (weights @ terms @ [1, 0, 10]).tolist()
    assert [value(weight) for weight in weights] == estimates[:, 0].tolist()
    assert estimates[:, 1].tolist() == weights.argmax(axis=1).tolist()


@pytest.mark.parametrize("rows_together, passes", [(1_000_000, 2), (1200, 3), (1, 4)])
def test_metrics_of_the_same_rows_see_draws_that_are_made_once(rows_together: int, passes: int, monkeypatch):
    first, other = rows(1), rows(2)
    others = [RatedScores(two.scores, two.human, first.groups) for two in (rows(3), rows(4))]
    tau, sample = {"b": KendallB(), "r": Pearson()}, {"s": SampleKendall(), "b": KendallB()}
    metrics = {"a": (tau, [first, first]), "b": (sample, [others[0], first]), "c": (tau, [other]), "d": (tau, others)}
    alone = {name: resample_all({name: of}, Draws(23, 4))[name] for name, of in metrics.items()}
    drawn: list[np.ndarray] = []

    def counted(*arguments: Any) -> Iterator[np.ndarray]:
        for weights in draw(*arguments):
            drawn.append(weights)
            yield weights

    monkeypatch.setattr(bootstrap, "draw", counted)
    monkeypatch.setattr(bootstrap, "_ROWS_TOGETHER", rows_together)
    seen: list[tuple[int, int]] = []
    resampled = resample_all(metrics, Draws(23, 4, progress=lambda *numbers: seen.append(numbers)))
    for name, of in alone.items():
        assert list(resampled[name]) == list(of)
        for statistic, expected in of.items():
            assert np.array_equal(resampled[name][statistic].values, expected.values)
    # All but the third have two raters.
    assert len(drawn) == 23 * (2 * passes - 1)
    assert seen[-1] == (7 * 23, 7 * 23) and [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_metrics_without_a_statistic_have_no_resamples():
    assert resample_all({"a": ({}, [rows()])}, Draws(3)) == {"a": {}}
    assert resample_all({}, Draws(3)) == {}


@shared
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_ended_says_nothing_although_its_parent_raises_at_the_signal(number: signal.Signals, capfd):
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
