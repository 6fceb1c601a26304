"""Answers on the disk: each at once, none twice, none half."""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rated_session import SYSTEMS, make_session, rate_all

from capbench.benchmarks.rate.questions import questions_of, read_questions
from capbench.benchmarks.rate.report import AnswerCounts, Figure, alpha, equal_share, figures, report
from capbench.benchmarks.rate.session import Answer, Key, RatingQueue, Session, read_session
from capbench.benchmarks.statistics.contract import Interval
from capbench.errors import DataError, UsageError

SCALES = ["precision=1-5", "recall=0-3"]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path, aspects=SCALES)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw fewer resamples, where intervals need no digits."""
    monkeypatch.setattr("capbench.benchmarks.rate.report.RESAMPLES", 100)


def file_of(session: Session, rater: str = "ann") -> Path:
    return session.folder / "answers" / f"{rater}.jsonl"


def rows(session: Session, rater: str = "ann") -> list[dict[str, Any]]:
    return [json.loads(line) for line in file_of(session, rater).read_text().splitlines()]


def test_an_answer_is_on_the_disk_before_its_giver_is_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[tuple[int, int]] = []
    fsync = os.fsync

    def watched(number: int) -> None:
        fsync(number)
        stat = os.fstat(number)
        flushed.append((stat.st_ino, stat.st_size))

    monkeypatch.setattr(os, "fsync", watched)
    desk = RatingQueue(session)
    for number in range(3):
        flushed.clear()
        assert desk.answer("ann", number, {"precision": 4, "recall": 0})
        stat = file_of(session).stat()
        assert (stat.st_ino, stat.st_size) in flushed
        # The first answer makes the file, so the folder's list must be there, too.
        assert (file_of(session).parent.stat().st_ino in {inode for inode, _ in flushed}) == (number == 0)


def test_rows_say_what_was_answered_of_which_caption(session: Session) -> None:
    desk = rate_all(session, "ann", [{"precision": 4, "recall": 0}])
    assert len(rows(session)) == 12
    assert {(row["id"], row["system"]) for row in rows(session)} == {
        (f"row {row}", system) for row in range(6) for system in SYSTEMS
    }
    assert all(row["answer"] == {"precision": 4, "recall": 0} for row in rows(session))
    assert all(row["at"].endswith("Z") for row in rows(session))
    place = desk.place("ann")
    assert (place.step, place.number, place.total) == (None, 12, 12)
    assert not desk.answer("ann", 12, {"precision": 4, "recall": 0})


def test_undo_takes_back_one_after_the_other_and_nothing_is_lost(session: Session) -> None:
    desk = RatingQueue(session)
    desk.undo("ann")
    assert not file_of(session).exists()
    for number in range(3):
        desk.answer("ann", number, {"precision": number + 1, "recall": 0})
        assert desk.place("ann").number == number + 1
    asked = [desk.place("ann").step]
    for _ in range(2):
        desk.undo("ann")
        asked.append(desk.place("ann").step)
    assert desk.place("ann").number == 1
    desk.answer("ann", 1, {"precision": 5, "recall": 3})
    assert desk.place("ann").step == asked[1]
    again = RatingQueue(read_session(session.folder))
    assert again.place("ann") == desk.place("ann")
    assert [answer["precision"] for answer in session.answers("ann").current.values()] == [1, 5]  # type: ignore[index]
    assert [row.get("undo") for row in rows(session)] == [None, None, None, True, True, None]


def test_raters_do_not_see_each_other(session: Session) -> None:
    rate_all(session, "ann", [{"precision": 4, "recall": 0}])
    desk = RatingQueue(read_session(session.folder))
    assert desk.place("bob").number == 0
    desk.answer("bob", 0, {"precision": 1, "recall": 1})
    assert desk.raters() == [("ann", 12), ("bob", 1)]
    assert len(rows(session)) == 12


def test_a_line_that_was_not_finished_is_asked_again(session: Session) -> None:
    desk = RatingQueue(session)
    for number in range(2):
        desk.answer("ann", number, {"precision": 4, "recall": 0})
    whole = file_of(session).read_bytes()
    file_of(session).write_bytes(whole[:-10])
    desk = RatingQueue(session)
    assert desk.place("ann").number == 1
    # Reading alone leaves the file to whoever writes it.
    assert file_of(session).read_bytes() == whole[:-10]
    desk.answer("ann", 1, {"precision": 2, "recall": 2})
    assert [row["answer"]["precision"] for row in rows(session)] == [4, 2]


ANSWER = '{"id": "row 1", "system": "secret-model-a", '


OF_SCALES, OF_CHOICES = {"aspects": SCALES}, {"better": "Which?"}


@pytest.mark.parametrize(("asked", "row"), [
    (OF_SCALES, "{"), (OF_SCALES, "[]"),
    (OF_SCALES, ANSWER.replace("1", "99") + '"answer": {"precision": 1, "recall": 1}}'),
    (OF_SCALES, '{"id": "row 1", "system": "another", "answer": {"precision": 1, "recall": 1}}'),
    (OF_SCALES, '{"id": "row 1", "answer": {"precision": 1, "recall": 1}}'), (OF_SCALES, ANSWER + '"at": ""}'),
    (OF_SCALES, ANSWER + '"answer": {"precision": 1}}'),
    (OF_SCALES, ANSWER + '"answer": {"precision": 6, "recall": 1}}'),
    (OF_SCALES, ANSWER + '"answer": {"precision": true, "recall": 1}}'), (OF_SCALES, ANSWER + '"answer": "tie"}'),
    (OF_SCALES, ANSWER + '"undo": true}'), (OF_CHOICES, '{"id": "row 1", "answer": 2}'),
    (OF_CHOICES, '{"id": "row 1", "answer": -1}'), (OF_CHOICES, '{"id": "row 1", "answer": true}'),
    (OF_CHOICES, ANSWER + '"answer": 1}'), (OF_CHOICES, '{"id": "row 1", "answer": 1}\n{"id": "row 1", "answer": 0}'),
    (OF_CHOICES, '{"id": "row 1", "answer": 1}\n{"id": "row 2", "undo": true}'),
])  # fmt: skip
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, asked: dict[str, Any], row: str) -> None:
    session = make_session(tmp_path, **asked)
    file_of(session).write_text(row + "\n")
    with pytest.raises(DataError, match=f"ann.jsonl:{len(row.splitlines())}: is no answer to an open question"):
        session.answers("ann")


# -- What raters are asked, as a command line or a file says it


@pytest.mark.parametrize(("aspects", "better", "said"), [
    (["precision"], "", "expected NAME=LOW-HIGH"),
    (["p=1-5: a | b | c"], "", "has 3 labels (separated by |) for 5 scores"),
    (["p=1-10"], "", "from 0 to 9, the lower one first"), (["p=5-1"], "", "from 0 to 9, the lower one first"),
    (["p=1-1"], "", "from 0 to 9, the lower one first"), (["p q=1-5"], "", "use ASCII letters, digits and _"),
    (["p=1-5", "p=1-5"], "", "is used twice"), (["p=1-5"], "Which?", "exactly one of"), ([], "", "exactly one of"),
])  # fmt: skip
def test_what_is_no_question_is_refused(aspects: list[str], better: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        questions_of(aspects, better)


def test_a_file_of_questions_is_read_and_its_faults_have_a_line(tmp_path: Path) -> None:
    file = tmp_path / "q.yaml"
    file.write_text(
        "instructions: Look closely.\naspects:\n  recall:\n    question: Is all told?\n    ends: [1, 3]\n"
        "    words: {1: nothing, 2: half, 3: all}\n"
    )
    asked = read_questions(file)
    assert asked.instructions == "Look closely."
    assert asked.aspects["recall"].question == "Is all told?"
    assert asked.aspects["recall"].words[2] == "half"
    file.write_text("aspects:\n  recall: {ends: [1, 3], words: {4: all}}\n")
    with pytest.raises(UsageError, match=r"q\.yaml:2: .*from 1 to 3, not 4"):
        read_questions(file)
    file.write_text("better: Which?\nquestion: no\n")
    with pytest.raises(UsageError, match=r"q\.yaml:2: unknown key 'question'"):
        read_questions(file)


# -- How far raters agree, what they think of each system, and what a narrower interval needs


# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, C: four observers, twelve units.
OBSERVERS: list[list[int | None]] = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def answered(level: Any) -> AnswerCounts:
    counts = [[of_unit.count(value) for value in range(1, 6)] for of_unit in zip(*OBSERVERS, strict=True)]
    return AnswerCounts(np.array(counts), np.arange(12), level)


@pytest.mark.parametrize(("level", "printed"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_alpha_is_that_of_krippendorffs_example(level: str, printed: float) -> None:
    assert alpha(answered(level), np.ones(12)) == pytest.approx(printed, abs=5e-4)


def test_weights_are_units_that_count_several_times() -> None:
    answers = answered("ordinal")
    weights = np.array([2, 0, 1, 1, 3, 1, 1, 1, 1, 1, 1, 1])
    repeated = np.repeat(np.arange(12), weights)
    other = AnswerCounts(answers.counts[repeated], np.arange(len(repeated)), "ordinal")
    assert alpha(answers, weights) == pytest.approx(alpha(other, np.ones(len(repeated))), abs=1e-12)
    assert equal_share(answers, weights) == equal_share(other, np.ones(len(repeated)))


def test_pairs_of_answers_are_counted() -> None:
    # Of three answers 1, 1, 3 one pair of three is equal, of 2, 3 none; a single answer has no pair.
    counts = np.array([[2, 0, 1], [0, 1, 1], [1, 0, 0]])
    answers = AnswerCounts(counts, np.arange(3), "ordinal")
    assert equal_share(answers, np.ones(3)) == 1 / 4
    assert equal_share(answers, np.ones(3), within=1) == 2 / 4
    assert equal_share(answers, np.ones(3), within=2) == 1
    assert equal_share(answers, np.array([0, 3, 0]), within=1) == 1


def test_a_narrower_interval_needs_images_by_the_square() -> None:
    interval = Interval(0.4, 0.6, 0.05, 1000)
    figure = Figure("share", "", 0.5, interval, 100, 250)
    # ±0.1 now: for ±0.05 four times as many images, each with 2.5 answers.
    assert figure.more(0.05) == (300, 750)
    assert figure.more(0.1) == (0, 0)
    assert figure.more(0.2) == (0, 0)
    # Of a scale of four steps ±0.4 points are ±0.1.
    assert Figure("mean", "p", 3.0, Interval(2.6, 3.4, 0.2, 1000), 100, 100, 4.0).more(0.05) == (300, 300)
    assert Figure("share", "", 0.5, None, 100, 100).more(0.05) is None
    assert Figure("share", "", 0.5, Interval(None, None, None, 0, "why"), 1, 1).more(0.05) is None
    assert Figure("share", "", 1.0, Interval(1.0, 1.0, 0.0, 1000), 9, 9).more(0.05) is None


def scales(session: Session, of_raters: dict[str, dict[int, tuple[int, int]]]) -> dict[str, dict[Key, Answer]]:
    """Return answers: of each rater and image the numbers of both systems."""
    return {
        rater: {
            (session.items[row].id, system): {"quality": number}
            for row, numbers in ratings.items()
            for system, number in enumerate(numbers)
        }
        for rater, ratings in of_raters.items()
    }


@pytest.mark.usefixtures("few_resamples")
def test_figures_of_scales_are_by_image(tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=4, aspects=["quality=1-5"])
    answers = scales(session, {"ann": {0: (5, 1), 1: (4, 2), 2: (5, 3)}, "bob": {0: (5, 2), 1: (2, 2)}})
    figure_of = {figure.name: figure for figure in figures(session, answers)}
    # Pairs of ann and bob: 5-5, 1-2, 4-2, 2-2.
    assert figure_of["equal pairs"].value == 2 / 4
    assert figure_of["pairs within 1"].value == 3 / 4
    assert (figure_of["equal pairs"].images, figure_of["equal pairs"].answers) == (2, 8)
    # What the package krippendorff 0.9.0 gives for 5 5, 1 2, 2 4, 2 2.
    assert figure_of["alpha (ordinal)"].value == pytest.approx(0.7003424657534246, abs=1e-12)
    # The mean of images, of each the mean of its raters: 5, 3, 5.
    first = figure_of["mean of secret-model-a"]
    assert first.value == pytest.approx(13 / 3)
    assert (first.images, first.answers, first.span, first.of) == (3, 5, 4.0, "quality")
    assert 3 <= first.interval.low < 13 / 3 < (first.interval.high or 0) <= 5
    assert figure_of["mean of secret-model-b"].value == pytest.approx((1.5 + 2 + 3) / 3)


@pytest.mark.usefixtures("few_resamples")
def test_figures_of_choices_share_ties_out_and_leave_out_what_cannot_be_told(tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=4, better="?")
    ids = [item.id for item in session.items]
    answers: dict[str, dict[Key, Answer]] = {
        "ann": {(ids[0], None): 0, (ids[1], None): "tie", (ids[2], None): 1, (ids[3], None): None},
        "bob": {(ids[0], None): 0, (ids[1], None): 1, (ids[2], None): None},
    }
    figure_of = {figure.name: figure for figure in figures(session, answers)}
    assert figure_of["equal pairs"].value == 1 / 2
    assert "pairs within 1" not in figure_of
    # As the package krippendorff 0.9.0 has it.
    assert figure_of["alpha (nominal)"].value == pytest.approx(0.3999999999999999, abs=1e-12)
    assert figure_of["share for secret-model-a"].value == pytest.approx((1 + 0.25 + 0) / 3)
    assert figure_of["share for secret-model-b"].value == pytest.approx((0 + 0.75 + 1) / 3)
    assert (figure_of["share for secret-model-a"].images, figure_of["share for secret-model-a"].answers) == (3, 5)


EQUAL = {system: [f"{'picture' if row % 2 else system} {row}" for row in range(20)] for system in ("a", "b")}
"""Captions of two systems, which are equal for every second image."""


@pytest.mark.usefixtures("few_resamples")
def test_equal_captions_count_as_no_difference_and_say_nothing_of_raters(tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=20, captions=EQUAL, better="?")
    for rater in ("ann", "bob"):
        rate_all(session, rater, [0])
    answers = {rater: session.answers(rater).current for rater in session.raters()}
    figure_of = {figure.name: figure for figure in figures(session, answers)}
    assert figure_of["share for a"].value == (10 * 1 + 10 * 0.5) / 20
    assert figure_of["share for b"].value == 10 * 0.5 / 20
    assert figure_of["share for a"].images == 20
    assert figure_of["equal pairs"].images == 10
    assert figure_of["alpha (nominal)"].reason == "all answers are equal"
    said = report(session, answers, 0.05, "github")
    assert "20 answers by 2 raters; 10 answers per rater (20 images)" in said
    assert "; 10 images with equal captions of all systems count as no difference" in said


@pytest.mark.usefixtures("few_resamples")
def test_of_equal_captions_those_count_that_a_rater_has_come_to(tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=20, captions=EQUAL, better="?")
    desk = RatingQueue(session)
    for number in range(3):
        assert desk.answer("ann", number, 0)
    met = "".join("=" if len(step.shown) == 1 else "?" for step in session.steps("ann"))
    ahead = met.replace("?", "!", 3).index("?")
    equal = met[:ahead].count("=")
    assert 0 < equal < 10
    (share, _) = [
        figure for figure in figures(session, {"ann": session.answers("ann").current}) if "share" in figure.name
    ]
    assert (share.images, share.value) == (3 + equal, pytest.approx((3 + 0.5 * equal) / (3 + equal)))
    for _ in range(3):
        desk.undo("ann")
    assert session.decided("ann", session.answers("ann").current) == {}


@pytest.mark.usefixtures("few_resamples")
def test_votes_for_equal_captions_are_shared_out_among_their_systems(tmp_path: Path) -> None:
    session = make_session(tmp_path, rows=1, captions={"a": ["dog"], "b": ["fox"], "c": ["dog"]}, better="?")
    for answer, expected in ((0, [0.5, 0, 0.5]), (1, [0, 1, 0]), ("tie", [1 / 3] * 3)):
        drawn = figures(session, {"ann": {("row 0", None): answer}})
        shares = [figure.value for figure in drawn if figure.name.startswith("share for")]
        assert shares == pytest.approx(expected)


def test_intervals_draw_images_and_not_captions(tmp_path: Path) -> None:
    # Both captions of an image are answered alike: as many images as there are, not twice as many.
    session = make_session(tmp_path, rows=12, aspects=["quality=1-5"])
    answers = scales(session, {
        "ann": {row: (1 + row % 5,) * 2 for row in range(12)},
        "bob": {row: (1 + (row + row % 2) % 5,) * 2 for row in range(12)},
    })  # fmt: skip
    figure_of = {figure.name: figure for figure in figures(session, answers)}
    equal = figure_of["equal pairs"]
    assert (equal.value, equal.images, equal.answers) == (0.5, 12, 48)
    # Of 12 images, half of which agree: sqrt(0.5 * 0.5 / 12).
    assert equal.interval.stderr == pytest.approx(math.sqrt(0.25 / 12), rel=0.1)


@pytest.mark.usefixtures("few_resamples")
def test_one_rater_alone_agrees_with_nobody_and_the_report_says_so(tmp_path: Path) -> None:
    session = make_session(tmp_path, aspects=["quality=1-5"])
    answers = scales(session, {"ann": {0: (5, 1), 1: (4, 2)}})
    text = report(session, answers, 0.05, "github")
    assert "4 answers by 1 rater; 12 answers per rater (6 images)" in text
    assert "alpha (ordinal) quality, equal pairs quality, pairs within 1 quality: no caption or choice" in text
    assert "mean of secret-model-a | quality" in text
    assert "more images" in text
    assert "0.05 of the range of their scale" in text
    shown = json.loads(report(session, answers, 0.1, "json"))
    assert (shown["asked"], shown["raters"]) == (12, {"ann": 4})
    assert [figure["value"] for figure in shown["figures"]] == [None, None, None, 4.5, 1.5]
    assert shown["figures"][3]["reach"] == 0.1
    # Two images, 5 and 4: ±0.5 points now, ±0.125 of the range.
    assert shown["figures"][3]["more_images"] == math.ceil(2 * (0.125 / 0.1) ** 2) - 2
    lines = report(session, answers, 0.1, "csv").splitlines()
    assert lines[0].startswith("figure,of,value,low,high,images,answers,reach,more_images,more_answers,reason")
    assert len(lines) == 6


def test_report_counts_no_answers_and_those_that_cannot_be_told(tmp_path: Path) -> None:
    session = make_session(tmp_path, better="?")
    assert report(session, {}, 0.05, "github").endswith("0 answers by 0 raters; 6 answers per rater (6 images)")
    assert json.loads(report(session, {}, 0.05, "json")) == {
        "asked": 6, "raters": {}, "quality": {}, "figures": []
    }  # fmt: skip
    answers: dict[str, dict[Key, Answer]] = {"ann": {(item.id, None): None for item in session.items}}
    text = report(session, answers, 0.05, "github")
    assert "6 answers by 1 rater, 6 of them 'cannot tell' (not counted)" in text
    assert "share for secret-model-a, share for secret-model-b: no answers." in text
