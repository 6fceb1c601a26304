"""Preferences as people give them: ties, votes, grades, best of several, rankings; scores are numbers of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rated_task import UNRATED, run_rated

from capbench.benchmarks.protocols.document_reader import UnusableDocument
from capbench.benchmarks.protocols.preference import PreferenceSettings, pairs_of_ranking, preference_credit, shares_of
from capbench.benchmarks.records.task_run import TaskRun
from capbench.errors import DataError, TaskError

TASK = {**UNRATED, "output_type": "preference", "doc_to_candidates": "captions", "doc_to_preferred": "preferred"}


def row(identity: str, lengths: Sequence[int], preferred: Any = 0, **more: Any) -> dict[str, Any]:
    captions = [" ".join(["word"] * length) for length in lengths]
    return {"id": identity, "image": f"{identity}.jpg", "captions": captions, "preferred": preferred} | more


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., TaskRun]:
    def run(rows: list[dict[str, Any]], settings: dict[str, Any] | None = None, **keys: Any) -> TaskRun:
        return run_rated(tmp_path, rows, settings, **{**TASK, **keys})

    return run


def credit(done: TaskRun) -> list[float | None]:
    return done.samples["length"].to_pylist()


@pytest.mark.parametrize("tie", ["tie", "Equal", 0.5, "0.5", [0, 1]])
@pytest.mark.parametrize(
    ("human_ties", "of_tie"), [("leave_out", [None, None]), ("half", [0.5, 0.5]), ("match", [1.0, 0.0])]
)
def test_ties_of_people_count_as_the_task_says(run, tie: Any, human_ties: str, of_tie: list[float | None]):
    rows = [row("a", [2, 2], tie), row("b", [3, 1], tie), row("c", [3, 1], 0), row("d", [3, 1], 1)]
    done = run(rows, protocol={"human_ties": human_ties})
    assert credit(done) == [*of_tie, 1.0, 0.0]
    assert done.results[0].n == sum(one is not None for one in credit(done))
    assert done.samples["preferred"].to_pylist() == [None, None, 0, 1]
    assert done.samples["failure"].to_pylist() == [None] * 4


def test_ties_of_the_metric_may_be_left_out_and_words_for_a_tie_are_the_tasks_own(run):
    assert credit(run([row("a", [2, 2]), row("b", [3, 1])], protocol={"ties": "leave_out"})) == [None, 1.0]
    rule = {"tie_words": ["skip", "bad"], "human_ties": "half"}
    assert credit(run([row("a", [2, 2], "skip"), row("b", [2, 1], "Bad")], protocol=rule)) == [0.5, 0.5]


@pytest.mark.parametrize(("votes", "expected"), [("majority", [1.0, 0.0]), ("share", [0.75, 0.25])])
def test_several_votes_count_by_their_majority_or_their_share(run, votes: str, expected: list[float]):
    ballots = [0, 0, None, "0", 1]
    done = run([row("a", [3, 1], ballots), row("b", [1, 3], ballots)], protocol={"votes": votes})
    assert credit(done) == expected
    assert done.samples["shares"].to_pylist() == [[0.75, 0.25]] * 2


@pytest.mark.parametrize(("votes", "expected"), [("majority", [0.0, 0.0, None]), ("share", [0.0, 0.25, 0.5])])
def test_grades_say_how_much_better(run, votes: str, expected: list[float | None]):
    # From +2, the first is much better, to -2, the second is.
    rows = [row("a", [1, 3], 2), row("b", [1, 3], 1), row("c", [1, 3], 0)]
    assert credit(run(rows, protocol={"votes": votes, "grades": [2, -2]})) == expected


def test_best_of_several_is_right_where_the_metric_finds_it(run):
    rows = [row("a", [1, 5, 3], 1), row("b", [1, 2, 3, 4], 0), row("c", [4, 4, 1], 0), row("d", [2, 1], 0)]
    done = run(rows)
    assert credit(done) == [1.0, 0.0, 0.5, 1.0]
    assert done.samples["scores.length"].to_pylist() == [[1, 5, 3], [1, 2, 3, 4], [4, 4, 1], [2, 1]]


def test_ranking_is_all_of_its_pairs(run):
    # By length the last is the best; people have it last, and see no difference between the first two.
    rows = [row("a", [1, 2, 3], None, ranks=[1, 1, 3])]
    done = run(rows, doc_to_preferred=None, doc_to_ranking="ranks", protocol={"human_ties": "half"})
    assert done.samples["id"].to_pylist() == ["a|0|1", "a|0|2", "a|1|2"]
    assert credit(done) == [0.5, 0.0, 0.0]
    turned = run([row("a", [1, 2, 3], None, ranks=[3, None, 1])], doc_to_preferred=None, doc_to_ranking="ranks")
    assert credit(turned) == [1.0]


def test_both_scores_of_a_pair_are_kept_where_texts_are_not(run, tmp_path: Path):
    import pyarrow.parquet

    settings = {"output_path": tmp_path / "runs", "log_samples": "scores"}
    run([row("a", [3, 1]), row("b", [1, 2])], settings)
    (file,) = (tmp_path / "runs").rglob("samples.parquet")
    table = pyarrow.parquet.read_table(file)
    assert table["scores.length"].to_pylist() == [[3.0, 1.0], [1.0, 2.0]]
    assert "candidates" not in table.column_names


def test_mean_of_categories_or_of_all(run):
    rows = [row(str(n), [3, 1], kind="easy") for n in range(3)] + [row("x", [1, 3], kind="hard")]
    values = {
        aggregate: [
            (one.category, one.value, one.n)
            for one in run(rows, doc_to_category="kind", protocol={"aggregate": aggregate}).results
        ]
        for aggregate in ("categories", "all")
    }
    assert values["categories"][:2] == values["all"][:2] == [("easy", 1.0, 3), ("hard", 0.0, 1)]
    assert (values["categories"][2], values["all"][2]) == (("", 0.5, 4), ("", 0.75, 4))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"doc_to_preferred": None}, "needs doc_to_preferred or doc_to_ranking$"),
        ({"doc_to_preferred": None, "metric_list": None}, "needs doc_to_preferred or doc_to_ranking, metric_list$"),
        ({"doc_to_ranking": "preferred"}, r"doc_to_ranking: it says what doc_to_preferred says; give one of them$"),
        ({"protocol": {"grades": [1, 1]}}, "protocol.grades: the grade that says most"),
    ],
)
def test_task_that_says_too_little_or_too_much_is_refused(run, keys: dict[str, Any], message: str):
    with pytest.raises(TaskError, match=message):
        run([row("a", [1, 2])], **keys)


def test_row_without_its_category_is_named(run):
    with pytest.raises(DataError, match="no pair can be scored") as error:
        run([row("a", [1, 2], kind=None)], doc_to_category="kind")
    assert "has no category" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("preferred", "candidates", "fault"),
    [
        (2, 2, "is a vote for a candidate that does not exist, as there are 2 (from 0): 2"),
        (-1, 3, "is a vote for a candidate that does not exist, as there are 3 (from 0): -1"),
        (0.5, 3, "is a vote for a candidate that does not exist, as there are 3 (from 0): 0.5"),
        ([0, "b"], 2, "is no number of a candidate, no tie: 'b'"),
        ([], 2, "is missing"),
        ([None], 2, "is missing"),
    ],
)
def test_vote_that_is_none_is_told(preferred: Any, candidates: int, fault: str):
    with pytest.raises(UnusableDocument) as told:
        shares_of(preferred, candidates)
    assert (told.value.stage, str(told.value)) == ("rating", fault)


def test_vote_may_name_a_system_and_a_grade_is_of_two_and_lies_inside():
    assert shares_of("b", 3, ["a", "b", "c"]) == (0, 1, 0)
    assert shares_of(1, 2, grades=(0, 4)) == (0.75, 0.25)
    with pytest.raises(UnusableDocument, match=r"^is no number of a candidate, no tie, none of 'a', 'b': 'd'$"):
        shares_of("d", 2, ["a", "b"])
    with pytest.raises(UnusableDocument, match=r"^lies outside of the grades 0 to 4: 5$"):
        shares_of(5, 2, grades=(0, 4))
    with pytest.raises(UnusableDocument, match=r"^is a grade of two candidates, and there are 3$"):
        shares_of(1, 3, grades=(0, 4))


@pytest.mark.parametrize(
    ("ranking", "fault"),
    [
        ([1, 2], "is not a list of 3 ranks: [1, 2]"),
        ("1,2,3", "is not a list of 3 ranks: '1,2,3'"),
        ([1, "b", 2], "holds a rank that is no number: 'b'"),
        ([1, None, None], "has no two ranks"),
    ],
)
def test_ranking_that_is_none_is_told(ranking: Any, fault: str):
    with pytest.raises(UnusableDocument) as told:
        pairs_of_ranking(ranking, 3)
    assert (told.value.stage, str(told.value)) == ("rating", fault)


def test_as_many_pairs_tie_as_people_tie():
    # One human tie: the pair whose scores differ least ties, though its scores are no equal numbers.
    scores = np.array([[0.1, 0.9], [0.5, 0.6], [0.9, 0.2], [0.3, 0.5]])
    shares = np.array([[0, 1], [0.5, 0.5], [1, 0], [1, 0]], float)
    rule = PreferenceSettings(ties="wrong", metric_ties="as_many", human_ties="match")
    assert preference_credit(scores, shares, rule).tolist() == [1, 1, 1, 0]
    exact = PreferenceSettings(ties="wrong", metric_ties="exact", human_ties="match")
    assert preference_credit(scores, shares, exact).tolist() == [1, 0, 1, 0]
    all_tied = np.full((4, 2), 0.5)
    assert preference_credit(scores, all_tied, rule).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("ties", "expected"), [("half", 1 / 3), ("wrong", 0), ("right", 1), ("leave_out", np.nan)])
def test_ties_among_several_count_as_the_task_says(ties: Any, expected: float):
    rule = PreferenceSettings(ties=ties, metric_ties="exact", human_ties="half")
    found = preference_credit(np.array([[2.0, 2, 2, 1]]), np.array([[0.0, 1, 0, 0]]), rule)
    np.testing.assert_allclose(found, expected)


def test_choice_without_a_score_counts_nothing():
    rule = PreferenceSettings(ties="half", metric_ties="exact", human_ties="match")
    found = preference_credit(np.array([[np.nan, 1], [1, 2]]), np.array([[0.5, 0.5], [0, 1]]), rule)
    np.testing.assert_array_equal(found, [np.nan, 1])
