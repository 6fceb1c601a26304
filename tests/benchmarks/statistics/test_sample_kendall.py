import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.benchmarks.statistics.sample_kendall import SampleKendall

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


@pytest.mark.parametrize("variant", ["b", "c"])
@given(images())
def test_mean_over_images_equals_scipy_image_by_image(variant, columns):
    scores, human, groups = columns
    taus = [
        scipy.stats.kendalltau(scores[groups == one], human[groups == one], variant=variant).statistic
        for one in np.unique(groups)
        if (groups == one).sum() > 1
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
    names = np.concatenate([one[rows] + 10 * number for number, (*_, one, rows) in enumerate(copies)])
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
