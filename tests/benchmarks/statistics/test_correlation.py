import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.statistics import statistics
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic

FEW_LEVELS = st.integers(-2, 2).map(float)
MANY_LEVELS = st.integers(-40, 40).map(lambda number: number / 8)
CONTINUOUS = st.floats(-1e3, 1e3).map(lambda number: round(number, 6))

ORACLES = {
    "pearson": scipy.stats.pearsonr,
    "spearman": scipy.stats.spearmanr,
    "kendall_b": scipy.stats.kendalltau,
    "kendall_c": lambda scores, human: scipy.stats.kendalltau(scores, human, variant="c"),
}
RANK_STATISTICS = ["spearman", "kendall_b", "kendall_c"]


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


@pytest.mark.parametrize("name", ORACLES)
@given(weighted_rows())
def test_weighted_value_equals_scipy_on_repeated_rows(name, weighted):
    rated, weights = weighted
    index = np.repeat(np.arange(len(rated)), weights)
    expected = oracle_or_nan(name, rated.scores[index], rated.human[index])
    assert value_or_nan(name, rated, weights) == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("levels", [2, 4, 25, 5000])
def test_value_equals_scipy_on_thousands_of_rows(name, levels):
    generator = np.random.default_rng(levels)
    human = generator.integers(levels, size=5000).astype(float)
    scores = np.round(human / levels + generator.normal(size=5000), 2)
    assert value_or_nan(name, rate(scores, human)) == pytest.approx(oracle_or_nan(name, scores, human), rel=1e-12)


@pytest.mark.parametrize("name", ORACLES)
@given(weighted_rows())
def test_value_lies_between_minus_one_and_one_is_symmetric_and_turns_with_the_scores(name, weighted):
    rated, weights = weighted
    value = value_or_nan(name, rated, weights)
    assert np.isnan(value) or -1 <= value <= 1
    for sign, other in ((1, rate(rated.human, rated.scores)), (-1, rate(-rated.scores, rated.human))):
        turned = sign * value_or_nan(name, other, weights)
        assert turned == pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", RANK_STATISTICS)
@given(weighted_rows())
def test_rank_statistics_see_only_the_order(name, weighted):
    rated, weights = weighted
    stretched = rate(np.arctan(rated.scores) * 7 - 2, rated.human**3)
    # Rounding could tie scores that were distinct; a map is monotone only if it keeps them apart.
    if len(np.unique(stretched.scores)) < len(np.unique(rated.scores)):
        return
    if len(np.unique(stretched.human)) < len(np.unique(rated.human)):
        return
    assert value_or_nan(name, stretched, weights) == pytest.approx(
        value_or_nan(name, rated, weights), rel=1e-12, abs=1e-12, nan_ok=True
    )


@pytest.mark.parametrize(
    ("shift", "scale"),
    # Scores differ in their last two of twelve digits; squares of 1e200 overflow, those of 1e-200 vanish.
    [(1e9, 1), (1e11, 1), (-1e11, 1), (0, 1e200), (0, 1e-200)],
)
def test_pearson_ignores_shift_and_scale_of_large_scores(shift: float, scale: float):
    scores, human = np.array([0.0, 1.0, 2.0, 5.0, 3.0]), [1, 0, 2, 3, 3]
    moved = rate(shift + scores * scale, human)
    assert value_or_nan("pearson", moved) == pytest.approx(value_or_nan("pearson", rate(scores, human)), rel=1e-12)


def test_rank_statistics_by_hand():
    # Rows (score, rating): (1, 1) (2, 1) (3, 2) (3, 3). Six pairs: one tied in ratings, one tied in scores,
    # the other four concordant. tau-b = 4 / sqrt(5 * 5); m = 3, tau-c = 2 * 3 * 4 / (4^2 * 2).
    rated = rate([1, 2, 3, 3], [1, 1, 2, 3])
    assert value_or_nan("kendall_b", rated) == pytest.approx(0.8)
    assert value_or_nan("kendall_c", rated) == pytest.approx(0.75)
    # Ranks of the scores 1, 2, 3.5, 3.5 and of the ratings 1.5, 1.5, 3, 4; less their mean 2.5 the products
    # sum to 1.5 + 0.5 + 0.5 + 1.5 = 4, both sums of squares are 4.5.
    assert value_or_nan("spearman", rated) == pytest.approx(4 / 4.5)


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


@pytest.mark.parametrize("name", [*ORACLES, "sample_kendall", "one_minus_r2"])
def test_statistics_accept_weights_of_any_dtype(name):
    rated = rate([0.1, 0.5, 0.3, 0.9], [0, 1, 1, 1])
    values = {statistics[name]().value(rated, np.array([1, 1, 1, 1], dtype)) for dtype in ("u1", "i8", "f4", "f8", "?")}
    assert len(values) == 1
