"""Preferences: accuracy, ties, draws of references, categories, parts; votes, grades, best of several, rankings."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from rated_task import UNRATED, run_rated

import capbench
from capbench.benchmarks.protocols.choices import ChoicePart
from capbench.benchmarks.protocols.document_reader import UnusableDocument
from capbench.benchmarks.protocols.preference import Preference, PreferenceSettings, pairs_of_ranking, preference_credit
from capbench.benchmarks.records.samples import COLUMNS
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.statistics.intervals import wilson
from capbench.errors import DataError, TaskError

TASK = {
    **UNRATED,
    "output_type": "preference",
    "doc_to_candidates": "captions",
    "doc_to_target": "references",
    "doc_to_preferred": "preferred",
}


def row(identity: str, lengths: Sequence[int], preferred: Any = 0, **more: Any) -> dict[str, Any]:
    """Captions of so many words, of an image of their own."""
    captions = [" ".join(["word"] * length) for length in lengths]
    own = {"id": identity, "image": f"{identity}.jpg", "captions": captions, "references": ["a word"]}
    return own | {"preferred": preferred} | more


@pytest.fixture
def run(tmp_path) -> Callable[..., TaskRun]:
    return partial(run_rated, tmp_path, **TASK)


THREE = [row("right", [3, 1]), row("wrong", [1, 3]), row("tie", [2, 2])]


@pytest.mark.parametrize(("ties", "accuracy"), [("half", 0.5), ("wrong", 1 / 3), ("right", 2 / 3)])
def test_equal_scores_count_as_the_task_says(run, ties: str, accuracy: float):
    done = run(THREE, protocol={"ties": ties})
    (result,) = done.results
    assert (result.value, result.n) == (pytest.approx(accuracy), 3)
    assert set(done.samples.column_names) - {"length", "scores.length"} <= set(COLUMNS)


def test_overall_accuracy_is_the_unweighted_mean_of_categories_and_the_record_names_them(run):
    rows = [row(str(n), [3, 1], category="easy") for n in range(3)]
    # The second caption may be the preferred one.
    rows += [row("x", [1, 3], category="hard"), row("y", [1, 3], "1", category="hard")]
    done = run(rows, {"resamples": 200}, doc_to_category="category")
    numbers = [(result.category, result.value, result.n) for result in done.results]
    assert numbers == [("easy", 1.0, 3), ("hard", 0.5, 2), ("", 0.75, 5)]
    assert done.results[0].interval.ends == wilson(1.0, 0.0, 3, 0.95).ends
    assert set(done.record.results) == {"length.accuracy.easy", "length.accuracy.hard", "length.accuracy"}
    of_all = run(rows, doc_to_category="category", protocol={"aggregate": "all"}).results[-1]
    assert (of_all.value, of_all.n) == (0.8, 5)


def test_parts_of_a_pair_are_averaged_before_they_are_compared(run):
    # Mean lengths: 3 and 1 against 1 and 4, so 2 against 2.5.
    rows = [row("a-0", [3, 1], video="a"), row("a-1", [1, 4], video="a"), row("b-0", [2, 1], video="b")]
    done = run(rows, doc_to_pair="video")
    assert done.results[0].value == 0.5
    assert done.results[0].n == 2
    assert done.record.documents.to_json() == {"original": 3, "effective": 3}
    assert list(done.samples.to_pandas()["length"]) == [0.0, 1.0]


def test_pair_of_which_a_part_is_broken_is_left_out(run):
    rows = [row("a-0", [3, 1], video="a"), row("a-1", [1, 0], video="a"), row("b-0", [2, 1], video="b")]
    done = run(rows, doc_to_pair="video")
    assert done.results[0].n == 1
    assert [(failure["samples"], failure["reason"]) for failure in done.record.failures] == [
        (["a-1"], "is empty"),
        (["a-0"], "belongs to a pair with an unusable document"),
    ]


BROKEN = [
    ({"captions": ["only one"]}, "is not a list of two captions or more"),
    ({"captions": ["a", None]}, "is null"),
    ({"references": []}, "is an empty list"),
    ({"references": ["!!!"]}, "reference 1 has no letter or digit"),
    ({"preferred": 2}, "votes for a candidate other than 0 to 1: 2"),
    ({"preferred": None}, "is missing"),
    ({"preferred": "0_1"}, "is neither the number of a candidate nor a tie: '0_1'"),
]


def test_broken_pairs_are_named_and_the_rest_is_scored(run):
    broken = [row(f"bad{n}", [2, 1]) | more for n, (more, _) in enumerate(BROKEN)]
    done = run([row("good", [2, 1]), *broken])
    assert done.results[0].n == 1
    reason_of = {sample: failure["reason"] for failure in done.record.failures for sample in failure["samples"]}
    assert reason_of == {f"bad{n}": reason for n, (_, reason) in enumerate(BROKEN)}
    with pytest.raises(DataError, match="no pair can be scored"):
        run(broken)


def drawn(references: list[str], identity: str, **settings: int) -> list[tuple[str, ...]]:
    part = ChoicePart(identity, (), tuple(references))
    return Preference(PreferenceSettings(**settings)).references_of(part)


def test_draws_are_the_same_for_both_captions_and_differ_between_draws(run):
    references = [f"reference {number} of many" for number in range(48)]
    rows = [row(str(n), [2, 1], references=references) for n in range(3)]
    done = run(rows, protocol={"drawn_references": 5, "draws": 4}, metric_list=["cider"])
    assert done.results[0].n == 3
    draws = drawn(references, "7", drawn_references=5, draws=4)
    assert [len(set(draw)) for draw in draws] == [5, 5, 5, 5]
    assert len(set(draws)) == 4
    assert draws == drawn(references, "7", drawn_references=5, draws=4)
    # Parts of a pair have draws of their own.
    assert draws != drawn(references, "8", drawn_references=5, draws=4)
    assert drawn(["a", "b", "c"], "0", first_references=2) == [("a", "b")]


def test_accuracy_is_the_mean_over_draws(run):
    # BLEU-1 of "red" against the drawn reference alone: right where it is drawn, else a tie or wrong.
    references = ["red", "blue"]
    rows = [row(str(n), [], captions=["red", "blue"], references=references) for n in range(40)]
    done = run(rows, protocol={"drawn_references": 1, "draws": 2}, metric_list=["bleu_1"])
    credit = done.samples.to_pandas()["bleu_1"].to_numpy()
    assert set(credit) == {0.0, 0.5, 1.0}
    assert done.results[0].value == pytest.approx(credit.mean())


def test_interval_by_influence_is_that_of_the_mean_over_categories(run):
    # Two categories of unlike sizes: a pair of the small one counts four times as much.
    rows = [row(f"a{n}", [2, 1 + n % 3], category="A") for n in range(160)]
    rows += [row(f"b{n}", [2, 1 + n % 2], category="B") for n in range(40)]
    by_resamples, by_influence = (
        run(rows, {"resamples": 400, "intervals": way}, doc_to_category="category").results[-1]
        for way in ("bootstrap", "influence")
    )
    assert by_influence.value == by_resamples.value
    assert (by_influence.interval.resamples, by_resamples.interval.resamples) == (0, 400)
    assert by_influence.interval.stderr == pytest.approx(by_resamples.interval.stderr, rel=0.12)


# --- preferences as people give them: ties, votes, grades, best of several, rankings


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
    assert done.results[0].n == sum(value is not None for value in credit(done))
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
    assert done.record.documents.effective == done.record.documents.original == 1
    assert credit(done) == [0.5, 0.0, 0.0]
    turned = run([row("a", [1, 2, 3], None, ranks=[3, None, 1])], doc_to_preferred=None, doc_to_ranking="ranks")
    assert credit(turned) == [1.0]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"doc_to_preferred": None}, "needs doc_to_preferred or doc_to_ranking$"),
        ({"doc_to_preferred": None, "metric_list": None}, "needs metric_list, doc_to_preferred or doc_to_ranking$"),
        ({"doc_to_ranking": "preferred"}, r"doc_to_ranking: means the same as doc_to_preferred; give one of them$"),
        ({"protocol": {"grades": [1, 1]}}, "protocol.grades: expected two grades"),
    ],
)
def test_task_that_says_too_little_or_too_much_is_refused(run, keys: dict[str, Any], message: str):
    with pytest.raises(TaskError, match=message):
        run([row("a", [1, 2])], **keys)


def test_row_without_its_category_is_named(run):
    with pytest.raises(DataError, match=r"no pair can be scored.*\n.*has no category"):
        run([row("a", [1, 2], kind=None)], doc_to_category="kind")


shares_of, graded = PreferenceSettings().shares_of, PreferenceSettings(grades=(0, 4)).shares_of


@pytest.mark.parametrize(
    ("read", "arguments", "fault"),
    [
        (shares_of, (-1, 3), "votes for a candidate other than 0 to 2: -1"),
        (shares_of, (0.5, 3), "votes for a candidate other than 0 to 2: 0.5"),
        (shares_of, ([0, "b"], 2), "is neither the number of a candidate nor a tie: 'b'"),
        (shares_of, ([], 2), "is missing"),
        (shares_of, ("d", 2, ["a", "b"]), "is neither the number of a candidate nor a tie nor one of 'a', 'b': 'd'"),
        (graded, (5, 2), "lies outside of the grades 0 to 4: 5"),
        (graded, (1, 3), "is a grade of two candidates, but there are 3"),
        (pairs_of_ranking, ([1, 2], 3), "is not a list of 3 ranks: [1, 2]"),
        (pairs_of_ranking, ([1, "b", 2], 3), "holds a rank that is no number: 'b'"),
        (pairs_of_ranking, ([1, None, None], 3), "has no two ranks"),
    ],
)
def test_vote_grade_and_ranking_that_is_none_is_told(read: Callable[..., Any], arguments: tuple[Any, ...], fault: str):
    with pytest.raises(UnusableDocument) as error:
        read(*arguments)
    assert (error.value.stage, str(error.value)) == ("rating", fault)


def test_vote_may_name_a_system_and_a_grade_says_how_much_better():
    assert shares_of("b", 3, ["a", "b", "c"]) == (0, 1, 0)
    assert graded(1, 2) == (0.75, 0.25)


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
    credit = preference_credit(np.array([[2.0, 2, 2, 1]]), np.array([[0.0, 1, 0, 0]]), rule)
    np.testing.assert_allclose(credit, expected)


def test_choice_without_a_score_counts_nothing():
    rule = PreferenceSettings(ties="half", metric_ties="exact", human_ties="match")
    credit = preference_credit(np.array([[np.nan, 1], [1, 2]]), np.array([[0.5, 0.5], [0, 1]]), rule)
    np.testing.assert_array_equal(credit, [np.nan, 1])


@pytest.mark.data
@pytest.mark.costly
def test_two_categories_of_pascal50s_give_the_numbers_of_pycocoevalcap(data_folder):
    # Accuracies of pycocoevalcap 1.2 with its PTB tokeniser over the same 4,000 rows, ties a half.
    expected = {
        "bleu_1": (95.0, 92.4),
        "bleu_4": (93.6, 84.9),
        "rouge_l": (96.1, 91.8),
        "cider": (98.6, 90.5),
        "length": (52.4, 63.8),
    }
    folder = data_folder("pascal50s")
    run = capbench.evaluate(
        None, "pascal50s", metrics=list(expected), data={"pascal50s": folder}, resamples=0, skip_checks=True
    )
    done = run["pascal50s"]
    for metric, values in expected.items():
        value_of = {result.category: 100 * result.value for result in done.results if result.metric == metric}
        assert (value_of["HI"], value_of["HM"]) == pytest.approx(values, abs=0.06), metric
    # The paper's are of 48 references a pair, of which it draws, and its mean is over four categories.
    assert not done.record.published
    assert not done.record.is_whole
    assert "2 of 4 categories: mean of HI, HM" in done.record.notes[0]


@pytest.mark.data
def test_foil_pairs_of_valse_find_their_references_in_coco(data_folder):
    folder = data_folder("foil")
    data = {"foil_valse": folder}
    run = capbench.evaluate(None, "foil_valse", metrics=["bleu_1", "cider"], data=data, resamples=0)
    single, four = (
        {result.metric: 100 * result.value for result in run[task].results}
        for task in ("foil_valse_1ref", "foil_valse_4ref")
    )
    assert single["cider"] == pytest.approx(80.7, abs=0.3)
    assert four["bleu_1"] == pytest.approx(81.9, abs=0.3)
    assert four["cider"] == pytest.approx(90.5, abs=0.3)
    assert np.all([four[metric] > single[metric] for metric in single])
