"""The agreement protocol, through task files over local rows; scores are numbers of words."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rated_task import run_rated, write_rated

from capbench.benchmarks.records.samples import COLUMNS
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.statistics import statistics
from capbench.benchmarks.statistics.contract import RatedScores, Statistic
from capbench.cli.main import main
from capbench.errors import DataError


def words(number: int) -> str:
    return " ".join(["word"] * number)


def row(identity: str, length: int, ratings: Any, **others: Any) -> dict[str, Any]:
    """A caption of ``length`` words, on an image of its own."""
    return {
        "id": identity,
        "image": f"{identity}.jpg",
        "candidate": words(length),
        "references": ["a reference"],
        "ratings": ratings,
    } | others


FOUR = [row("a", 1, 1), row("b", 2, 3), row("c", 3, 2), row("d", 4, 4)]
"""Of 6 pairs 5 are concordant and 1 (b, c) is not: τ = 4/6."""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the task over rows; keys of the task may be given."""
    return partial(run_rated, tmp_path)


def value(task_run: TaskRun, statistic: str = "kendall_b", metric: str = "length") -> float | None:
    (result,) = (r for r in task_run.results if (r.metric, r.statistic) == (metric, statistic))
    return result.value


def failures(task_run: TaskRun) -> dict[str, list[str]]:
    """Return "stage reason" to the samples that failed for it."""
    return {f"{f['stage']} {f['reason']}": f["samples"] for f in task_run.record.failures}


def scored(task_run: TaskRun) -> list[str]:
    table = task_run.samples.to_pylist()
    return [sample["id"] for sample in table if sample["length"] is not None]


def test_tau_of_four_captions_is_that_computed_by_hand(run):
    done = run(FOUR)
    assert value(done) == pytest.approx(4 / 6)
    # No ties, 4 levels: τ-c = 2·4·(5-1) / (16·3).
    assert value(done, "kendall_c") == pytest.approx(2 * 4 * 4 / (16 * 3))
    assert [(result.n, result.interval) for result in done.results] == [(4, None)] * 2
    assert set(done.samples.column_names) - {"length"} <= set(COLUMNS)


# --- raters

# Raters gave a: 1, 2; b: 2, 2; c: 3, 1; lengths are 1, 2, 3.
TWO_RATERS = [row("a", 1, [1, 2]), row("b", 2, [2, 2]), row("c", 3, [3, 1])]


@pytest.mark.parametrize(
    ("raters", "tau", "n"),
    [
        # 6 rows, 15 pairs; 3 tie in length. Ratings a 1,2  b 2,2  c 3,1:
        #   a-b: 1<2 twice concordant, 2=2 twice tied; a-c: (1,3)+ (1,1)= (2,3)+ (2,1)-; b-c: (2,3)+ (2,1)- twice.
        # Concordant 2+2+2 = 6, discordant 1+2 = 3. Ties of ratings: two 1s, three 2s, one 3 = 1 + 3 pairs.
        ("flatten", 3 / math.sqrt((15 - 3) * (15 - 4)), 6),
        # Means 1.5, 2, 2: 2 concordant pairs of 3, 1 tied in rating.
        ("mean", 2 / math.sqrt(3 * 2), 3),
        # Rater 1: 1, 2, 3: τ-b 1. Rater 2: 2, 2, 1: 2 discordant of 3 pairs, 1 tied.
        ("per_rater_mean", (1 - 2 / math.sqrt(3 * 2)) / 2, 6),
    ],
)
def test_ratings_are_rows_of_their_own_or_averaged_or_one_tau_a_rater(run, raters: str, tau: float, n: int):
    done = run(TWO_RATERS, protocol={"raters": raters})
    assert (value(done), done.results[0].n) == (pytest.approx(tau), n)


def test_rater_who_skipped_a_caption_does_not_pass_on_the_place_to_the_next(run):
    # Rater 1 rates a, b, d upwards (τ 1), rater 2 rates a, b, c, d downwards (τ -1). Were the null of c
    # dropped, rater 2's 2 would count as rater 1's.
    rows = [row("a", 1, [1, 4]), row("b", 2, [2, 3]), row("c", 3, [None, 2]), row("d", 4, [3, 1])]
    done = run(rows, protocol={"raters": "per_rater_mean"})
    assert value(done) == pytest.approx(0)
    assert done.results[0].n == 7
    assert done.samples.to_pylist()[2]["ratings"] == [None, 2]


@pytest.mark.parametrize("raters", ["flatten", "mean"])
def test_skipped_ratings_are_left_out_where_raters_are_not_told_apart(run, raters: str):
    rows = [row("a", 1, [1, None]), row("b", 2, [None, 2]), row("c", 3, [3])]
    done = run(rows, protocol={"raters": raters})
    assert value(done) == pytest.approx(1)
    assert done.results[0].n == 3
    assert failures(done) == {}


# --- ratings


def test_ratings_outside_the_range_of_the_scale_are_left_out_and_the_others_become_0_to_1(run):
    rows = [*FOUR, row("low", 5, 0), row("high", 6, [4, 5.5])]
    done = run(rows, protocol={"human_range": [1, 5]})
    assert failures(done) == {"rating lies outside 1-5: 0": ["low"], "rating lies outside 1-5: 5.5": ["high"]}
    assert [row["ratings"] for row in done.samples.to_pylist()[:4]] == [[0], [0.5], [0.25], [0.75]]
    assert value(done) == pytest.approx(4 / 6)


BAD_RATINGS = yaml.safe_load(Path(__file__).with_name("bad_ratings.yaml").read_text(encoding="utf-8"))


def test_rating_that_is_no_number_or_beyond_what_can_be_computed_with_is_a_failure_of_its_row(run):
    ratings = [*(text for text, _ in BAD_RATINGS), "1" + "0" * 400]
    bad = [json.dumps(row(f"bad{n}", 5, "RATINGS")).replace('"RATINGS"', text) for n, text in enumerate(ratings)]
    done = run([*FOUR, *bad], protocol={"raters": "mean"})
    reason_of = {sample: reason for reason, samples in failures(done).items() for sample in samples}
    assert reason_of.pop(f"bad{len(BAD_RATINGS)}").startswith("rating is not a number: 1000")
    assert reason_of == {f"bad{n}": f"rating {reason}" for n, (_, reason) in enumerate(BAD_RATINGS)}
    assert value(done) == pytest.approx(4 / 6)


def test_scores_are_rounded_before_they_are_held_against_ratings(run):
    # ROUGE-L against "a reference" is 1, 2.44·⅔ / (1 + 1.44·⅔) = 0.83, and 0.
    texts = ("a reference", "a reference here", "nothing")
    rows = [row(text, 1, rating, candidate=text) for text, rating in zip(texts, (2, 3, 1), strict=True)]
    assert value(run(rows, metric_list=["rouge_l"]), metric="rouge_l") == pytest.approx(1 / 3)
    rounded = run(rows, metric_list=["rouge_l"], protocol={"round_scores": 0})
    # Now two are equal: of 3 pairs 2 are concordant and 1 is a tie of the scores.
    assert value(rounded, metric="rouge_l") == pytest.approx(2 / math.sqrt(2 * 3))
    assert rounded.samples["rouge_l"].to_pylist()[1] == pytest.approx(2.44 * 2 / 3 / (1 + 1.44 * 2 / 3))


def test_only_the_first_references_count_where_the_task_says_so(run):
    rows = [row(name, 2, 1, candidate="a dog", references=["a cat", "a dog"]) for name in "ab"]
    done = run(rows, metric_list=["rouge_l"], protocol={"first_references": 1})
    assert done.samples["references"].to_pylist() == [["a cat"]] * 2
    assert done.samples["rouge_l"].to_pylist() == [0.5, 0.5]


def test_statistic_that_returns_nan_or_raises_costs_its_own_cell(run, monkeypatch: pytest.MonkeyPatch):
    class NotANumber(Statistic):
        """Never a number."""

        label = "NaN"

        def value(self, rated: RatedScores, weights: np.ndarray) -> float:
            return math.nan

    class Fragile(NotANumber):
        """Raises."""

        def value(self, rated: RatedScores, weights: np.ndarray) -> float:
            raise ZeroDivisionError("no rater left")

    reasons = {
        "not_a_number": "the statistic returned no finite number",
        "fragile": "the statistic raised ZeroDivisionError: no rater left",
    }
    monkeypatch.setattr(statistics, "_entries", dict(statistics._entries))
    statistics.add("not_a_number", NotANumber)
    statistics.add("fragile", Fragile)
    done = run(FOUR, {"resamples": 10}, statistics=["kendall_b", *reasons])
    assert value(done) == pytest.approx(4 / 6)
    for name, reason in reasons.items():
        result = done.record.results[f"length.{name}"]
        assert (result.value, result.reason) == (None, reason)


def test_intervals_and_letters_can_come_of_influence_functions_and_the_record_says_so(run):
    rows = [
        row(f"{n}", n % 7 + 1, n % 7 + (n * 5) % 3, image=f"{n // 3}.jpg", references=[words(n % 4 + 1)])
        for n in range(90)
    ]
    keys = {"metric_list": ["length", "rouge_l"], "statistics": ["kendall_b", "sample_kendall"]}
    by_resamples = run(rows, {"resamples": 400}, **keys)
    done = run(rows, {"resamples": 400, "intervals": "influence"}, **keys)
    for result, other in zip(done.results, by_resamples.results, strict=True):
        assert result.value == other.value
        assert result.interval.method == "influence" and other.interval.method == "bootstrap"
        assert result.interval.stderr == pytest.approx(other.interval.stderr, rel=0.3)
    assert {entry["method"] for entry in done.record.values["intervals"].values()} == {"influence"}
    assert not any("method" in entry for entry in by_resamples.record.values["intervals"].values())
    assert done.record.results["length.kendall_b"].interval == done.results[0].interval
    assert done.record.significance["kendall_b"].groups == by_resamples.record.significance["kendall_b"].groups
    assert done.record.fingerprint != by_resamples.record.fingerprint


# --- candidates, references, ids


NO_CAPTIONS = [
    (None, "is null"),
    ("", "is empty"),
    (" \n\u00a0\u2003", "is empty"),
    ("?!…", "has no letter or digit"),
    ("a dog \ud83d", "is not valid UTF-8"),
    (7, "is not text but int"),
    (["a dog"], "is not text but list"),
]


def test_candidate_that_is_no_caption_counts_as_an_empty_one_or_is_left_out(run):
    rows = [*FOUR, *(row(f"bad{n}", 5, 1, candidate=candidate) for n, (candidate, _) in enumerate(NO_CAPTIONS))]
    reasons: dict[str, list[str]] = {}
    for n, (_, reason) in enumerate(NO_CAPTIONS):
        reasons.setdefault(f"candidate {reason}", []).append(f"bad{n}")
    done = run(rows)
    assert failures(done) == {}
    assert {f"{entry['stage']} {entry['reason']}": entry["samples"] for entry in done.record.empty_captions} == reasons
    assert done.samples["candidate"].to_pylist()[4:] == [""] * 7
    # Seven of length 0 and rating 1: b, c and d are above each of them, a ties in rating; 21 and 7 of 55 pairs tie.
    assert value(done) == pytest.approx((26 - 1) / math.sqrt((55 - 21) * (55 - 28)))

    done = run(rows, protocol={"empty_caption": "leave_out"})
    assert done.record.empty_captions == []
    assert failures(done) == reasons
    assert scored(done) == ["a", "b", "c", "d"]
    assert value(done) == pytest.approx(4 / 6)
    assert done.record.documents.to_json() == {"original": 11, "effective": 4}


def test_nothing_that_can_be_scored_is_an_error_that_names_the_first_rows(run):
    with pytest.raises(DataError, match="no rated caption can be scored") as caught:
        run([row("a", 1, None), row("b", 0, 2)])
    assert caught.value.hint == "a: rating is missing; b: candidate is empty"


# --- captions that are references themselves

# Of image x, the rated caption "Two words" (a) is a reference of both captions, "two words." only by letters.
X = {"image": "x.jpg", "references": ["Two words", "another one"]}
WITH_REFERENCE = [
    row("a", 2, 1, candidate="Two words", **X),
    row("b", 3, 2, **X),
    row("c", 2, 3, candidate="two words.", **X),
    row("other", 4, 4, candidate="Two words and more", references=["Two words"]),
]


def references_of(task_run: TaskRun) -> dict[str, list[str]]:
    return {s["id"]: s["references"] for s in task_run.samples.to_pylist() if s["references"] is not None}


@pytest.mark.parametrize("rule", ["drop_pair", "drop_for_image", "drop_cumulative"])
def test_caption_that_says_nothing_is_no_reference_that_says_nothing(run, rule: str):
    rows = [*FOUR, row("empty", 2, 2, candidate="!", references=["一只狗", "a reference"])]
    done = run(rows, protocol={"rated_reference": rule, "reference_match": "letters_and_digits"})
    table = {sample["id"]: sample for sample in done.samples.to_pylist()}
    assert table["empty"]["candidate"] == ""
    assert table["empty"]["references"] == ["一只狗", "a reference"]
    assert done.record.ruled_out == 0


@pytest.mark.parametrize("rule", ["drop_pair", "drop_for_image", "drop_cumulative"])
@pytest.mark.parametrize(
    ("candidate", "others"),
    [("一只狗", ["两只猫", "三只鸟"]), ("собака 1", ["кошка 1", "птица 1"]), ("की", ["का", "के"])],
)
def test_letters_and_digits_are_those_of_every_script(run, rule: str, candidate: str, others: list[str]):
    protocol = {"rated_reference": rule, "reference_match": "letters_and_digits"}
    other = run([*FOUR, row("x", 2, 2, candidate=candidate, references=others)], protocol=protocol)
    assert references_of(other)["x"] == others
    same = run([*FOUR, row("x", 2, 2, candidate=candidate, references=[candidate + "!"])], protocol=protocol)
    assert "x" not in references_of(same)


@pytest.mark.parametrize(
    ("protocol", "left"),
    [
        ({"rated_reference": "keep"}, ["a", "b", "c", "other"]),
        ({"rated_reference": "drop_pair"}, ["b", "c", "other"]),
        ({"rated_reference": "drop_pair", "reference_match": "letters_and_digits"}, ["b", "other"]),
    ],
)
def test_caption_that_is_its_own_reference_stays_or_is_left_out(run, protocol: dict[str, str], left: list[str]):
    done = run(WITH_REFERENCE, protocol=protocol)
    assert scored(done) == left
    assert done.record.ruled_out == 4 - len(left)
    assert references_of(done)["b"] == ["Two words", "another one"]


def test_caption_that_is_left_without_references_is_a_failure(run):
    rows = [*FOUR, row("only", 2, 1, candidate="a reference")]
    done = run(rows, protocol={"rated_reference": "drop_for_image"})
    assert failures(done) == {"reference none is left once the rated captions are removed": ["only"]}
    assert done.record.ruled_out == 0
    assert value(done) == pytest.approx(4 / 6)


def test_references_that_a_csv_cell_holds_as_json_are_a_list(run):
    references = ["a reference", "another one"]
    done = run([*FOUR, row("x", 2, 2, references=json.dumps(references))])
    assert references_of(done)["x"] == references


# --- items, checks, strict


def test_limit_takes_the_first_documents_and_skips_the_checks(run):
    done = run(FOUR, {"limit": 2}, checks={"rows": 99})
    assert scored(done) == ["a", "b"]
    assert done.record.data_checks == []
    assert done.record.documents.to_json() == {"original": 4, "effective": 2}


def test_strict_stops_with_exit_code_1_naming_the_row(tmp_path, capsys: pytest.CaptureFixture[str]):
    write_rated(tmp_path, [*FOUR, row("bad", 5, "good")])
    out = tmp_path / "runs"
    arguments = ["run", "--task", "rated", "--include_path", str(tmp_path), "--output_path", str(out)]
    assert main([*arguments, "--strict"]) == 1
    message = capsys.readouterr().err
    assert "bench: error: bad: rating is not a number: 'good'" in message
    assert "Without --strict such samples are excluded and counted." in message
    assert not list(out.rglob("run.json"))
    assert main(arguments) == 0


@pytest.mark.parametrize(
    ("rule", "remaining"), [("drop_for_image", ["a bird"]), ("drop_cumulative", ["a dog", "a bird"])]
)
def test_of_two_equal_references_a_cumulative_rule_leaves_one(run, rule, remaining):
    references = ["a dog", "a dog", "a bird"]
    rows = [
        row(text, 2, rating, image="1.jpg", candidate=text, references=references)
        for rating, text in enumerate(["a dog", "a cat", "a red bus"])
    ]
    done = run(rows, protocol={"rated_reference": rule})
    assert [list(texts) for texts in done.samples.to_pandas()["references"]] == [remaining] * 3


def test_fingerprint_tells_boxes_and_spans_apart(run, tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"frames")

    def of(key: str, value: Any) -> str:
        rows = [{**FOUR[0], "image": "a.mp4", "view": value}, *FOUR[1:3]]
        rows[1:] = [{**row, "view": value} for row in rows[1:]]
        return run(rows, **{key: "view"}).record.data_hash

    assert of("doc_to_boxes", [[0, 0, 5, 5]]) != of("doc_to_boxes", [[0, 0, 5, 6]])
    assert of("doc_to_boxes", [[0, 0, 5, 5]]) == of("doc_to_boxes", [[0, 0, 5.0, 5]])
    assert of("doc_to_span", [0, 5, 10]) != of("doc_to_span", [0, 5.0000001, 10])
    assert of("doc_to_span", [0, 5, 10]) == of("doc_to_span", [0, 5.0, 10])
