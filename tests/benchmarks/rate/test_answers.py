"""Answers on the disk: each at once, none twice, none half."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rated_session import SYSTEMS, make_session, rate_all

from capbench.benchmarks.rate import session as module
from capbench.benchmarks.rate.session import RatingQueue, Session, read_session
from capbench.errors import DataError

SCALES = ["precision=1-5", "recall=0-3"]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path, aspects=SCALES)


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


def test_a_choice_says_how_captions_stood(tmp_path: Path) -> None:
    session = make_session(tmp_path, better="Which?")
    rate_all(session, "ann", [0, 1, "tie", None])
    assert [row["answer"] for row in rows(session)] == [0, 1, "tie", None, 0, 1]
    assert all(sorted(row["shown"]) == [0, 1] for row in rows(session))
    assert all("system" not in row for row in rows(session))


def test_a_page_that_is_sent_twice_keeps_its_first_answer(session: Session) -> None:
    desk = RatingQueue(session)
    assert desk.answer("ann", 0, {"precision": 4, "recall": 0})
    assert not desk.answer("ann", 0, {"precision": 1, "recall": 1})
    assert [row["answer"]["precision"] for row in rows(session)] == [4]


def test_undo_takes_back_one_after_the_other_and_nothing_is_lost(session: Session) -> None:
    desk = RatingQueue(session)
    assert not desk.place("ann").can_undo
    desk.undo("ann")
    assert not file_of(session).exists()
    for number in range(3):
        desk.answer("ann", number, {"precision": number + 1, "recall": 0})
        assert desk.place("ann").can_undo
    asked = [desk.place("ann").step]
    for _ in range(2):
        desk.undo("ann")
        asked.append(desk.place("ann").step)
    assert desk.place("ann").number == 1
    desk.answer("ann", 1, {"precision": 5, "recall": 3})
    assert desk.place("ann").step == asked[1]
    again = RatingQueue(read_session(session.folder))
    assert again.place("ann") == desk.place("ann")
    assert [one["precision"] for one in session.answers("ann").given.values()] == [1, 5]  # type: ignore[index]
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


def test_an_answer_that_cannot_be_written_is_none(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = RatingQueue(session)
    desk.answer("ann", 0, {"precision": 4, "recall": 0})

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        desk.answer("ann", 1, {"precision": 1, "recall": 1})
    monkeypatch.undo()
    assert desk.place("ann").number == 1
    assert len(rows(session)) == 1
    desk.answer("ann", 1, {"precision": 2, "recall": 2})
    assert [row["answer"]["precision"] for row in rows(session)] == [4, 2]
    assert desk.place("ann") == RatingQueue(session).place("ann")


ANSWER = '{"id": "row 1", "system": "secret-model-a", '


OF_SCALES, OF_CHOICES = {"aspects": SCALES}, {"better": "Which?"}


@pytest.mark.parametrize(
    ("asked", "row", "said"),
    [
        (OF_SCALES, "{", "is no JSON"),
        (OF_SCALES, "[]", "names no item"),
        (OF_SCALES, ANSWER.replace("1", "99") + '"answer": {}}', "names no item"),
        (OF_SCALES, '{"id": "row 1", "system": "another", "answer": {}}', "names no system"),
        (OF_SCALES, '{"id": "row 1", "answer": {"precision": 1, "recall": 1}}', "names no system"),
        (OF_SCALES, ANSWER + '"at": ""}', "holds no answer"),
        (OF_SCALES, ANSWER + '"answer": {"precision": 1}}', "holds no answer"),
        (OF_SCALES, ANSWER + '"answer": {"precision": 6, "recall": 1}}', "holds no answer"),
        (OF_SCALES, ANSWER + '"answer": {"precision": true, "recall": 1}}', "holds no answer"),
        (OF_SCALES, ANSWER + '"answer": "tie"}', "holds no answer"),
        (OF_SCALES, ANSWER + '"undo": true}', "takes back what is not the last answer"),
        (OF_CHOICES, '{"id": "row 1", "answer": 2}', "holds no answer"),
        (OF_CHOICES, '{"id": "row 1", "answer": -1}', "holds no answer"),
        (OF_CHOICES, '{"id": "row 1", "answer": true}', "holds no answer"),
        (OF_CHOICES, ANSWER + '"answer": 1}', "names no system"),
        (OF_CHOICES, '{"id": "row 1", "answer": 1}\n{"id": "row 1", "answer": 0}', "is a second answer"),
        (OF_CHOICES, '{"id": "row 1", "answer": 1}\n{"id": "row 2", "undo": true}', "takes back what is not the last"),
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, asked: dict[str, Any], row: str, said: str) -> None:
    session = make_session(tmp_path, **asked)
    file_of(session).write_text(row + "\n")
    with pytest.raises(DataError, match=f"ann.jsonl:{len(row.splitlines())}: {said}"):
        session.answers("ann")
