"""The protocol: what metrics make of changed captions becomes shares, and samples that were not changed are named.

Then metrics against each other: which captions count, and letters in runs as in comparisons.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from task_keys import write_task

import capbench
from capbench.benchmarks import plots
from capbench.benchmarks.protocols.checklist.protocol import COMPARED, NAMES, compare_rule, rule_values
from capbench.benchmarks.protocols.checklist.rules import RULES
from capbench.benchmarks.protocols.contract import ComparedRows
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.statistics import Draws
from capbench.benchmarks.statistics.bootstrap import resample_values
from capbench.benchmarks.statistics.contract import UndefinedStatistic
from capbench.benchmarks.statistics.influence import Ratio, ratio_intervals
from capbench.benchmarks.statistics.intervals import wilson
from capbench.benchmarks.tables.results import printed_tables
from capbench.cli.main import main
from capbench.errors import DataError, UsageError
from capbench.metrics import Context, Items, Metric, Scores
from capbench.metrics.cider import Cider

CAPTIONS = [
    ("a", ["Two dogs run on the beach.", "Two brown dogs are running.", "Dogs on sand."]),
    ("b", ["A red car is near a house.", "A car stands.", "There is a red car."]),
    ("c", ["A woman in a green coat walks. A dog sleeps.", "A woman is walking.", "Someone smiles."]),
    ("d", ["A cat sleeps on a sofa.", "A grey cat.", "The cat is asleep."]),
]
RULE = {rule.name: rule for rule in RULES}


class Length(Metric):
    """The number of a caption's letters: longer is better; none of a caption that says "not"."""

    label = "letters"
    source = "this test"
    needs = frozenset({"references"})

    def score(self, items, context) -> Scores:
        values = np.array([float(len(candidate)) for candidate in items.candidates])
        denied = [number for number, candidate in enumerate(items.candidates) if " not " in candidate]
        values[denied] = np.nan
        return Scores(values, failures=dict.fromkeys(denied, "says no"))


def task(tmp_path: Path, rows: list[tuple[str, list[str]]] = CAPTIONS, **protocol: Any) -> Path:
    """Write a checklist of rows, and return the folder."""
    keys = {"task": "mine", "output_type": "checklist", "doc_to_id": "image", "doc_to_target": "captions"}
    keys |= {"metric_list": ["cider", "rouge_l"], "protocol": protocol}
    return write_task(tmp_path, [{"image": image, "captions": captions} for image, captions in rows], keys)


def evaluate(folder: Path, **keys: Any) -> TaskRun:
    return capbench.evaluate(None, "mine", include_path=[folder], **{"resamples": 0, **keys})["mine"]


def test_every_caption_has_a_row_for_each_rule_changed_or_with_the_reason(tmp_path: Path):
    run = evaluate(task(tmp_path))
    samples, remarks = run.samples.to_pylist(), {remark["reason"]: remark for remark in run.record.remarks}
    assert remarks["counts nothing, or one (number_replaced)"]["samples"] == ["b#0", "c#0", "d#0"]
    assert remarks["has one sentence alone (sentence_order)"]["count"] == 3
    assert any(reason.startswith("is parsed with word lists (") for reason in remarks)
    assert [sample["id"] for sample in samples] == [f"{image}#0|{name}" for image, _ in CAPTIONS for name in NAMES]
    row = {sample["id"]: sample for sample in samples}
    assert row["a#0|number_replaced"]["caption"] == "Four dogs run on the beach."
    assert row["a#0|number_replaced"]["references"] == CAPTIONS[0][1][1:]
    assert row["a#0|number_replaced"]["unchanged"] is None
    assert row["b#0|number_replaced"]["caption"] is None
    assert row["b#0|number_replaced"]["unchanged"] == "counts nothing, or one"
    assert row["b#0|number_replaced"]["rouge_l"] is None
    assert row["c#0|sentence_order"]["caption"] == "A dog sleeps. A woman in a green coat walks."
    assert 0 < row["a#0|negation"]["rouge_l"] < row["a#0|clean"]["rouge_l"]


def test_captions_are_weighed_as_if_nothing_had_been_changed(tmp_path: Path):
    """CIDEr's document frequencies are those of the data: a caption's score is that of a run without rules."""
    score_of = {row["id"]: row["cider"] for row in evaluate(task(tmp_path), metrics="cider").samples.to_pylist()}
    candidates = [texts[0] for _, texts in CAPTIONS]
    references = [tuple(texts[1:]) for _, texts in CAPTIONS]
    alone = Cider().score(Items([*"abcd"], candidates, references, np.ones(4)), Context())
    assert [score_of[f"{image}#0|clean"] for image, _ in CAPTIONS] == pytest.approx(alone.values.tolist())


def test_all_captions_are_changed_in_turn(tmp_path: Path):
    run = evaluate(task(tmp_path, captions="all"), metrics="rouge_l")
    clean = {row["id"]: row for row in run.samples.to_pylist() if row["category"] == "clean"}
    assert len(clean) == 12
    assert clean["a#1|clean"]["references"] == [CAPTIONS[0][1][0], CAPTIONS[0][1][2]]
    assert run.record.documents.effective == 4


def test_values_of_a_metric_that_looks_at_length_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from capbench.metrics import metrics

    monkeypatch.setitem(metrics._entries, "letters", Length)
    run = evaluate(task(tmp_path), metrics="letters")
    result_of = {(result.category, result.statistic): result for result in run.results}
    # Each caption loses letters where its end is cut, and gains some where a sentence is made up.
    assert result_of["end_cut", "falls"].value == 1
    assert result_of["sentence_made_up", "rises"].value == 1
    assert result_of["case", "equal"].value == 1
    assert result_of["case", "change"].value == 0
    # A caption without a score is a miss: it does not fall, stay or rise.
    denied = result_of["negation", "falls"]
    assert denied.n > 0
    assert [result_of["negation", name].value for name in ("falls", "equal", "rises")] == [0, 0, 0]
    assert result_of["negation", "change"].value is None
    assert result_of["negation", "change"].reason == "no changed caption has a score"
    # Lengths by hand: 26, 26, 44, 23 letters; twice the caption is 2 n + 1.
    lengths = np.array([len(texts[0]) for _, texts in CAPTIONS])
    assert result_of["own_2", "pays"].value == pytest.approx((2 * lengths + 1).sum() / lengths.sum())
    assert result_of["blank", "pays"].value == 0
    assert result_of["blank", "change"].value == pytest.approx(-lengths.mean() / lengths.std(ddof=1))
    assert result_of["references_2", "pays"].n == 4
    # No caption has four references: what changed nothing has no result.
    assert ("references_4", "pays") not in result_of
    unscored = {row["id"]: row["failure"] for row in run.samples.to_pylist() if row["failure"]}
    assert set(unscored.values()) == {"metric letters: says no"}
    assert all(name.endswith("|negation") for name in unscored)


def test_metric_of_which_less_is_better_falls_when_it_rises():
    scored = -np.array([1.0, 2.0, 3.0]), -np.array([2.0, 2.0, 1.0]), np.ones(3, bool), np.ones(3, bool), 2.0
    shares = {name: ratio.value() for name, ratio in rule_values(RULE["negation"], *scored).items()}
    assert shares == {"falls": 1 / 3, "equal": 1 / 3, "rises": 1 / 3, "change": pytest.approx(1 / 6)}
    assert list(shares) == ["falls", "equal", "rises", "change"]
    stays = rule_values(RULE["case"], *scored)
    assert list(stays) == ["equal", "falls", "rises", "change"]
    assert stays["change"].value() == pytest.approx(0.5)


def test_scores_without_spread_have_no_change_and_those_that_differ_by_rounding_alone_are_equal():
    every = np.ones(2, bool)
    same = rule_values(RULE["negation"], np.ones(2), np.zeros(2), every, every, 0.0)
    with pytest.raises(UndefinedStatistic, match="same score before"):
        same["change"].value()
    after = np.array([0.1 + 0.2, 0.3 - 1e-11])
    ratios = rule_values(RULE["case"], np.array([0.3, 0.3]), after, every, every, 1.0)
    assert [ratios[name].value() for name in ("equal", "falls", "rises")] == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("way", ["bootstrap", "influence"])
def test_intervals_are_those_of_the_bootstrap_of_whole_images(way):
    generator = np.random.default_rng(3)
    of, by = generator.normal(1, 0.3, 300), generator.uniform(0.5, 1.5, 300)
    images = np.repeat(np.arange(150), 2)
    of_ratio = ratio_intervals({"one": Ratio(of, by, "")}, images, Draws(400, 7, intervals=way), 0.95)["one"]
    expected = resample_values({"": lambda weights: float((weights @ of) / (weights @ by))}, images, Draws(400, 7))[
        ""
    ].interval(0.95)
    tolerance = 1e-12 if way == "bootstrap" else 0.02
    assert (of_ratio.low, of_ratio.high) == pytest.approx((expected.low, expected.high), abs=tolerance)
    assert of_ratio.method == way
    # Of the images of a share those count that it is of.
    few = Ratio(np.zeros(100), (np.arange(100) < 5).astype(float), "", is_share=True)
    of_few = ratio_intervals({"few": few}, np.arange(100), Draws(400, intervals=way), 0.95)["few"]
    assert of_few.ends == wilson(0.0, 0.0, 5, 0.95).ends
    # A share that is undefined on resamples is withheld.
    rare = Ratio(np.array([1.0, *[0.0] * 9]), np.array([1.0, *[0.0] * 9]), "no caption was changed")
    interval = ratio_intervals({"one": rare}, np.arange(10), Draws(200), 0.95)["one"]
    assert interval.low is None
    assert "no caption was changed" in interval.reason


@pytest.mark.parametrize(
    ("rows", "protocol", "message"),
    [
        ([("a", ["A dog."]), ("b", ["A cat."])], {}, "a: reference is missing: a document needs one"),
        ([("a", ["A dog.", "A cat."]), ("b", ["A cat.", ""])], {}, "b: candidate caption 2 is empty"),
        (CAPTIONS, {"rules": 99}, "needs protocol.rules 99, but this version has 2"),
        (CAPTIONS, {"words": "abc"}, "needs protocol.words abc, but this version has"),
        (CAPTIONS, {"reader": "spacy", "pipeline": "no_such_pipeline"}, "'no_such_pipeline' cannot be loaded"),
    ],
)
def test_bad_data_and_choices_are_refused(tmp_path: Path, rows, protocol, message: str):
    with pytest.raises(DataError) as raised:
        evaluate(task(tmp_path, rows, **protocol))
    assert message in f"{raised.value.message} {raised.value.hint}"


def test_missing_spacy_is_told_with_what_to_install_and_the_reader_that_needs_it_not(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(DataError, match=r"\n.*pip install 'capbench\[spacy\]'.*reader: lists"):
        evaluate(task(tmp_path, reader="spacy"))


def test_checklist_that_ships_is_printed_and_drawn(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code = main(
        ["run", "--task", "checklist_iiw", "--limit", "12", "--metrics", "rouge_l,bleu_1", "--bootstrap", "20",
         "--output_path", str(tmp_path)]
    )  # fmt: skip
    printed = capsys.readouterr()
    assert code == 0, printed.err
    lines = printed.out.splitlines()
    head = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert lines[0] == "Checklist (ImageInWords): share of captions, or of the mean"
    assert head == ["Change", "ROUGE-L", "BLEU-1", "n"]
    case = next(line for line in lines if line.startswith("| case: stays"))
    assert [cell.strip() for cell in case.strip("|").split("|")][1:] == ["1.000 [0.712, 1.000] a"] * 2 + ["12"]
    assert "| negation: change in SD" in printed.out
    assert "is parsed with word lists" in printed.err
    assert main(["plot", "checklist", str(tmp_path), "-o", str(tmp_path / "drawn.svg")]) == 0
    drawn = (tmp_path / "drawn.svg").read_text()
    assert "order of sentences: stays" in drawn
    assert "case: stays 1" in drawn
    assert "× clean mean" not in drawn
    records = plots.read_records([tmp_path])
    with pytest.raises(DataError, match="no run measures agreement"):
        plots.agreement_figure(records)
    with pytest.raises(UsageError, match="no run has metric 'meteor'"):
        plots.rules_figure(records, metrics=["meteor"])
    figure = plots.rules_figure(records, metrics=["bleu_1"], width="single")
    assert [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()] == ["BLEU-1"]
    assert main(["leaderboard", "build", "--runs", str(tmp_path), "--output", str(tmp_path / "board")]) == 0
    (table,) = json.loads((tmp_path / "board" / "leaderboard.json").read_text())["tables"]
    # A column a rule: of its results the first.
    # The mean of the rules is a column, too.
    assert len(table["columns"]) == 1 + len(NAMES) - 1 - len({"attributes_swapped", "references_2", "references_4"})


def test_captions_that_score_0_unchanged_are_not_counted():
    """CIDEr of most long captions is 0 to 6 digits: their changes are noise."""
    metrics = ["cider", "rouge_l", "length"]
    run = capbench.evaluate(None, "checklist_iiw", metrics=metrics, resamples=20, limit=20)["checklist_iiw"]
    clean = [row["cider"] for row in run.samples.to_pylist() if row["category"] == "clean"]
    result_of = {(result.metric, result.category, result.statistic): result for result in run.results}
    assert 0 < sum(score > 1e-6 for score in clean) == result_of["cider", "end_cut", "falls"].n < 10
    assert result_of["cider", "end_cut", "change"].n == result_of["rouge_l", "end_cut", "falls"].n == 20
    (_, printed), _ = printed_tables([run], lambda _: "")
    counts = {row["Change"]: row["n"] for row in printed}
    assert counts["end cut: falls"] == f"{result_of['cider', 'end_cut', 'falls'].n}-20"
    assert counts["blank: × clean mean"] == "20"
    letters = {metric: run.record.letters(result_of[metric, "end_cut", "falls"]) for metric in metrics}
    assert letters["cider"] == ""
    assert letters["rouge_l"]
    with_errors = rows("falls.negation", frozenset({"errors"}), errors=[(0.0, 1.0), (0.0, 0.0)])
    # Of errors 0 is the best score, which can get worse.
    assert values(with_errors) == ({"errors": 0.5}, 2, (0, 2))
    assert values(rows("falls.negation", points=[(1e-7, 0.0), (1.0, 0.0)])) == ({"points": 1.0}, 1, (1, 2))


# --- metrics against each other

NONE = float("nan")


def rows(name: str, lower: frozenset[str] = frozenset(), **scores: list[tuple[float, float]]) -> ComparedRows:
    """Return captions with the scores of each metric before and after the change of a rule."""
    captions = len(next(iter(scores.values())))
    of_metric: dict[str, np.ndarray] = {}
    for metric, pairs in scores.items():
        table = np.full((captions, len(NAMES)), NONE)
        table[:, [0, NAMES.index(name.partition(".")[2])]] = pairs
        of_metric[metric] = table.ravel()
    images = np.repeat(np.arange(captions), len(NAMES))
    return ComparedRows(images, of_metric, categories=NAMES * captions, by=name, lower_is_better=lower)


def values(compared: ComparedRows) -> tuple[dict[str, float], int, tuple[int, int]]:
    comparison = compare_rule(compared, Draws(50, 0))
    return {name: estimate.value for name, estimate in comparison.estimates.items()}, comparison.n, comparison.left_out


def test_share_that_falls_is_compared_whichever_way_a_metric_points():
    scores = [(2.0, 1.0), (2.0, 2.0), (2.0, 3.0), (2.0, 1.0)]
    numbers = values(rows("falls.negation", frozenset({"errors"}), points=scores, errors=scores))
    assert numbers == ({"points": 0.5, "errors": 0.25}, 4, (0, 4))


def test_of_rules_that_say_the_same_the_share_that_stays_is_compared():
    numbers = values(rows("equal.case", a=[(1.0, 1.0), (1.0, 1.0 + 1e-15)], b=[(1.0, 2.0), (1.0, 0.0)]))
    assert numbers[0] == {"a": 1.0, "b": 0.0}


def test_captions_that_were_not_changed_say_nothing_and_those_that_one_cannot_score_are_left_out():
    a = [(2.0, 1.0), (2.0, NONE), (2.0, 1.0), (NONE, 1.0)]
    b = [(2.0, 1.0), (2.0, NONE), (2.0, NONE), (2.0, 3.0)]
    assert values(rows("falls.end_cut", a=a, b=b)) == ({"a": 1.0, "b": 1.0}, 1, (2, 3))
    with pytest.raises(UndefinedStatistic, match="nothing was judged by all of them"):
        values(rows("falls.end_cut", a=[(1.0, NONE)], b=[(1.0, NONE)]))


def test_each_caption_is_held_against_itself():
    compared = rows("falls.negation", a=[(1.0, 2.0), (5.0, 4.0)], b=[(1.0, 0.0), (5.0, 6.0)])
    mcnemar = compare_rule(compared, Draws(50, 0)).classical
    assert mcnemar("a", "b")["McNemar"] == 1.0
    assert values(compared)[0] == {"a": 0.5, "b": 0.5}


def test_letters_of_a_run_are_those_of_the_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = capbench.evaluate(
        None, "checklist_iiw", metrics=["rouge_l", "bleu_1", "length"], limit=20, resamples=300,
        output_path=tmp_path, log_samples="scores",
    )["checklist_iiw"]  # fmt: skip
    record, folder = run.record, next(tmp_path.rglob("run.json")).parent
    assert {"falls.negation", "falls.end_cut", "equal.case"} <= set(record.significance) <= set(COMPARED)
    for name in ("falls.end_cut", "equal.sentence_order"):
        code = main(["compare", str(folder), "--statistic", name, "--bootstrap", "300", "--format", "json"])
        (compared,) = json.loads(capsys.readouterr().out)
        letters = {row["name"]: row["letters"] for row in compared["compared"]}
        assert (code, letters) == (0, record.significance[name].groups)
        of_rule = [result for result in run.results if f"{result.statistic}.{result.category}" == name]
        assert {result.metric: record.letters(result) for result in of_rule} == letters
        assert len(set(letters.values())) > 1
    others = [result for result in run.results if result.statistic in ("change", "pays", "rises")]
    assert others
    assert not any(record.letters(result) for result in others)


def test_statistic_of_another_rule_is_refused_with_those_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    capbench.evaluate(None, "checklist_iiw", metrics=["rouge_l", "length"], limit=3, resamples=0, output_path=tmp_path)
    folder = next(tmp_path.rglob("run.json")).parent
    assert main(["compare", str(folder), "--statistic", "falls.synonym"]) != 0
    said = capsys.readouterr().err
    assert "unknown statistic 'falls.synonym' for a task of protocol checklist. Did you mean 'equal.synonym'?" in said
    assert "are compared by falls.object_replaced, " in said
