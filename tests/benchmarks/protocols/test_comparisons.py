"""What protocols compare runs by, on plain columns: rows that all have, resamples of images, classical tests."""

import numpy as np
import pytest
from scipy.stats import binomtest

from capbench.benchmarks.protocols.agreement import Agreement, AgreementSettings
from capbench.benchmarks.protocols.contract import ComparedRows, PairedEstimates, ProtocolSettings
from capbench.benchmarks.protocols.generate_until import GenerateUntil
from capbench.benchmarks.protocols.matching.protocol import Matching, MatchingSettings
from capbench.benchmarks.protocols.preference import Preference, PreferenceSettings
from capbench.benchmarks.protocols.yes_no import YesNo
from capbench.benchmarks.statistics import Draws
from capbench.benchmarks.statistics.classical import williams_test
from capbench.benchmarks.statistics.contract import UndefinedStatistic
from capbench.benchmarks.statistics.correlation import KendallB, Pearson
from capbench.benchmarks.statistics.rated_rows import Ratings

NAN = float("nan")
DRAWS = Draws(resamples=50, seed=7)
HUMAN = [1.0, 2.0, 3.0, 4.0, 5.0, 2.0]
GOOD = np.array([1.0, 2.0, 4.0, 3.0, 5.0, 2.0])
POOR = np.array([2.0, 1.0, 3.0, 5.0, 1.0, 4.0])
IMAGES = list("abcdef")


def agreement(**settings: object) -> Agreement:
    return Agreement(AgreementSettings.model_validate(settings))


def rated(good: np.ndarray = GOOD, poor: np.ndarray = POOR, images: list[str] = IMAGES) -> ComparedRows:
    return ComparedRows(images, {"good": good, "poor": poor}, Ratings.of([[rating] for rating in HUMAN]))


def test_metrics_are_compared_by_the_statistic_of_the_rows_that_all_scored():
    missing = np.array([1.0, 2.0, 4.0, 3.0, 5.0, NAN])
    comparison = agreement().compare(rated(good=missing), Pearson(), DRAWS)
    assert comparison.estimates["good"].value == pytest.approx(np.corrcoef(missing[:5], HUMAN[:5])[0, 1])
    # The sixth row is left out of the other metric, too.
    assert comparison.estimates["poor"].value == pytest.approx(np.corrcoef(POOR[:5], HUMAN[:5])[0, 1])
    assert (comparison.n, comparison.groups, comparison.higher_is_better) == (5, 5, True)
    assert [len(estimate.values) for estimate in comparison.estimates.values()] == [50, 50]


def test_ratings_are_arranged_and_scores_rounded_as_the_task_says():
    two = ComparedRows(
        list("ab"), {"x": np.array([0.14, 0.26]), "y": np.array([1.0, 2.0])}, Ratings.of([[1, 2], [3, NAN]])
    )
    assert agreement().compare(two, KendallB(), DRAWS).n == 3
    rows = rated(good=np.array([0.11, 0.12, 0.13, 0.14, 0.15, 0.12]))
    exact = agreement().compare(rows, KendallB(), DRAWS).estimates["good"].value
    assert exact == pytest.approx(1.0)
    with pytest.raises(UndefinedStatistic, match="good"):
        agreement(round_scores=1).compare(rated(good=np.full(6, 0.11) + np.arange(6) / 1000), KendallB(), DRAWS)


def test_one_statistic_a_rater_has_no_williams_test():
    ratings = [[rating, 6 - rating] for rating in HUMAN]
    rows = ComparedRows(IMAGES, {"good": GOOD, "poor": POOR}, Ratings.of(ratings))
    assert agreement().compare(rows, Pearson(), DRAWS).classical is not None
    assert agreement(raters="per_rater_mean").compare(rows, Pearson(), DRAWS).classical is None


def test_pearson_has_williams_test_which_supposes_distinct_images_and_other_statistics_have_none():
    comparison = agreement().compare(rated(), Pearson(), DRAWS)
    r = [np.corrcoef(values, other)[0, 1] for values, other in ((GOOD, HUMAN), (POOR, HUMAN), (GOOD, POOR))]
    assert comparison.classical
    assert comparison.classical("good", "poor") == {"Williams": pytest.approx(williams_test(*r, 6)[1])}
    assert comparison.supposes_independence == ""
    assert agreement().compare(rated(), KendallB(), DRAWS).classical is None
    comparison = agreement().compare(rated(images=list("aabbcc")), Pearson(), DRAWS)
    assert (comparison.n, comparison.groups, comparison.supposes_independence) == (6, 3, "Williams' test")
    tau = agreement().compare(rated(images=list("aabbcc")), KendallB(), DRAWS)
    assert tau.supposes_independence == ""


def test_williams_test_of_three_rows_is_undefined():
    scores = {"good": GOOD[:3], "poor": POOR[:3]}
    rows = ComparedRows(list("abc"), scores, Ratings.of([[1.0], [2.0], [3.0]]))
    comparison = agreement().compare(rows, Pearson(), DRAWS)
    assert comparison.classical
    assert comparison.classical("good", "poor") == {"Williams": None}


def pairs(images: str, *credit: list[float]) -> PairedEstimates:
    scores = dict(zip(("one", "other"), map(np.array, credit), strict=True))
    return Preference(PreferenceSettings()).compare(ComparedRows(list(images), scores), None, DRAWS)


def test_pairs_are_compared_by_what_they_count_on_average():
    comparison = pairs("aabbcd", [1.0, 1.0, 1.0, 1.0, 0.0, NAN], [1.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    assert {name: estimate.value for name, estimate in comparison.estimates.items()} == {"one": 0.8, "other": 0.4}
    assert (comparison.n, comparison.groups, comparison.supposes_independence) == (5, 3, "McNemar's test")
    assert comparison.higher_is_better
    assert comparison.classical
    # Of the four pairs on which they disagree, three are right by the one and one by the other.
    assert comparison.classical("one", "other")["McNemar"] == pytest.approx(binomtest(3, 4).pvalue)
    assert set(comparison.classical("one", "other")) == {"McNemar", "McNemar mid-p"}
    # Of distinct images they are independent; of a quarter there is no test, and of none that both judged nothing.
    assert pairs("ab", [1.0, 0.0], [0.0, 1.0]).supposes_independence == ""
    quarter = pairs("abc", [0.5, 0.25, 1.0], [1.0, 0.0, 1.0]).classical
    assert quarter
    assert quarter("one", "other") == {"McNemar": None, "McNemar mid-p": None}
    with pytest.raises(UndefinedStatistic, match="nothing was judged by all of them"):
        pairs("ab", [1.0, NAN], [NAN, 1.0])


def test_captioners_are_compared_by_the_mean_over_the_documents_that_all_captioned():
    values = {"small": np.array([1.0, 2.0, NAN, 6.0]), "large": np.array([2.0, 4.0, 9.0, 6.0])}
    steps: list[tuple[int, int]] = []
    draws = Draws(20, 7, lambda done, total: steps.append((done, total)))
    comparison = GenerateUntil(ProtocolSettings()).compare(ComparedRows(list("aaaa"), values), None, draws)
    assert {name: estimate.value for name, estimate in comparison.estimates.items()} == {"small": 3.0, "large": 4.0}
    # A document is an image, whatever it is called.
    assert (comparison.n, comparison.groups) == (3, 3)
    assert comparison.classical is None
    assert steps[-1] == (20, 20)
    # Two documents are enough, and one is not.
    both = {"small": np.array([1.0, 3.0]), "large": np.array([2.0, 4.0])}
    assert GenerateUntil(ProtocolSettings()).compare(ComparedRows(["a", "b"], both), None, DRAWS).n == 2
    values = {"small": np.array([1.0, NAN]), "large": np.array([2.0, 4.0])}
    with pytest.raises(UndefinedStatistic, match="1 documents were scored in all runs"):
        GenerateUntil(ProtocolSettings()).compare(ComparedRows(["a", "b"], values), None, DRAWS)


def test_models_are_compared_by_hits_and_each_category_weighs_the_same():
    hits = {"first": np.array([1.0, 1.0, 0.0, 1.0, 1.0]), "second": np.array([0.0, 1.0, 0.0, 1.0, 0.0])}
    protocol = Matching(MatchingSettings())
    plain = protocol.compare(ComparedRows(list("aabbc"), hits), None, DRAWS)
    assert {name: estimate.value for name, estimate in plain.estimates.items()} == {"first": 0.8, "second": 0.4}
    assert (plain.n, plain.groups, plain.is_share) == (5, 3, True)
    assert plain.classical("first", "second")["McNemar"] == binomtest(2, 2).pvalue
    by_category = protocol.compare(ComparedRows(list("aabbc"), hits, categories=list("ppppq")), None, DRAWS)
    # 3 of 4 and 1 of 1; 2 of 4 and 0 of 1.
    assert {name: estimate.value for name, estimate in by_category.estimates.items()} == {
        "first": 0.875,
        "second": 0.25,
    }
    assert (by_category.n, by_category.groups, by_category.is_share) == (5, 3, True)


def test_protocol_whose_runs_cannot_be_compared_says_so():
    assert not YesNo.comparable
    with pytest.raises(NotImplementedError, match="YesNo does not compare runs"):
        YesNo(YesNo.Settings()).compare(ComparedRows([], {}), None, DRAWS)
