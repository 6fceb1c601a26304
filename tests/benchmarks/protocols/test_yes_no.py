"""Yes/no tasks: recorded answers, questions that cannot be asked, and POPE's own files."""

import json
from typing import Any

import numpy as np
import pytest
from task_keys import write_task

import capbench
from capbench.benchmarks.protocols.yes_no import RATES, TERMS, majority_elsewhere, released, strict, term_of
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.statistics.contract import UndefinedStatistic
from capbench.benchmarks.statistics.intervals import wilson
from capbench.benchmarks.tables.results import render
from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.index import build_index
from capbench.tasks.pope.reader import questions

TASK = {
    "task": "mine",
    "output_type": "yes_no",
    "doc_to_id": "name",
    "doc_to_image": "photo",
    "doc_to_text": "question",
    "doc_to_target": "right",
}
ROWS = [
    {"name": "a", "photo": "1.png", "question": "Is there a dog?", "right": "yes"},
    {"name": "b", "photo": "1.png", "question": "Is there a cat?", "right": "no"},
    {"name": "c", "photo": "2.png", "question": "Is there a dog?", "right": "Yes "},
    {"name": "d", "photo": "2.png", "question": "Is there a bus?", "right": False},
]
ANSWERS = {"a": "Yes.", "b": "NO", "c": "no", "d": "There is not"}


@pytest.fixture
def run(tmp_path):
    def with_rows(rows: list[dict[str, Any]], answers: dict[str, str | None], **settings: Any) -> TaskRun:
        write_task(tmp_path, rows, TASK)
        lines = [json.dumps({"question_id": name, "answer": text}) + "\n" for name, text in answers.items()]
        (tmp_path / "answers.jsonl").write_text("".join(lines))
        settings = {"include_path": [tmp_path], "resamples": 0, **settings}
        return capbench.evaluate(f"captions:{tmp_path / 'answers.jsonl'}", "mine", **settings)["mine"]

    return with_rows


def values(run: TaskRun, parse: str) -> dict[str, float | None]:
    return {result.statistic: result.value for result in run.results if result.metric == parse}


def test_answers_are_read_in_both_ways(run):
    done = run(ROWS, ANSWERS)
    # Released: yes, yes, no, no; right are a and d. Strict: yes, no, no, neither; right are a and b.
    assert values(done, "released") == pytest.approx(
        {"accuracy": 0.5, "precision": 0.5, "recall": 0.5, "f1": 0.5, "yes_share": 0.5}
    )
    assert values(done, "strict") == pytest.approx(
        {"accuracy": 0.5, "precision": 1, "recall": 0.5, "f1": 2 / 3, "yes_share": 0.25, "neither_share": 0.25}
    )
    rows = done.samples.to_pylist()
    assert [row["candidate"] for row in rows] == list(ANSWERS.values())
    assert [(row["released_says"], row["strict_says"]) for row in rows] == [
        ("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "neither"),
    ]  # fmt: skip
    assert [row["target"] for row in rows] == ["yes", "no", "yes", "no"]
    assert [(row["released"], row["strict"]) for row in rows] == [(1, 1), (0, 1), (0, 0), (1, 0)]


def test_answer_to_the_question_alone_stands_beside_accuracy(run):
    done = run(ROWS, ANSWERS)
    (accuracy,) = [result for result in done.results if (result.metric, result.statistic) == ("released", "accuracy")]
    # The dog is there both times; cat and bus are asked for once each, which says nothing.
    assert accuracy.alone == {"chance": 0.5, "question": 0.75}
    assert "(question)" in render([done])
    assert all(not result.alone for result in done.results if result.statistic != "accuracy")


def test_empty_answer_is_one(run):
    done = run(ROWS, ANSWERS | {"b": None})
    assert values(done, "released")["accuracy"] == 0.5
    assert values(done, "strict")["neither_share"] == 0.5
    assert {result.n for result in done.results} == {4}


def test_rates_that_are_not_defined_have_none(run):
    done = run(ROWS, dict.fromkeys(ANSWERS, "no"))
    reasons = {result.statistic: result.reason for result in done.results if result.metric == "released"}
    assert reasons == {
        "accuracy": "", "precision": "no answer is yes", "recall": "", "f1": "no answer is yes", "yes_share": "",
    }  # fmt: skip
    assert values(done, "released")["precision"] is None
    assert values(done, "released")["recall"] == 0


def test_images_are_drawn_with_all_of_their_questions(run):
    done = run([row | {"photo": "1.png"} for row in ROWS], ANSWERS, resamples=10)
    assert "fewer than 2 images" in done.results[0].interval.reason


@pytest.mark.parametrize("intervals", ["bootstrap", "influence"])
def test_both_kinds_of_intervals_are_of_the_same_size(run, intervals: str):
    rows = [
        {"name": str(n), "photo": f"{n // 4}.png", "question": f"Is there a {n % 7}?", "right": n % 2 == 0}
        for n in range(400)
    ]
    answers = {str(n): "yes" if (n * 7919) % 13 < 6 else "no" for n in range(400)}
    done = run(rows, answers, resamples=200, intervals=intervals)
    (f1,) = [result for result in done.results if (result.metric, result.statistic) == ("released", "f1")]
    assert (f1.interval.method, f1.interval.resamples) == ("wilson", 200 if intervals == "bootstrap" else 0)
    assert f1.interval.stderr == pytest.approx(0.026, abs=0.008)
    # Precision is of what was answered yes: here of questions on 10 images.
    few = {str(n): "yes" if n < 40 and n % 2 == 0 else "no" for n in range(400)}
    precision = run(rows, few, resamples=200, intervals=intervals).record.results["released.precision"]
    assert precision.interval.ends == wilson(1.0, 0.0, 10, 0.95).ends


def test_score_of_a_group_is_the_mean_of_results_as_more_is_better(run, tmp_path):
    run(ROWS, ANSWERS)
    score = {"label": "both", "mean_of": {"mine": "strict.accuracy", "other": "strict.neither_share"}}
    for name, group in (
        ("other", {"task": "other"}),
        ("all", {"group": "all", "task": ["mine", "other"], "score": score}),
    ):
        kept = {} if "group" in group else json.loads((tmp_path / "mine.yaml").read_text())
        (tmp_path / f"{name}.yaml").write_text(json.dumps(kept | group))
    settings = {"include_path": [tmp_path], "resamples": 0}
    both = capbench.evaluate(f"captions:{tmp_path / 'answers.jsonl'}", "all", **settings)
    assert both.group_scores() == {"both": (0.5 + (1 - 0.25)) / 2}
    assert "both: 62.50 (× 100); mean of mine strict.accuracy, other strict.neither_share" in str(both)
    (tmp_path / "all.yaml").write_text(json.dumps({"group": "all", "task": "mine", "score": {"label": "both"}}))
    assert "score: expected {label: NAME, mean_of: {TASK: RESULT, ...}}" in str(build_index([tmp_path]).faults)


def test_missing_answers_end_the_run_unless_they_are_a_part(run):
    part = {"a": "yes", "z": "no"}
    with pytest.raises(DataError, match="no caption is recorded for 3 of 4 documents: 'b', 'c', 'd'"):
        run(ROWS, part)
    done = run(ROWS, part, subset=True)
    assert done.record.subset is not None
    assert {result.n for result in done.results} == {1}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"right": "maybe"}, "has a right answer that is not yes or no: 'maybe'"),
        ({"right": 1}, "has a right answer that is not yes or no: 1"),
        ({"question": None}, "has a question that is null"),
    ],
)
def test_question_that_cannot_be_asked_is_named(run, columns: dict[str, Any], reason: str):
    done = run([*ROWS[:3], ROWS[3] | columns], {name: ANSWERS[name] for name in "abc"})
    assert [(failure["samples"], failure["reason"]) for failure in done.record.failures] == [(["d"], reason)]
    assert {result.n for result in done.results} == {3}


def test_pope_files_are_lines_or_arrays_and_bad_rows_are_named(tmp_path):
    good = {"question_id": 1, "image": "a.jpg", "text": "Is there a dog in the image?", "label": "yes"}
    (tmp_path / "lines.json").write_text(
        "\n".join([json.dumps(good), "", "{oops", json.dumps({"image": "b.jpg", "text": "?"}), "[1]"]) + "\n"
    )
    (tmp_path / "array.json").write_text(json.dumps([good, good | {"question_id": 2}]))
    row, faulty, *others = questions(tmp_path, "lines.json")
    assert row == good
    assert faulty.place == "lines.json:3"
    assert others == [
        BadRow("lines.json: question 3", "has no question_id, label"),
        BadRow("lines.json:5", "not a JSON object"),
    ]
    assert [row["question_id"] for row in questions(tmp_path, "array.json") if isinstance(row, dict)] == [1, 2]
    with pytest.raises(DataError, match="there is no such file"):
        list(questions(tmp_path, "gone.json"))


@pytest.mark.data
def test_released_questions_are_complete_and_always_yes_is_right_for_half(data_folder, tmp_path):
    folder = data_folder("pope")
    answers = "".join(json.dumps({"id": number, "caption": "yes"}) + "\n" for number in range(1, 3001))
    (tmp_path / "answers.jsonl").write_text(answers)
    run = capbench.evaluate(f"captions:{tmp_path / 'answers.jsonl'}", "pope", data={"pope": folder}, resamples=0)
    for kind in ("random", "popular", "adversarial"):
        task = run[f"pope_{kind}"]
        assert values(task, "released") == pytest.approx(
            {"accuracy": 0.5, "precision": 0.5, "recall": 1, "f1": 2 / 3, "yes_share": 1}
        )
        assert all(check.passed for check in task.record.data_checks)


# --- what answers say, and the rates that are made of them, by hand


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Yes", "yes"), ("No", "no"), ("no, there is not", "no"), ("Well,no", "yes"), ("No, sir. Yes", "no"),
        ("Yes. No", "yes"), ("There is not any", "no"), ("no\tdog", "yes"), ("NO", "yes"), ("Not", "yes"),
        ("cannot", "yes"), ("isn't", "yes"), ("None", "yes"), ("No!", "yes"), ("", "yes"), ("n,o", "no"),
    ],
)  # fmt: skip
def test_released_rule_reads_words_before_the_first_full_stop(answer: str, said: str):
    assert released(answer) == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Yes", "yes"), ("NO!", "no"), (" 'no', I think", "no"), ("yes.", "yes"), ("1. Yes", "yes"),
        ("None", "neither"), ("Not", "neither"), ("There is no dog", "neither"), ("", "neither"), ("...", "neither"),
    ],
)  # fmt: skip
def test_strict_rule_reads_the_first_word(answer: str, said: str):
    assert strict(answer) == said


def sums(**counts: int) -> np.ndarray:
    return np.array([float(counts.get(name, 0)) for name in TERMS])


def test_each_answer_adds_to_one_term():
    said = [("yes", True), ("yes", False), ("no", False), ("no", True), ("neither", True), ("neither", False)]
    assert [term_of(answer, truth) for answer, truth in said] == [0, 1, 2, 3, 4, 5]  # type: ignore[arg-type]


def test_rates_are_those_of_yes():
    terms = sums(yes_right=6, yes_wrong=2, no_right=3, no_wrong=4, neither_yes=2, neither_no=3)
    values = {name: rate(terms) for name, rate in RATES.items()}
    precision, recall = 6 / 8, 6 / 12
    assert values == pytest.approx(
        {
            "accuracy": 9 / 20,
            "precision": precision,
            "recall": recall,
            "f1": 2 * precision * recall / (precision + recall),
            "yes_share": 8 / 20,
            "neither_share": 5 / 20,
        }
    )


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        ({"no_right": 2, "no_wrong": 1}, {"precision": "no answer is yes", "f1": "no answer is yes"}),
        ({"yes_wrong": 2, "no_right": 1}, {"recall": "no question is to be", "f1": "no question is to be"}),
        ({"yes_wrong": 2, "no_wrong": 1}, {"f1": "no yes is right"}),
    ],
)
def test_what_is_divided_by_nothing_is_undefined(counts: dict[str, int], undefined: dict[str, str]):
    for name, rate in RATES.items():
        if name in undefined:
            with pytest.raises(UndefinedStatistic, match=undefined[name]):
                rate(sums(**counts))
        else:
            rate(sums(**counts))


def test_majority_is_of_other_images():
    question = np.array([1, 1, 1, 1, 2, 2])
    image = np.array([1, 1, 2, 3, 1, 2])
    truth = np.array([True, True, False, False, True, True])
    # Of question 1, image 1 sees two noes elsewhere; image 2 two yeses and a no; question 2 is always yes.
    assert majority_elsewhere(question, image, truth).tolist() == [0, 0, 0, 0, 1, 1]
    assert majority_elsewhere(question[:1], image[:1], truth[:1]).tolist() == [0.5]
    assert majority_elsewhere(question[:4], image[:4], np.array([True, False, True, True])).tolist() == [1, 0, 1, 1]


@pytest.mark.data
@pytest.mark.parametrize(("kind", "share"), [("random", 0.685), ("popular", 0.869), ("adversarial", 0.698)])
def test_pope_is_answered_to_a_large_part_by_the_question_alone(data_folder, kind: str, share: float):
    lines = (data_folder("pope") / f"coco_pope_{kind}.json").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    text, image = (np.unique([row[key] for row in rows], return_inverse=True)[1] for key in ("text", "image"))
    hits = majority_elsewhere(text, image, np.array([row["label"] == "yes" for row in rows]))
    assert round(float(hits.mean()), 4) == share
