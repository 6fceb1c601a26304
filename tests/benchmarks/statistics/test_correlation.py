"""Statistics of rows: correlations, average precision, 1 - R² and the mean over images of τ."""

import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from capbench.benchmarks.statistics import statistics
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.benchmarks.statistics.correlation import AveragePrecision, OneMinusR2
from capbench.benchmarks.statistics.sample_kendall import SampleKendall

FEW_LEVELS = st.integers(-2, 2).map(float)
MANY_LEVELS = st.integers(-40, 40).map(lambda number: number / 8)
CONTINUOUS = st.floats(-1e3, 1e3).map(lambda number: round(number, 6))

ORACLES = {
    "pearson": scipy.stats.pearsonr,
    "spearman": scipy.stats.spearmanr,
    "kendall_b": scipy.stats.kendalltau,
    "kendall_c": lambda scores, human: scipy.stats.kendalltau(scores, human, variant="c"),
}


@st.composite
def weighted_rows(draw):
    """Scores, ratings and weights, from all distinct to almost all tied."""
    size = draw(st.integers(1, 60))
    values = st.sampled_from([FEW_LEVELS, MANY_LEVELS, CONTINUOUS])
    scores = draw(st.lists(draw(values), min_size=size, max_size=size))
    human = draw(st.lists(draw(values), min_size=size, max_size=size))
    weights = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size).filter(any))
    return rate(scores, human), np.array(weights)


def rate(scores, human):
    return RatedScores(np.array(scores, float), np.array(human, float), np.zeros(len(scores), int))


def value_or_nan(name, rated, weights=None):
    try:
        return statistics[name]().value(rated, np.ones(len(rated)) if weights is None else weights)
    except UndefinedStatistic:
        return np.nan


def oracle_or_nan(name, scores, human):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ORACLES[name](scores, human).statistic
        except ValueError:
            return np.nan


@given(weighted_rows())
def test_weighted_value_equals_scipy_on_repeated_rows(weighted):
    rated, weights = weighted
    index = np.repeat(np.arange(len(rated)), weights)
    expected = {name: oracle_or_nan(name, rated.scores[index], rated.human[index]) for name in ORACLES}
    value_of = {name: value_or_nan(name, rated, weights) for name in ORACLES}
    assert value_of == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("shift", "scale"),
    # Scores differ in their last two of twelve digits; squares of 1e200 overflow, those of 1e-200 vanish.
    [(1e9, 1), (1e11, 1), (-1e11, 1), (0, 1e200), (0, 1e-200)],
)
def test_pearson_ignores_shift_and_scale_of_large_scores(shift: float, scale: float):
    scores, human = np.array([0.0, 1.0, 2.0, 5.0, 3.0]), [1, 0, 2, 3, 3]
    moved = rate(shift + scores * scale, human)
    assert value_or_nan("pearson", moved) == pytest.approx(value_or_nan("pearson", rate(scores, human)), rel=1e-12)


def test_label_counts_of_flickr8k_expert_fix_the_ratio_of_the_two_taus():
    # For scores without ties tau-c / tau-b follows from the label counts alone, 1.00697 for these.
    human = np.repeat([1, 2, 3, 4], [9796, 4997, 1686, 513])
    generator = np.random.default_rng(0)
    rated = rate(human + generator.normal(size=len(human)), human)
    ratio = value_or_nan("kendall_c", rated) / value_or_nan("kendall_b", rated)
    assert ratio == pytest.approx(1.00697, abs=5e-6)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize(
    ("scores", "human", "reason"),
    [
        ([], [], "fewer than 2 rows"),
        ([1], [1], "fewer than 2 rows"),
        ([2, 2, 2], [1, 2, 3], "all scores are equal"),
        ([1, 2, 3], [0.1, 0.1, 0.1], "all ratings are equal"),
    ],
)
def test_undefined_value_says_why(name, scores, human, reason):
    with pytest.raises(UndefinedStatistic, match=reason):
        statistics[name]()(np.array(scores), np.array(human), np.zeros(len(scores), int))


@pytest.mark.parametrize("name", ORACLES)
def test_values_that_are_not_drawn_do_not_hide_that_the_drawn_ones_are_equal(name):
    with pytest.raises(UndefinedStatistic, match="all ratings are equal"):
        statistics[name]().value(rate([1, 2, 3], [5, 5, 6]), np.array([2, 1, 0]))


# --- average precision


def test_rows_of_the_lower_rating_are_looked_for_from_the_least_score_on():
    # Of the least score the first is of the lower rating (1 of 1); both of score 2 stand together: 2 of 3; then 3 of 5.
    some = rate([1, 2, 2, 3, 4, 5], [0, 0, 1, 1, 0, 1])
    assert AveragePrecision().value(some, np.ones(6)) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    assert AveragePrecision().remark(some) == "by chance 50.0%"
    assert AveragePrecision().remark(rate([1, 2, 3], [5, 4, 5])) == "by chance 33.3%"


def test_values_are_those_of_scikit_learn_whatever_ties_and_however_often_a_row_counts():
    source = np.random.default_rng(0)
    for _ in range(50):
        scores, human = source.integers(0, 6, 20) / 3, source.integers(0, 2, 20) * 0.5 + 0.25
        weights = source.integers(0, 4, 20)
        if len(np.unique(human[weights > 0])) < 2:
            continue
        expected = average_precision_score(human == 0.25, -scores, sample_weight=weights)
        some = RatedScores(scores, human, np.arange(20))
        assert AveragePrecision().value(some, weights) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("human", "weights", "reason"),
    [
        ([0, 0, 0], [1, 1, 1], "all ratings are equal"),
        ([0, 0, 1], [1, 1, 0], "all ratings are equal"),
        ([0, 1, 1], [0, 1, 1], "all ratings are equal"),
        ([0, 1, 2], [1, 1, 1], "there are 3 ratings"),
    ],
)
def test_without_two_ratings_it_is_undefined(human: list[float], weights: list[float], reason: str):
    with pytest.raises(UndefinedStatistic, match=reason):
        AveragePrecision().value(rate([1, 2, 3], human), np.array(weights))


# --- 1 - R²


def test_denominator_is_the_spread_of_the_scores_by_hand():
    # Errors 0.5, 0.2, 0: 0.29. Scores 0.1, 0.2, 0.3 around 0.2: 0.02. (The spread of the ratings, 0.0467,
    # would give 6.2.)
    value = OneMinusR2()(np.array([0.1, 0.2, 0.3]), np.array([0.6, 0.4, 0.3]), np.zeros(3, int))
    assert value == pytest.approx(0.29 / 0.02)
    ratings = np.array([0.1, 0.7, 0.3])
    assert OneMinusR2()(ratings, ratings, np.zeros(3, int)) == 0
    # As CIDEr on long captions: ratings about 0.5 away, a spread of 1e-8.
    scores = np.array([0.0, 0.0001, 0.0001, 0.0])
    assert OneMinusR2()(scores, np.array([0.5, 0.5, 0.6, 0.4]), np.zeros(4, int)) > 1e7
    assert not OneMinusR2.higher_is_better


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 4)), min_size=2, max_size=30))
def test_a_row_of_weight_k_counts_as_k_equal_rows(rows):
    scores, human, weights = (np.round(column, 6) for column in np.array(rows).T)
    index = np.repeat(np.arange(len(rows)), weights.astype(int))
    try:
        expected = OneMinusR2()(scores[index], human[index], index)
    except (UndefinedStatistic, ValueError):
        return
    rated = RatedScores(scores, human, np.arange(len(rows)))
    assert OneMinusR2().value(rated, weights) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("scores", "reason"), [([0.3], "fewer than 2 rows"), ([0.3, 0.3, 0.3], "all scores are equal")]
)
def test_undefined_one_minus_r2_says_why(scores, reason):
    with pytest.raises(UndefinedStatistic, match=reason):
        OneMinusR2()(np.array(scores), np.arange(len(scores)), np.zeros(len(scores), int))


# --- sample τ

# Image 1: two of three pairs concordant, one discordant. Image 2: one pair tied in ratings, the other two
# concordant. Image 3: all ratings equal. Image 4: a single row.
SCORES = np.array([0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.3, 0.2, 0.1, 0.9])
HUMAN = np.array([1, 3, 2, 4, 4, 5, 2, 2, 2, 1.0])
GROUPS = np.array([1, 1, 1, 2, 2, 2, 3, 3, 3, 4])


@pytest.mark.parametrize(
    ("variant", "second_image"),
    [
        ("a", 2 / 3),  # (2 - 0) / 3 pairs
        ("b", 2 / np.sqrt(3 * 2)),  # one of three pairs is tied in the ratings
        ("c", 2 * 2 * 2 / (9 * 1)),  # m = 2 distinct ratings, 3 rows
    ],
)
def test_mean_over_images_by_hand(variant, second_image):
    first_image = 1 / 3
    skipped = SampleKendall(variant, undefined="skip")(SCORES, HUMAN, GROUPS)
    assert skipped == pytest.approx((first_image + second_image) / 2)
    zero = SampleKendall(variant, undefined="zero")(SCORES, HUMAN, GROUPS)
    assert zero == pytest.approx((first_image + second_image + 0) / 3)


def test_tie_free_images_have_the_same_value_in_every_variant():
    generator = np.random.default_rng(0)
    scores, human = generator.normal(size=(2, 40))
    groups = np.repeat(np.arange(10), 4)
    values = [SampleKendall(variant)(scores, human, groups) for variant in ("a", "b", "c")]
    assert values == pytest.approx([values[0]] * 3)


@st.composite
def images(draw):
    size = draw(st.integers(2, 40))
    column = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    return [np.array(draw(column)) for _ in ("scores", "human", "groups")]


@given(images())
def test_mean_over_images_equals_scipy_image_by_image(columns):
    scores, human, groups = columns
    for variant in ("b", "c"):
        taus = [
            scipy.stats.kendalltau(scores[groups == image], human[groups == image], variant=variant).statistic
            for image in np.unique(groups)
            if (groups == image).sum() > 1
        ]
        defined = [tau for tau in taus if not np.isnan(tau)]
        if defined:
            assert SampleKendall(variant)(scores, human, groups) == pytest.approx(np.mean(defined), abs=1e-12)
        else:
            with pytest.raises(UndefinedStatistic, match="no image"):
                SampleKendall(variant)(scores, human, groups)


@given(images(), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_an_image_drawn_k_times_counts_as_k_images(columns, draws):
    scores, human, groups = columns
    weights = np.array(draws)[groups]
    copies = [(scores, human, groups, weights > copy) for copy in range(3)]
    separate = [np.concatenate([column[rows] for *_, rows in copies]) for column in (scores, human)]
    names = np.concatenate([groups[rows] + 10 * number for number, (*_, groups, rows) in enumerate(copies)])
    try:
        expected = SampleKendall()(*separate, names)
    except UndefinedStatistic:
        return
    rated = RatedScores(scores.astype(float), human.astype(float), groups)
    assert SampleKendall().value(rated, weights) == pytest.approx(expected, abs=1e-12)


def test_weights_may_leave_out_single_rows_and_rows_of_another_metric_are_not_mistaken_for_the_latest():
    # Without its second row image 1 is (0.1, 1) (0.3, 2): concordant.
    rated, statistic = RatedScores(SCORES[:3], HUMAN[:3], GROUPS[:3]), SampleKendall()
    assert statistic.value(rated, np.array([1, 0, 1])) == 1
    forward = statistic(SCORES, HUMAN, GROUPS)
    assert statistic(-SCORES, HUMAN, GROUPS) == pytest.approx(-forward)


def test_images_without_a_pair_are_undefined_even_when_undefined_counts_as_zero():
    with pytest.raises(UndefinedStatistic, match="no image"):
        SampleKendall(undefined="zero")(np.array([1.0, 2]), np.array([1.0, 2]), np.array([1, 2]))


@pytest.mark.parametrize("options", [{"variant": "d"}, {"undefined": "drop"}])
def test_unknown_option_names_the_ones_there_are(options):
    with pytest.raises(ValueError, match="must be"):
        SampleKendall(**options)
