"""Statistics of systems, and accuracy with ties, as machine translation's own code computes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capbench.benchmarks.statistics import statistics
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.benchmarks.statistics.systems.accuracy_eq import AccuracyEq
from capbench.benchmarks.statistics.systems.soft_pairwise import SoftPairwiseAccuracy

GOLDEN = json.loads(Path(__file__).with_name("mt_metrics_eval.json").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = GOLDEN["cases"]
BY = {"item": "image", "sys": "system", "none": "all"}


def rated_of(case: dict[str, Any], *, backwards: bool = False) -> RatedScores:
    scores, human = (np.array(case[key], float) for key in ("scores", "human"))
    if backwards:
        scores, human = scores[::-1], human[::-1]
    system, image = np.nonzero(np.isfinite(human))
    return RatedScores(scores[system, image], human[system, image], image, system)


def value_of(statistic: Any, rated: RatedScores) -> float:
    return statistic.value(rated, np.ones(len(rated)))


@pytest.fixture(params=CASES, ids=[case["name"] for case in CASES])
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("system_pearson", "pearson"),
        ("system_spearman", "spearman"),
        ("system_kendall", "kendall"),
        ("pairwise_accuracy", "agreement"),
    ],
)
def test_systems_are_ranked_as_there(case: dict[str, Any], name: str, printed: str):
    rated = rated_of(case)
    if case["name"] == "constant ratings" and name != "pairwise_accuracy":
        # 0 is printed there of what has no value.
        with pytest.raises(UndefinedStatistic, match="equal ratings"):
            value_of(statistics[name](), rated)
        return
    assert value_of(statistics[name](), rated) == pytest.approx(case["printed"][printed], abs=1e-12)


def test_soft_pairwise_accuracy_is_the_released_one(case: dict[str, Any]):
    released = SoftPairwiseAccuracy()
    assert value_of(released, rated_of(case)) == pytest.approx(case["printed"]["spa"], abs=1e-12)


def test_released_soft_pairwise_accuracy_depends_on_the_order_of_systems_and_mid_p_does_not(case: dict[str, Any]):
    rated, turned = rated_of(case), rated_of(case, backwards=True)
    # Rows that come first number their systems from 0 here, as rows of a data set do.
    assert value_of(SoftPairwiseAccuracy(), turned) == pytest.approx(case["printed"]["spa reversed"], abs=1e-12)
    mid_p = SoftPairwiseAccuracy("mid_p")
    assert value_of(mid_p, rated) == pytest.approx(value_of(mid_p, turned), abs=1e-12)


@pytest.mark.parametrize("by", BY)
def test_calibrated_ties_are_those_of_there(case: dict[str, Any], by: str):
    accuracy, epsilon = case["printed"][f"acc23 {by}"]
    statistic = AccuracyEq(BY[by])  # pyright: ignore[reportArgumentType]
    assert value_of(statistic, rated_of(case)) == pytest.approx(accuracy, abs=1e-12)
    found = float(statistic.remark(rated_of(case)).removeprefix("ε = "))
    if (case["name"], by) == ("fourteen systems", "sys"):
        # The running sum there drifts by 1e-15, which chooses among equal accuracies: ours is the smallest.
        assert found == 0.014474 < epsilon
    else:
        assert found == pytest.approx(epsilon, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("by", BY)
def test_ties_of_a_fixed_epsilon_are_those_of_there(case: dict[str, Any], by: str):
    printed = case["printed"][f"acc23 {by} 0.3"]
    statistic = AccuracyEq(BY[by], 0.3)  # pyright: ignore[reportArgumentType]
    assert value_of(statistic, rated_of(case)) == pytest.approx(printed, abs=1e-12)
