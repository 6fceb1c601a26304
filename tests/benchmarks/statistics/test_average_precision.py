import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from capbench.benchmarks.statistics.average_precision import AveragePrecision
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic


def rated(scores: list[float], human: list[float]) -> RatedScores:
    return RatedScores(np.array(scores), np.array(human), np.arange(len(scores)))


def test_rows_of_the_lower_rating_are_looked_for_from_the_least_score_on():
    # Of the least score the first is of the lower rating (1 of 1); both of score 2 stand together: 2 of 3; then 3 of 5.
    some = rated([1, 2, 2, 3, 4, 5], [0, 0, 1, 1, 0, 1])
    assert AveragePrecision().value(some, np.ones(6)) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    assert AveragePrecision().remark(some) == "by chance 50.0%"
    assert AveragePrecision().remark(rated([1, 2, 3], [5, 4, 5])) == "by chance 33.3%"


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
        AveragePrecision().value(rated([1, 2, 3], human), np.array(weights))
