"""The folder of a session: questions, items, images, and a file of answers per rater."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import threading
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from ...atomic_files import DRAFT, draft_beside, flush, put_in_place, remove_abandoned
from ...boundary import links_outside
from ...errors import DataError, UsageError, writing
from ...rows import parse_json
from ..inputs.failures import FailureLog
from ..inputs.task_images import Picture, picture_of
from .items import DESIGN, Design, RatedItem, Step, changed, design_text, in_order, read_design

ITEMS, IMAGES, ANSWERS = "items.jsonl", "images", "answers"
_LOCK = ".lock"
_MOST_OF_A_NAME = 40
TIE: Literal["tie"] = "tie"
Answer = Mapping[str, int] | int | Literal["tie"] | None
"""Scores by aspect; or the index of the better caption, a tie, or None for 'cannot tell'."""
Key = tuple[str, int | None]
"""Id of an item, and the index of the rated caption; None if all captions are on one page."""


@dataclass(frozen=True)
class Session:
    """A session in its folder.

    Attributes:
        folder: The folder.
        design: The design.
        items: The items.
    """

    folder: Path
    design: Design
    items: tuple[RatedItem, ...]

    @property
    def together(self) -> bool:
        """Whether the captions of an item are on one page."""
        return bool(self.design.questions.better)

    def key(self, step: Step) -> Key:
        """Return the key of answers to a step."""
        return self.items[step.item].id, None if self.together else step.shown[0]

    def is_answer(self, value: Any) -> bool:
        """Return whether a value is a valid answer."""
        if self.together:
            return value in (None, TIE) or (type(value) is int and 0 <= value < len(self.design.systems))
        aspects = self.design.questions.aspects
        return (
            isinstance(value, dict)
            and value.keys() == aspects.keys()
            and all(type(number) is int and number in aspects[name].numbers for name, number in value.items())
        )

    @property
    def wanted(self) -> int:
        """Number of answers per rater."""
        if self.together:
            return sum(item.has_choice for item in self.items)
        return len(self.items) * len(self.design.systems)

    def steps(self, rater: str) -> list[Step]:
        """Return all steps of a rater, in order; a step with a single caption to choose from has no page."""
        order: list[Step] = []
        seed = self.design.seed, rater
        for number in in_order([item.id for item in self.items], *seed, "items"):
            item = self.items[number]
            shown = in_order(self.design.systems, *seed, item.id)
            if self.together:
                order.append(Step(number, tuple(caption for caption in shown if caption in item.first_equal)))
            else:
                order += [Step(number, (caption,)) for caption in shown]
        return order

    def is_asked(self, step: Step) -> bool:
        """Return whether a step has a page; there is no choice if all captions are equal."""
        return not self.together or len(step.shown) > 1

    def decided(self, rater: str, answers: Mapping[Key, Answer]) -> dict[Key, Answer]:
        """Return a rater's choices, with ties for the steps without a page that the rater has passed."""
        complete, left = dict(answers), len(answers)
        for step in self.steps(rater) if answers else ():
            key = self.key(step)
            if not self.is_asked(step):
                complete[key] = TIE
            elif key in answers:
                left -= 1
            elif not left:
                break
        return complete

    def raters(self) -> list[str]:
        """Return the names of raters with answers, sorted."""
        return sorted(file.stem for file in (self.folder / ANSWERS).glob("*.jsonl"))

    def answers(self, rater: str) -> Answers:
        """Return the answers of a rater; empty for a new rater.

        Raises:
            DataError: The file has invalid answers.
        """
        return Answers.read(self.folder / ANSWERS / f"{rater}.jsonl", self)

    def picture(self, item: int) -> Picture | None:
        """Return the image of an item; None if the file is missing."""
        try:
            return picture_of((self.folder / IMAGES / self.items[item].picture).read_bytes())
        except OSError:
            return None


@dataclass
class Answers:
    """The answers of one rater, in their order.

    Attributes:
        path: Their file.
        session: Their session.
        current: The current answers, oldest first.
    """

    path: Path
    session: Session
    current: dict[Key, Answer] = field(default_factory=dict[Key, Answer])
    _size: int = 0

    @classmethod
    def read(cls, path: Path, session: Session) -> Answers:
        """Read the answers from disk; there may be none yet.

        An incomplete last line is ignored, as the rater got no confirmation for it.

        Raises:
            DataError: A line is not a valid answer.
        """
        log = cls(path, session)
        content = path.read_bytes() if path.exists() else b""
        ids = {item.id for item in session.items}
        *lines, rest = content.split(b"\n")
        log._size = len(content) - len(rest)
        for number, line in enumerate(lines, 1):
            if not log._take(line, ids):
                raise DataError(
                    f"{path}:{number}: is no answer to an open question of the session: {line[:100]!r}",
                    "It was edited, or is for other questions. Fix the line, or move the file out of the session.",
                )
        return log

    def _take(self, line: bytes, ids: set[str]) -> bool:
        """Take a line into account; return False if it is not valid."""
        try:
            row = parse_json(line.decode())
        except ValueError:
            return False
        systems = self.session.design.systems
        known = (None,) if self.session.together else systems
        if not isinstance(row, dict) or row.get("id") not in ids or row.get("system") not in known:
            return False
        key: Key = row["id"], None if self.session.together else systems.index(row["system"])
        if row.get("undo") is True and key == next(reversed(self.current), None):
            del self.current[key]
        elif "answer" in row and key not in self.current and self.session.is_answer(row["answer"]):
            self.current[key] = row["answer"]
        else:
            return False
        return True

    def add(self, step: Step, answer: Answer) -> None:
        """Save an answer durably.

        Raises:
            OSError: The answer could not be written; no part of it remains.
        """
        key = self.session.key(step)
        more = {"shown": list(step.shown)} if self.session.together else {}
        self._append(key, {"answer": answer, **more})
        self.current[key] = answer

    def undo(self) -> None:
        """Undo the last answer, if there is one.

        Raises:
            OSError: See :meth:`add`.
        """
        if not self.current:
            return
        key = next(reversed(self.current))
        self._append(key, {"undo": True})
        del self.current[key]

    def _append(self, key: Key, fields: Mapping[str, Any]) -> None:
        identity, number = key
        of = {"id": identity} if number is None else {"id": identity, "system": self.session.design.systems[number]}
        row = {**of, **fields, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        line = json.dumps(row, ensure_ascii=False) + "\n"
        content = line.encode("utf-8", "backslashreplace")
        is_new = not self.path.exists()
        with self.path.open("xb" if is_new else "r+b", buffering=0) as file:
            # Remove partial lines of killed processes and of failed writes.
            file.truncate(self._size)
            file.seek(self._size)
            try:
                if file.write(content) != len(content):
                    raise OSError(f"{self.path}: no space left for an answer")
                os.fsync(file.fileno())
            except OSError:
                file.truncate(self._size)
                raise
        self._size += len(content)
        if is_new:
            flush(self.path.parent)


def rater_name(text: str) -> str:
    """Return a name for files and URLs: lower case, words joined by ``-``; empty if invalid."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    name = re.sub(r"[^\w]+", "-", plain).strip("-_")
    return name if len(name) <= _MOST_OF_A_NAME else ""


def begin(
    folder: Path,
    design: Design,
    items: Sequence[RatedItem],
    picture_of_item: Callable[[RatedItem], Picture | None],
    failures: FailureLog,
) -> Session:
    """Write the folder of a new session atomically.

    Args:
        folder: A missing or empty folder.
        design: The design.
        items: The items; those without an image that browsers can show are excluded.
        picture_of_item: Returns the image of an item.
        failures: Log of excluded items.

    Raises:
        DataError: No item has an image, or none has captions to choose from.
        UsageError: The folder is not empty, or cannot be written.
    """
    draft = draft_beside(folder)
    with writing(f"--output {folder}", "Choose another folder."), ExitStack() as stack:
        stack.callback(shutil.rmtree, draft, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder.parent.glob(f"{DRAFT}*"))
        (draft / IMAGES).mkdir(parents=True)
        (draft / ANSWERS).mkdir()
        sampled: dict[int, RatedItem] = {}
        for number in in_order([item.id for item in items], design.seed, "sample"):
            picture = picture_of_item(items[number])
            if picture is None:
                failures.add(items[number].id, "image", "is not on this machine, or not in a format that browsers show")
            else:
                name = f"{hashlib.sha256(picture.content).hexdigest()}.{picture.ending}"
                (draft / IMAGES / name).write_bytes(picture.content)
                sampled[number] = items[number].model_copy(update={"picture": name})
            if len(sampled) == design.sample:
                break
        named = [sampled[number] for number in sorted(sampled)]
        if not named:
            raise DataError(
                f"task '{design.task}': no image found that browsers show (JPEG, PNG, GIF, WebP, BMP)",
                f"'bench data {design.task}' shows where the images belong.",
            )
        if design.questions.better and not any(item.has_choice for item in named):
            raise DataError(
                f"task '{design.task}': all systems have equal captions for each image, so there is no choice",
                "Give captions of other systems, or rate these on a scale (--aspect).",
            )
        lines = "".join(json.dumps(item.model_dump(), ensure_ascii=False) + "\n" for item in named).encode()
        (draft / ITEMS).write_bytes(lines)
        text = design_text(design, hashlib.sha256(lines).hexdigest())
        (draft / DESIGN).write_text(text, encoding="utf-8")
        put_in_place(draft, folder)
    return Session(folder, design, tuple(named))


def is_session(folder: Path) -> bool:
    """Return whether a folder has a session."""
    return (folder / DESIGN).is_file()


def read_session(folder: Path) -> Session:
    """Read the session in a folder.

    Raises:
        DataError: There is none, or its files were changed.
    """
    if links := list(links_outside(folder)):
        raise DataError(f"{links[0]}: links to a file outside of the session", "Replace the link with the file.")
    try:
        design, digest = read_design(folder / DESIGN)
        content = (folder / ITEMS).read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder}: contains no rating session ({error})",
            "'bench rate TASK --captions FILE ...' starts one; --output gives its folder.",
        ) from error
    try:
        items = tuple(map(RatedItem.model_validate_json, content.splitlines()))
    except ValidationError as error:
        raise changed(folder / ITEMS) from error
    of_systems = all(tuple(item.captions) == design.systems for item in items)
    if digest != hashlib.sha256(content).hexdigest() or not of_systems:
        raise changed(folder / ITEMS)
    return Session(folder, design, items)


def require_same(session: Session, settings: Mapping[str, Any]) -> None:
    """Raise if settings on the command line differ from the session.

    Args:
        session: The session.
        settings: Settings of the design from the command line.

    Raises:
        UsageError: A setting differs.
    """
    kept, wanted = session.design.to_json(), {**session.design.to_json(), **settings}
    differing = [name for name in kept if kept[name] != wanted[name]]
    if differing:
        raise UsageError(
            f"{session.folder}: the session in this folder has different {', '.join(differing)}",
            f"'bench rate {session.design.task}' resumes the session; --output names a folder for a new one.",
        )


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Lock the folder of a session, so that only one server writes answers.

    Raises:
        UsageError: Another process has the lock.
    """
    with (folder / _LOCK).open("a+", errors="replace") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read(200).strip() or "a new process"
            raise UsageError(
                f"{folder}: another 'bench rate' is serving this session ({holder})",
                "Open the URL of that server, or stop it first. --report works while it runs.",
            ) from error
        lock.truncate(0)
        lock.write(f"process {os.getpid()} of {os.uname().nodename}")
        lock.flush()
        yield


CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class Assignment:
    """Progress of a rater.

    Attributes:
        step: The current question; None if all are answered.
        number: Index of the current question, from 0.
        total: Number of questions.
    """

    step: Step | None
    number: int
    total: int


@dataclass
class RatingQueue:
    """Assigns questions to raters, and saves their answers.

    Attributes:
        session: The session; only this process writes to it.
    """

    session: Session
    _seats: dict[str, tuple[list[Step], Answers]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def raters(self) -> list[tuple[str, int]]:
        """Return raters and their numbers of answers."""
        with self._lock:
            return [(name, len(self._seat(name)[1].current)) for name in self.session.raters()]

    def place(self, rater: str) -> Assignment:
        """Return the progress of a rater."""
        with self._lock:
            asked, answers = self._seat(rater)
            # All earlier steps are answered, as answers are added and undone in order.
            number = len(answers.current)
            return Assignment(asked[number] if number < len(asked) else None, number, len(asked))

    def answer(self, rater: str, number: int, answer: Answer) -> bool:
        """Save an answer durably.

        Args:
            rater: The rater.
            number: Index of the question, from 0.
            answer: The answer; captions are given by index in the item.

        Returns:
            Whether it answers the current question; if a page is sent twice, the first answer is kept.

        Raises:
            OSError: The answer could not be written.
        """
        with self._lock:
            place = self.place(rater)
            if place.step is None or place.number != number:
                return False
            self._seat(rater)[1].add(place.step, answer)
            return True

    def undo(self, rater: str) -> None:
        """Undo a rater's last answer.

        Raises:
            OSError: The change could not be written.
        """
        with self._lock:
            self._seat(rater)[1].undo()

    def _seat(self, rater: str) -> tuple[list[Step], Answers]:
        if rater not in self._seats:
            in_turn = [step for step in self.session.steps(rater) if self.session.is_asked(step)]
            self._seats[rater] = in_turn, self.session.answers(rater)
        return self._seats[rater]


def answer_of(session: Session, step: Step, fields: Mapping[str, str]) -> Answer | ValueError:
    """Return the answer from a form, or an error for the rater.

    Args:
        session: The session.
        step: The question.
        fields: Fields of the form: ``choice``, or ``aspect0``, ``aspect1``, ....
    """
    questions = session.design.questions
    if questions.better:
        choice = fields.get("choice", "")
        if choice in (TIE, CANNOT_TELL):
            return TIE if choice == TIE else None
        if choice in map(str, range(len(step.shown))):
            return step.shown[int(choice)]
        return ValueError("Choose a caption or one of the other answers.")
    values = {name: fields.get(f"aspect{place}", "") for place, name in enumerate(questions.aspects)}
    for name, aspect in questions.aspects.items():
        if values[name] not in map(str, aspect.numbers):
            return ValueError(f"Choose a score for {spoken(name)}.")
    return {name: int(value) for name, value in values.items()}


def spoken(name: str) -> str:
    """Return the name of an aspect for pages."""
    return name.replace("_", " ")
