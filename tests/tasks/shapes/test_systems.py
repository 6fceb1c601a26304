"""Systems of known quality and battles of known strengths: people find them so, and a metric that sees does."""

import math

import numpy as np
import pytest

import capbench
from capbench.benchmarks.tables.results import Run
from capbench.tasks.shapes.scene import SHAPES
from capbench.tasks.shapes.systems import STRENGTHS, SYSTEMS, WRONG_IN_A_HUNDRED, battles, rated_systems

pytestmark = pytest.mark.costly


def shows(row: dict, caption: str) -> bool:
    """Tell whether a picture holds every shape that a caption names."""
    there = {thing.shape for thing in row["pixels"].scene.things}
    return there >= set(SHAPES) & set(caption.lower().rstrip(".").split())


def test_systems_are_wrong_as_often_as_their_names_say():
    rows = list(rated_systems(100))
    assert len({row["id"] for row in rows}) == len(rows) == 100 * len(SYSTEMS)
    assert rows[: 20 * len(SYSTEMS)] == list(rated_systems(20))
    for system, rate in zip(SYSTEMS, WRONG_IN_A_HUNDRED, strict=True):
        wrong = np.mean([not shows(row, row["candidate"]) for row in rows if row["system"] == system])
        # Three standard errors.
        assert abs(wrong - rate / 100) < 3 * math.sqrt(rate / 100 * (1 - rate / 100) / 100)


def test_of_a_battle_one_is_right_and_wins():
    rows = list(battles(60))
    assert len(rows) == len({row["id"] for row in rows}) == 120
    assert rows == list(battles(60))
    for row in rows:
        right = [shows(row, caption) for caption in row["captions"]]
        assert sorted(right) == [False, True]
        assert row["winner"] == row["systems"][right.index(True)]


def test_people_find_the_strengths_that_were_planted():
    done = capbench.evaluate(None, "shapes_battles", metrics=["length"], resamples=100)["shapes_battles"]
    strengths = {result.category: result for result in done.results if result.statistic == "bradley_terry"}
    assert sorted(strengths, key=lambda system: -strengths[system].value) == list(SYSTEMS)
    for system, strength in zip(SYSTEMS, STRENGTHS, strict=True):
        interval = strengths[system].interval
        assert interval.low < 1000 + 400 / math.log(10) * (strength - np.mean(STRENGTHS)) < interval.high


def of_clip_s(run: Run) -> dict[str, float]:
    return {result.statistic: result.value for result in run.tasks[0].results if result.metric == "clip_s"}  # type: ignore[misc]


def test_clip_s_ranks_systems_as_raters_do_and_with_random_weights_does_not(measure):
    trained, guessing = (of_clip_s(run) for run in measure("shapes_systems", metrics=["clip_s"]))
    print(f"systems: {trained}, with random weights {guessing}")
    assert trained["system_kendall"] >= 0.8
    assert trained["pairwise_accuracy"] >= 0.9
    assert trained["soft_pairwise_accuracy"] >= 0.9
    assert trained["accuracy_eq"] > guessing["accuracy_eq"] + 0.2
    assert trained["kendall_b"] >= 0.4
    assert abs(guessing["kendall_b"]) < 0.1
    # Of 720 orders of six systems, one in twenty agrees better than this.
    assert guessing["system_kendall"] < 0.6
    assert guessing["soft_pairwise_accuracy"] < 0.7
