"""Statistics of systems, worked out by hand, and as machine translation's own code computes them."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capbench.benchmarks.statistics import statistics
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.benchmarks.statistics.systems import accuracy_eq
from capbench.benchmarks.statistics.systems.accuracy_eq import MOST_PAIRS, AccuracyEq
from capbench.benchmarks.statistics.systems.correlation import SystemKendall, SystemPearson
from capbench.benchmarks.statistics.systems.soft_pairwise import SoftPairwiseAccuracy

CORRELATIONS = ("system_pearson", "system_spearman", "system_kendall", "pairwise_accuracy")


def systems(scores: list[list[float]], human: list[list[float]]) -> RatedScores:
    """Rows of systems, each with a caption of the same images."""
    first, second = np.array(scores, float), np.array(human, float)
    system, image = np.indices(first.shape)
    return RatedScores(first.ravel(), second.ravel(), image.ravel(), system.ravel())


def ones(rated: RatedScores) -> np.ndarray:
    return np.ones(len(rated))


@pytest.mark.parametrize("name", CORRELATIONS)
def test_only_means_of_systems_count(name: str):
    # Means 1, 2, 4, 3 against 1, 2, 3, 4; inside systems scores contradict people.
    rated = systems([[0, 2], [1, 3], [3, 5], [2, 4]], [[2, 0], [3, 1], [4, 2], [5, 3]])
    expected = {"system_pearson": 0.8, "system_spearman": 0.8, "system_kendall": 4 / 6}
    assert statistics[name]().value(rated, ones(rated)) == pytest.approx(expected.get(name, 5 / 6))


@pytest.mark.parametrize("name", CORRELATIONS)
def test_of_four_systems_in_the_same_order_the_exact_p_is_one_of_24(name: str):
    rated = systems([[1, 1], [2, 2], [4, 4], [7, 7]], [[1, 1], [2, 2], [3, 3], [5, 5]])
    assert statistics[name]().p_value(rated) == pytest.approx(1 / 24)


def test_exact_p_counts_the_orders_that_agree_as_much_and_many_systems_have_none():
    # One exchange of neighbours: 1 order is better, 3 are as good (of 24, by number of discordant pairs: 1, 3, 5, ...).
    rated = systems([[1], [2], [4], [3]], [[1], [2], [3], [4]])
    assert SystemKendall().p_value(rated) == pytest.approx(4 / 24)
    values = [[float(number)] for number in range(9)]
    assert SystemPearson().p_value(systems(values, values)) is None


def test_tie_of_systems_is_right_where_it_is_one_of_both():
    rated = systems([[1], [1], [2]], [[4], [4], [3]])
    assert statistics["pairwise_accuracy"]().value(rated, ones(rated)) == pytest.approx(1 / 3)
    rated = systems([[0.1], [0.3], [0.5]], [[1], [2], [2]])
    assert statistics["pairwise_accuracy"]().value(rated, ones(rated)) == pytest.approx(2 / 3)


def test_means_that_differ_by_rounding_alone_tie():
    rated = systems([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [1, 1, 1]], [[1, 1, 1], [1, 1, 1], [2, 2, 2]])
    assert SystemKendall().value(rated, ones(rated)) == pytest.approx(1)


@pytest.mark.parametrize("name", [*CORRELATIONS, "soft_pairwise_accuracy"])
def test_rows_that_name_no_systems_and_a_single_one_are_undefined(name: str):
    nameless = RatedScores(np.arange(3.0), np.arange(3.0), np.arange(3))
    with pytest.raises(UndefinedStatistic, match="doc_to_system"):
        statistics[name]().value(nameless, np.ones(3))
    with pytest.raises(UndefinedStatistic, match="fewer than 2 systems"):
        rated = systems([[1, 2, 3]], [[1, 2, 3]])
        statistics[name]().value(rated, ones(rated))


def test_system_without_a_caption_in_a_resample_has_no_mean():
    rated = RatedScores(np.arange(4.0), np.arange(4.0), np.arange(4), np.array([0, 0, 1, 1]))
    with pytest.raises(UndefinedStatistic, match="a system has no caption"):
        SystemPearson().value(rated, np.array([1.0, 1.0, 0.0, 0.0]))


def test_remark_says_how_many_systems_and_which_images_are_whole():
    rated = RatedScores(np.arange(5.0), np.arange(5.0), np.array([0, 1, 2, 0, 1]), np.array([0, 0, 0, 1, 1]))
    assert SystemPearson().remark(rated) == "2 systems of 2 to 3 ratings"
    assert SoftPairwiseAccuracy().remark(rated) == "2 systems of 2 to 3 ratings; 2 of 3 images have all"
    whole = systems([[1, 2], [2, 3]], [[5, 5], [1, 1]])
    assert SoftPairwiseAccuracy().remark(whole) == "2 systems"


def test_soft_pairwise_accuracy_counts_an_image_as_often_as_it_is_drawn_and_ratings_of_a_caption_as_one():
    rated = systems([[0.4, 0.1, 0.7], [0.2, 0.5, 0.1]], [[3, 1, 2], [1, 2, 2]])
    twice = systems([[0.4, 0.4, 0.7], [0.2, 0.2, 0.1]], [[3, 3, 2], [1, 1, 2]])
    several = RatedScores(np.array([1.0, 1.0, 2.0]), np.array([1.0, 3.0, 4.0]), np.zeros(3, int), np.array([0, 0, 1]))
    single = systems([[1], [2]], [[2], [4]])
    statistic = SoftPairwiseAccuracy()
    assert statistic.value(rated, np.tile([2.0, 0.0, 1.0], 2)) == pytest.approx(statistic.value(twice, ones(twice)))
    assert statistic.value(several, np.ones(3)) == statistic.value(single, np.ones(2))


def test_soft_pairwise_accuracy_needs_an_image_with_captions_of_all():
    rated = RatedScores(np.arange(2.0), np.arange(2.0), np.arange(2), np.arange(2))
    with pytest.raises(UndefinedStatistic, match="no image has captions of all systems"):
        SoftPairwiseAccuracy().value(rated, np.ones(2))


def test_calibrated_ties_are_found_in_spite_of_rounding():
    # In decimals all neighbours differ by 0.1, which doubles do not; people see no difference between any two of them.
    scores = np.array([0.1, 0.2, 0.30000000000000004, 0.4, 0.8])
    human = np.array([1.0, 1, 1, 1, 2])
    rated = RatedScores(scores, human, np.zeros(5, int))
    released = AccuracyEq(calibration="deutsch2023")
    assert released.value(rated, np.ones(5)) == 1
    assert released.remark(rated) == "ε = 0.3" and "same rows" in released.caution
    assert released.value(RatedScores(np.zeros(3), np.zeros(3), np.zeros(3, int)), np.ones(3)) == 1
    with pytest.raises(UndefinedStatistic, match="no other to calibrate"):
        AccuracyEq().value(rated, np.ones(5))
    # Three pairs at 0.1, two at 0.2, one at 0.3, and four of the last caption.
    for epsilon, right in ((0.0, 4), (0.1, 7), (0.2, 9), (0.3, 10), (0.4, 9), (0.7, 6)):
        assert AccuracyEq(epsilon=epsilon).value(rated, np.ones(5)) == pytest.approx(right / 10)


def _drawn(generator: np.random.Generator, images: int, captions: int = 4) -> RatedScores:
    quality = generator.normal(size=(images, captions))
    scores, human = (quality + 0.7 * generator.normal(size=quality.shape) for _ in range(2))
    human = np.round(human)
    return RatedScores(scores.ravel(), human.ravel(), np.arange(images).repeat(captions))


def test_cross_fitted_ties_are_those_that_are_best_for_images_of_other_folds():
    rated = _drawn(np.random.default_rng(0), 25)
    weights = np.random.default_rng(1).integers(0, 2, 25).repeat(4).astype(float)
    fold, right = rated.groups % 10, []
    for own in range(10):
        others, these = (np.flatnonzero(chosen & (weights > 0)) for chosen in (fold != own, fold == own))
        released = AccuracyEq(calibration="deutsch2023")
        epsilon = float(released.remark(rated.at(others)).split()[-1])
        if len(these):
            part = rated.at(these)
            value = AccuracyEq(epsilon=epsilon + 1e-6).value(part, weights[these])
            right.append((value, weights[these].sum()))
    expected = sum(value * images for value, images in right) / sum(images for _, images in right)
    assert AccuracyEq().value(rated, weights) == pytest.approx(expected)
    assert AccuracyEq().remark(rated).endswith("cross-fitted on 10 folds of images")
    assert "too wide" in AccuracyEq().caution and not AccuracyEq(epsilon=0.1).caution


def test_cross_fitting_takes_away_what_calibration_on_the_same_rows_adds():
    true = AccuracyEq(calibration="deutsch2023").value(_drawn(np.random.default_rng(9), 5000, 2), np.ones(10_000))
    drawn = [_drawn(np.random.default_rng(seed), 10, 2) for seed in range(400)]
    same, cross = (
        np.mean([AccuracyEq(calibration=name).value(rated, np.ones(20)) for rated in drawn])
        for name in ("deutsch2023", "cross_fit")
    )
    assert same - true > 0.03 and abs(cross - true) < 0.02


def test_image_that_is_drawn_twice_is_two_images_and_a_caption_two_captions():
    scores, human = np.array([0.1, 0.4, 0.3, 0.2]), np.array([1.0, 2, 1, 2])
    rated = RatedScores(scores, human, np.array([0, 0, 1, 1]))
    by_image, by_all = AccuracyEq("image", 0.0), AccuracyEq("all", 0.0)
    # The first image's pair is right, the second's is not.
    assert by_image.value(rated, np.array([3.0, 3, 1, 1])) == pytest.approx(3 / 4)
    copies = np.array([0, 0, 0, 1, 1, 1, 2, 3])
    copied = RatedScores(scores[copies], human[copies], np.zeros(8, int))
    assert by_all.value(rated, np.array([3.0, 3, 1, 1])) == pytest.approx(by_all.value(copied, np.ones(8)))


def test_pairs_need_two_captions_of_an_image_and_must_not_be_too_many(monkeypatch: pytest.MonkeyPatch):
    alone = RatedScores(np.arange(3.0), np.arange(3.0), np.arange(3))
    with pytest.raises(UndefinedStatistic, match="no two captions"):
        AccuracyEq().value(alone, np.ones(3))
    rows = math.isqrt(2 * MOST_PAIRS) + 2
    many = RatedScores(np.arange(float(rows)), np.arange(float(rows)), np.arange(rows))
    with pytest.raises(UndefinedStatistic, match="by: image"):
        AccuracyEq("all").value(many, np.ones(rows))
    # Four captions have six pairs.
    monkeypatch.setattr(accuracy_eq, "MOST_PAIRS", 6)
    assert AccuracyEq("all", 0.0).value(many.at(np.arange(4)), np.ones(4)) == pytest.approx(1)
    with pytest.raises(UndefinedStatistic, match="10 pairs are more than 6"):
        AccuracyEq("all", 0.0).value(many.at(np.arange(5)), np.ones(5))


@pytest.mark.parametrize(
    "options",
    [{"by": "caption"}, {"epsilon": -1}, {"calibration": "none"}, {"by": "system", "calibration": "cross_fit"}],
)
def test_wrong_options_are_refused(options: dict[str, object]):
    with pytest.raises(ValueError, match=next(iter(options))):
        statistics["accuracy_eq"](**options)
    # It is a share, so intervals are Wilson's, and systems are needed where pairs are of one.
    assert AccuracyEq.is_share and AccuracyEq.range == (0, 1)
    assert (AccuracyEq("system").needs, AccuracyEq("image").needs) == (("doc_to_system",), ())


# --- as machine translation's own code computes them

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


def test_soft_pairwise_accuracy_depends_on_the_order_of_systems(case: dict[str, Any]):
    turned = rated_of(case, backwards=True)
    # Rows that come first number their systems from 0 here, as rows of a data set do.
    assert value_of(SoftPairwiseAccuracy(), turned) == pytest.approx(case["printed"]["spa reversed"], abs=1e-12)


@pytest.mark.parametrize("by", BY)
def test_calibrated_ties_are_those_of_there(case: dict[str, Any], by: str):
    accuracy, epsilon = case["printed"][f"acc23 {by}"]
    statistic = AccuracyEq(BY[by], calibration="deutsch2023")
    assert value_of(statistic, rated_of(case)) == pytest.approx(accuracy, abs=1e-12)
    calibrated = float(statistic.remark(rated_of(case)).removeprefix("ε = "))
    if (case["name"], by) == ("fourteen systems", "sys"):
        # The running sum there drifts by 1e-15, which chooses among equal accuracies: ours is the smallest.
        assert calibrated == 0.014474 < epsilon
    else:
        assert calibrated == pytest.approx(epsilon, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("by", BY)
def test_ties_of_a_fixed_epsilon_are_those_of_there(case: dict[str, Any], by: str):
    printed = case["printed"][f"acc23 {by} 0.3"]
    statistic = AccuracyEq(BY[by], 0.3)
    assert value_of(statistic, rated_of(case)) == pytest.approx(printed, abs=1e-12)
