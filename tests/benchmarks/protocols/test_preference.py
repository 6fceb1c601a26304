"""Of two captions one is preferred: accuracy, ties, draws of references, categories, parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rated_task import UNRATED, run_rated

import capbench
from capbench.benchmarks.protocols.choices import ChoicePart
from capbench.benchmarks.protocols.preference import Preference, PreferenceSettings
from capbench.benchmarks.records.samples import COLUMNS
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.statistics.contract import UndefinedStatistic
from capbench.benchmarks.statistics.correlation import KendallB
from capbench.errors import DataError
from capbench.metrics import Context, Items, Metric, Scores, metrics

TASK = {
    **UNRATED,
    "output_type": "preference",
    "doc_to_image": None,
    "doc_to_candidates": "captions",
    "doc_to_target": "references",
    "doc_to_preferred": "preferred",
}


def pair(identity: str, first: int, second: int, preferred: Any = 0, **more: Any) -> dict[str, Any]:
    """Captions of so many words."""
    captions = [" ".join(["word"] * count) for count in (first, second)]
    return {"id": identity, "captions": captions, "references": ["a word"], "preferred": preferred} | more


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., TaskRun]:
    def run(rows: list[dict[str, Any]], settings: dict[str, Any] | None = None, **keys: Any) -> TaskRun:
        return run_rated(tmp_path, rows, settings, **{**TASK, **keys})

    return run


THREE = [pair("right", 3, 1), pair("wrong", 1, 3), pair("tie", 2, 2)]


@pytest.mark.parametrize(("ties", "accuracy"), [("half", 0.5), ("wrong", 1 / 3), ("right", 2 / 3)])
def test_equal_scores_count_as_the_task_says(run, ties: str, accuracy: float):
    done = run(THREE, protocol={"ties": ties})
    (result,) = done.results
    assert (result.value, result.n) == (pytest.approx(accuracy), 3)
    assert set(done.samples.column_names) - {"length", "scores.length"} <= set(COLUMNS)


class Tenths(Metric):
    """A number by the length of the caption; those of 2 and 3 words differ in the last bit."""

    label = "tenths"
    source = "here"

    def score(self, items: Items, context: Context) -> Scores:
        return Scores(np.array([(0.0, 0.3, 0.3, 0.1 + 0.2)[len(one.split())] for one in items.candidates]))


def test_scores_tie_where_they_differ_by_rounding_alone_as_in_rank_statistics(run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics, "_entries", dict(metrics._entries))
    metrics.add("tenths", Tenths)
    rows = [pair("same", 1, 2), pair("above", 3, 2), pair("below", 2, 3)]
    done = run(rows, metric_list=["tenths"], protocol={"ties": "half"})
    assert done.samples["tenths"].to_pylist() == [0.5, 0.5, 0.5]
    for scores in ([0.3, 0.1 + 0.2], [0.3, 0.3]):
        with pytest.raises(UndefinedStatistic, match="all scores are equal"):
            KendallB()(np.array(scores), np.arange(2), np.arange(2))


def test_overall_accuracy_is_the_unweighted_mean_of_categories_and_the_record_names_them(run):
    rows = [pair(str(n), 3, 1, category="easy") for n in range(3)]
    # The second caption may be the preferred one.
    rows += [pair("x", 1, 3, category="hard"), pair("y", 1, 3, "1", category="hard")]
    done = run(rows, doc_to_category="category")
    found = [(result.category, result.value, result.n) for result in done.results]
    assert found == [("easy", 1.0, 3), ("hard", 0.5, 2), ("", 0.75, 5)]
    assert set(done.record.results) == {"length.accuracy.easy", "length.accuracy.hard", "length.accuracy"}


def test_parts_of_a_pair_are_averaged_before_they_are_compared(run):
    # Mean lengths: 3 and 1 against 1 and 4, so 2 against 2.5.
    rows = [pair("a-0", 3, 1, video="a"), pair("a-1", 1, 4, video="a"), pair("b-0", 2, 1, video="b")]
    done = run(rows, doc_to_pair="video")
    assert done.results[0].value == 0.5
    assert done.results[0].n == 2
    assert done.record.documents.to_json() == {"original": 3, "effective": 3}
    assert list(done.samples.to_pandas()["length"]) == [0.0, 1.0]


def test_pair_of_which_a_part_is_broken_is_left_out(run):
    rows = [pair("a-0", 3, 1, video="a"), pair("a-1", 1, 0, video="a"), pair("b-0", 2, 1, video="b")]
    done = run(rows, doc_to_pair="video")
    assert done.results[0].n == 1
    assert [(one["samples"], one["reason"]) for one in done.record.failures] == [
        (["a-1"], "is empty"),
        (["a-0"], "is of a pair of which another document cannot be used"),
    ]


BROKEN = [
    ({"captions": ["only one"]}, "is not a list of two captions or more"),
    ({"captions": ["a", None]}, "is null"),
    ({"references": []}, "is an empty list"),
    ({"references": ["!!!"]}, "reference 1 has no letter or digit"),
    ({"preferred": 2}, "is a vote for a candidate that does not exist, as there are 2 (from 0): 2"),
    ({"preferred": None}, "is missing"),
    ({"preferred": True}, "is no number of a candidate, no tie: True"),
    ({"preferred": "0_1"}, "is no number of a candidate, no tie: '0_1'"),
    ({"preferred": "\uff11"}, "is no number of a candidate, no tie: '\uff11'"),
    ({"preferred": [0, 2]}, "is a vote for a candidate that does not exist, as there are 2 (from 0): 2"),
]


def test_broken_pairs_are_named_and_the_rest_is_scored(run):
    broken = [pair(f"bad{n}", 2, 1) | more for n, (more, _) in enumerate(BROKEN)]
    done = run([pair("good", 2, 1), *broken])
    assert done.results[0].n == 1
    reason_of = {sample: one["reason"] for one in done.record.failures for sample in one["samples"]}
    assert reason_of == {f"bad{n}": reason for n, (_, reason) in enumerate(BROKEN)}
    with pytest.raises(DataError, match="no pair can be scored"):
        run(broken)


def drawn(references: list[str], identity: str, **settings: int) -> list[tuple[str, ...]]:
    part = ChoicePart(identity, (), tuple(references))
    return Preference(PreferenceSettings(**settings)).references_of(part)


def test_draws_are_the_same_for_both_captions_and_differ_between_draws(run):
    references = [f"reference {number} of many" for number in range(48)]
    rows = [pair(str(n), 2, 1, references=references, image=str(n)) for n in range(3)]
    done = run(rows, protocol={"drawn_references": 5, "draws": 4}, metric_list=["cider"], doc_to_image="image")
    assert done.results[0].n == 3
    draws = drawn(references, "7", drawn_references=5, draws=4)
    assert [len(set(draw)) for draw in draws] == [5, 5, 5, 5]
    assert len(set(draws)) == 4
    assert draws == drawn(references, "7", drawn_references=5, draws=4)
    # Parts of a pair have draws of their own.
    assert draws != drawn(references, "8", drawn_references=5, draws=4)
    assert drawn(["a", "b", "c"], "0", first_references=2) == [("a", "b")]


def test_draws_do_not_depend_on_other_pairs_or_their_order(run):
    # Of twenty references one has a word of the first caption, so that its credit tells what was drawn.
    references = ["red", *(f"word{number}" for number in range(19))]
    rows = [
        {"id": f"pair {n}", "captions": ["red", "blue"], "references": references, "preferred": 0} for n in range(30)
    ]
    keys = {"protocol": {"drawn_references": 10, "draws": 3}, "metric_list": ["bleu_1"]}

    def credit(rows):
        samples = run(rows, **keys).samples
        return dict(zip(samples["id"].to_pylist(), samples["bleu_1"].to_pylist(), strict=True))

    whole = credit(rows)
    assert len(set(whole.values())) > 1
    assert credit([{**rows[0], "captions": ["red"]}, *rows[1:]]) == whole | {"pair 0": None}
    assert credit(rows[::-1]) == whole


def test_accuracy_is_the_mean_over_draws(run):
    # BLEU-1 of "red" against the drawn reference alone: right where it is drawn, else a tie or wrong.
    references = ["red", "blue"]
    rows = [{"id": str(n), "captions": ["red", "blue"], "references": references, "preferred": 0} for n in range(40)]
    done = run(rows, protocol={"drawn_references": 1, "draws": 2}, metric_list=["bleu_1"])
    credit = done.samples.to_pandas()["bleu_1"].to_numpy()
    assert set(credit) == {0.0, 0.5, 1.0}
    assert done.results[0].value == pytest.approx(credit.mean())


def test_interval_draws_whole_images(run):
    # Twenty pairs of two images: were pairs drawn, the interval would be narrow.
    rows = [pair(f"a{n}", 2, 1, image="a") for n in range(10)] + [pair(f"b{n}", 1, 2, image="b") for n in range(10)]
    (result,) = run(rows, {"resamples": 200}, doc_to_image="image").results
    assert result.value == 0.5
    assert (result.interval.low, result.interval.high) == (0.0, 1.0)


def test_interval_by_influence_is_that_of_the_mean_over_categories(run):
    # Two categories of unlike sizes: a pair of the small one counts four times as much.
    rows = [pair(f"a{n}", 2, 1 + n % 3, category="A") for n in range(160)]
    rows += [pair(f"b{n}", 2, 1 + n % 2, category="B") for n in range(40)]
    by_resamples, by_influence = (
        run(rows, {"resamples": 1000, "intervals": way}, doc_to_category="category").results[-1]
        for way in ("bootstrap", "influence")
    )
    assert by_influence.value == by_resamples.value
    assert by_influence.interval.method == "influence"
    assert by_influence.interval.stderr == pytest.approx(by_resamples.interval.stderr, rel=0.07)


@pytest.mark.data
def test_two_categories_of_pascal50s_give_the_numbers_of_pycocoevalcap(data_folder: Callable[[str], Path]):
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
        None, "pascal50s", metrics=list(expected), data={"pascal50s": folder}, resamples=20, skip_checks=True
    )
    done = run["pascal50s"]
    for metric, values in expected.items():
        found = {result.category: 100 * result.value for result in done.results if result.metric == metric}
        assert (found["HI"], found["HM"]) == pytest.approx(values, abs=0.06), metric
    # The paper's are of 48 references a pair, of which it draws, and its mean is over four categories.
    assert not done.record.published
    assert not done.record.is_whole
    assert "2 of 4 categories: mean of HI, HM" in done.record.notes[0]


@pytest.mark.data
def test_foil_pairs_of_valse_find_their_references_in_coco(data_folder: Callable[[str], Path]):
    folder = data_folder("foil")
    data = {"foil_valse": folder}
    run = capbench.evaluate(None, "foil_valse", metrics=["bleu_1", "cider"], data=data, resamples=0)
    one, four = (
        {result.metric: 100 * result.value for result in run[task].results}
        for task in ("foil_valse_1ref", "foil_valse_4ref")
    )
    assert one["cider"] == pytest.approx(80.7, abs=0.3)
    assert four["bleu_1"] == pytest.approx(81.9, abs=0.3)
    assert four["cider"] == pytest.approx(90.5, abs=0.3)
    assert np.all([four[metric] > one[metric] for metric in one])
