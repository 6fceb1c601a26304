import subprocess
import sys

import numpy as np
import pytest

from capbench.benchmarks.statistics import register_statistic, statistics
from capbench.benchmarks.statistics.contract import RatedScores, UndefinedStatistic
from capbench.errors import UsageError

SCORES, HUMAN, GROUPS = np.array([1.0, 2, 4]), np.array([1.0, 3, 2]), np.array([0, 1, 2])


@pytest.fixture
def registered_names():
    """Take back what a test registered."""
    before = dict(statistics._entries)
    yield
    statistics._entries = before


def test_names_need_no_numpy_and_statistics_no_scipy():
    script = (
        "import sys; from capbench.benchmarks.statistics import statistics; list(statistics); "
        "assert not {'numpy', 'scipy'} & set(sys.modules); from capbench.benchmarks.statistics import bootstrap; "
        "[statistics[name] for name in statistics]; assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.usefixtures("registered_names")
def test_a_plain_function_becomes_a_statistic_with_options():
    @register_statistic("within", label="share near", higher_is_better=False)
    def within(scores, human, groups, distance=1.0):
        return float((np.abs(scores - human) <= distance).mean())

    statistic = statistics["within"]
    assert (statistic.label, statistic.higher_is_better) == ("share near", False)
    assert statistic()(SCORES, HUMAN, GROUPS) == pytest.approx(2 / 3)
    assert statistic(distance=2)(SCORES, HUMAN, GROUPS) == 1
    assert within(SCORES, HUMAN, GROUPS) == pytest.approx(2 / 3)


@pytest.mark.usefixtures("registered_names")
def test_a_function_is_called_on_repeated_rows_and_undefined_where_it_returns_nan():
    register_statistic("mean_score")(lambda scores, human, groups: scores.mean() if len(scores) > 1 else float("nan"))
    rated = RatedScores(SCORES, HUMAN, GROUPS)
    assert statistics["mean_score"]().value(rated, np.array([0, 3, 1])) == pytest.approx(10 / 4)
    assert statistics["mean_score"].label == "mean_score"
    with pytest.raises(UndefinedStatistic):
        statistics["mean_score"]().value(rated, np.array([0, 1, 0]))


def test_a_taken_name_is_refused_and_an_unknown_one_gets_a_suggestion():
    with pytest.raises(UsageError, match="'pearson' is registered already"):
        register_statistic("pearson")(lambda scores, human, groups: 0.0)
    with pytest.raises(UsageError, match="Did you mean 'pearson'"):
        statistics["person"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", statistics)
def test_scores_and_ratings_that_are_not_finite_leave_every_statistic_undefined(name, bad):
    damaged = np.array([1.0, bad, 4])
    with pytest.raises(UndefinedStatistic, match=f"1 of 3 scores are not finite: {bad}"):
        statistics[name]()(damaged, HUMAN, GROUPS)
    with pytest.raises(UndefinedStatistic, match=f"1 of 3 ratings are not finite: {bad}"):
        statistics[name]()(SCORES, damaged, GROUPS)


@pytest.mark.usefixtures("registered_names")
def test_a_plain_function_never_sees_what_is_not_finite():
    seen = []
    register_statistic("seen")(lambda scores, human, groups: seen.append(scores) or 0.5)
    with pytest.raises(UndefinedStatistic, match="2 of 3 scores are not finite: nan"):
        statistics["seen"]()(np.array([1, np.nan, np.inf]), HUMAN, GROUPS)
    assert seen == []
