"""The folder of a session: what is asked of which items, their images, and a file of answers for each rater."""

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
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ...atomic_files import DRAFT, draft_beside, flush, put_in_place, remove_abandoned
from ...boundary import links_outside
from ...errors import DataError, UsageError
from ...rows import parse_json
from ..inputs.failures import FailureLog
from ..inputs.task_images import Picture, picture_of
from .items import DESIGN, Design, RatedItem, Step, changed, design_text, in_order, items_of, read_design, steps

ITEMS, IMAGES, ANSWERS = "items.jsonl", "images", "answers"
_LOCK = ".lock"
_MOST_OF_A_NAME = 40
TIE: Literal["tie"] = "tie"
Answer = Mapping[str, int] | int | Literal["tie"] | None
"""Numbers by aspect; or the number of the better caption, a tie, or None for one that cannot be told."""
Key = tuple[str, int | None]
"""Id of an item, and the number of the caption that is rated by itself; None where all are."""


@dataclass(frozen=True)
class Session:
    """A session as it lies in its folder.

    Attributes:
        folder: The folder.
        design: What is asked.
        items: Of what.
    """

    folder: Path
    design: Design
    items: tuple[RatedItem, ...]

    @property
    def together(self) -> bool:
        """Whether the captions of an item are on one page."""
        return bool(self.design.questions.better)

    def key(self, step: Step) -> Key:
        """Return what an answer to a step is of."""
        return self.items[step.item].id, None if self.together else step.shown[0]

    def is_answer(self, value: Any) -> bool:
        """Tell whether a value answers what is asked."""
        if self.together:
            return value is None or value == TIE or (type(value) is int and 0 <= value < len(self.design.systems))
        aspects = self.design.questions.aspects
        return (
            isinstance(value, dict)
            and value.keys() == aspects.keys()
            and all(type(number) is int and number in aspects[name].numbers for name, number in value.items())
        )

    @property
    def wanted(self) -> int:
        """Answers of a rater who has given all."""
        if self.together:
            return sum(item.has_choice for item in self.items)
        return len(self.items) * len(self.design.systems)

    def steps(self, rater: str) -> list[Step]:
        """Return what a rater meets, in order."""
        return steps(self.items, self.design.systems, self.design.seed, rater, together=self.together)

    def is_asked(self, step: Step) -> bool:
        """Tell whether a step has a page: equal captions alone are nothing to choose from."""
        return not self.together or len(step.shown) > 1

    def decided(self, rater: str, given: Mapping[Key, Answer]) -> dict[Key, Answer]:
        """Return a rater's choices, with no difference for each image that the rater came to and was not asked of."""
        found, left = dict(given), len(given)
        for step in self.steps(rater) if given else ():
            key = self.key(step)
            if not self.is_asked(step):
                found[key] = TIE
            elif key in given:
                left -= 1
            elif not left:
                break
        return found

    def raters(self) -> list[str]:
        """Return who has answered, by name."""
        return sorted(file.stem for file in (self.folder / ANSWERS).glob("*.jsonl"))

    def answers(self, rater: str) -> Answers:
        """Return what a rater has answered; nothing where there is no such rater yet.

        Raises:
            DataError: The file does not hold answers to what is asked.
        """
        return Answers.read(self.folder / ANSWERS / f"{rater}.jsonl", self)

    def picture(self, item: int) -> Picture | None:
        """Return the image of an item; None where it is no longer there."""
        try:
            return picture_of((self.folder / IMAGES / self.items[item].picture).read_bytes())
        except OSError:
            return None


@dataclass
class Answers:
    """The answers of one rater, in their order.

    Attributes:
        path: Their file.
        session: What they must fit.
        given: The answers that stand, the oldest first.
    """

    path: Path
    session: Session
    given: dict[Key, Answer] = field(default_factory=dict[Key, Answer])
    _size: int = 0

    @classmethod
    def read(cls, path: Path, session: Session) -> Answers:
        """Return the answers that are on the disk; there may be none yet.

        A last line that was not written to its end is no answer: who gave it was not told that it is kept.

        Raises:
            DataError: A line is no answer to what is asked.
        """
        found = cls(path, session)
        content = path.read_bytes() if path.exists() else b""
        ids = {item.id for item in session.items}
        *lines, rest = content.split(b"\n")
        found._size = len(content) - len(rest)
        for number, line in enumerate(lines, 1):
            fault = found._take(line, ids)
            if fault:
                raise DataError(
                    f"{path}:{number}: {fault}",
                    "Was it edited, or is it of other questions? Mend the line, or move the file elsewhere.",
                )
        return found

    def _take(self, line: bytes, ids: set[str]) -> str:
        try:
            row = parse_json(line.decode())
        except ValueError:
            return "is no JSON"
        if not isinstance(row, dict) or row.get("id") not in ids:
            return "names no item that is rated"
        system = row.get("system")
        systems = self.session.design.systems
        if self.session.together != (system is None) or (system is not None and system not in systems):
            return f"names no system whose captions are rated: {system!r:.80}"
        key: Key = row["id"], None if system is None else systems.index(system)
        if row.get("undo") is True:
            if not self.given or next(reversed(self.given)) != key:
                return "takes back what is not the last answer"
            del self.given[key]
        elif "answer" not in row or not self.session.is_answer(row["answer"]):
            return f"holds no answer to what is asked: {row.get('answer')!r:.80}"
        elif key in self.given:
            return "is a second answer to one question"
        else:
            self.given[key] = row["answer"]
        return ""

    def add(self, step: Step, answer: Answer) -> None:
        """Keep an answer; it is on the disk when this returns.

        Raises:
            OSError: It could not be written; nothing of it is left.
        """
        key = self.session.key(step)
        more = {"shown": list(step.shown)} if self.session.together else {}
        self._append(key, {"answer": answer, **more})
        self.given[key] = answer

    def undo(self) -> None:
        """Take the last answer back, where there is one.

        Raises:
            OSError: As of :meth:`add`.
        """
        if not self.given:
            return
        key = next(reversed(self.given))
        self._append(key, {"undo": True})
        del self.given[key]

    def _append(self, key: Key, said: Mapping[str, Any]) -> None:
        identity, number = key
        of = {"id": identity} if number is None else {"id": identity, "system": self.session.design.systems[number]}
        row = {**of, **said, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        line = json.dumps(row, ensure_ascii=False) + "\n"
        is_new = not self.path.exists()
        number = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            # What a killed process left of a line goes, and so does what cannot be written to its end.
            os.ftruncate(number, self._size)
            os.lseek(number, self._size, os.SEEK_SET)
            content = line.encode("utf-8", "backslashreplace")
            try:
                if os.write(number, content) != len(content):
                    raise OSError(f"{self.path}: no room for an answer")
                os.fsync(number)
            except OSError:
                os.ftruncate(number, self._size)
                raise
            self._size += len(content)
        finally:
            os.close(number)
        if is_new:
            flush(self.path.parent)


def rater_name(text: str) -> str:
    """Return a name as files and addresses have it: lower case, words joined by ``-``; empty where it is none."""
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
    """Write the folder of a new session, whole or not at all.

    Args:
        folder: Where; it is not there, or empty.
        design: What is asked.
        items: Of what; those whose image is not here, or is none that browsers show, are left out.
        picture_of_item: Gives the image of an item.
        failures: Is told what is left out.

    Raises:
        DataError: No item has an image, or none has captions to choose from.
        UsageError: The folder is not empty, or cannot be written.
    """
    draft = draft_beside(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder.parent.glob(f"{DRAFT}*"))
        (draft / IMAGES).mkdir(parents=True)
        (draft / ANSWERS).mkdir()
        found: dict[int, RatedItem] = {}
        for number in in_order([item.id for item in items], design.seed, "sample"):
            picture = picture_of_item(items[number])
            if picture is None:
                failures.add(items[number].id, "image", "is not on this machine, or none that browsers show")
            else:
                name = f"{hashlib.sha256(picture.content).hexdigest()}.{picture.ending}"
                (draft / IMAGES / name).write_bytes(picture.content)
                found[number] = replace(items[number], picture=name)
            if len(found) == design.sample:
                break
        named = [found[number] for number in sorted(found)]
        if not named:
            raise DataError(
                f"task '{design.task}': none of its images is on this machine, as a browser shows one (JPEG, PNG, GIF, "
                "WebP, BMP)",
                f"'bench data {design.task}' says where they are looked for.",
            )
        if design.questions.better and not any(item.has_choice for item in named):
            raise DataError(
                f"task '{design.task}': each image has equal captions of all systems, so there is nothing to choose",
                "Name captions of other systems, or have these rated on a scale (--aspect).",
            )
        rows = [
            {
                "id": item.id,
                "image": item.image,
                "picture": item.picture,
                "captions": dict(zip(design.systems, item.captions, strict=True)),
                "references": item.references,
            }
            for item in named
        ]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        (draft / ITEMS).write_bytes(lines)
        text = design_text(design, hashlib.sha256(lines).hexdigest())
        (draft / DESIGN).write_text(text, encoding="utf-8")
        put_in_place(draft, folder)
    except OSError as error:
        raise UsageError(
            f"--output {folder}: cannot be written: {error.strerror or error}", "Name another folder."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Session(folder, design, tuple(named))


def is_session(folder: Path) -> bool:
    """Tell whether a session was begun in a folder."""
    return (folder / DESIGN).is_file()


def read_session(folder: Path) -> Session:
    """Return the session of a folder.

    Raises:
        DataError: There is none, or what it holds is not what was written.
    """
    if links := list(links_outside(folder)):
        raise DataError(
            f"{links[0]}: is a link that leads out of the session, which would be shown or written to",
            "Put the file itself there.",
        )
    try:
        design, items = read_design(folder / DESIGN)
        content = (folder / ITEMS).read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder}: holds no session of ratings ({error})",
            "'bench rate TASK --captions FILE ...' begins one; --output names its folder.",
        ) from error
    if items != hashlib.sha256(content).hexdigest():
        raise changed(folder / ITEMS)
    return Session(folder, design, items_of(folder / ITEMS, content, design.systems))


def require_same(session: Session, given: Mapping[str, Any]) -> None:
    """Raise if what a command line says is not what the session began with.

    Args:
        session: The session.
        given: Names of what a design has, and the values that were said.

    Raises:
        UsageError: Something differs.
    """
    kept, told = session.design.to_json(), {**session.design.to_json(), **given}
    differing = [name for name in kept if kept[name] != told[name]]
    if differing:
        raise UsageError(
            f"{session.folder}: a session lies there that began with other {', '.join(differing)}",
            f"'bench rate {session.design.task}' goes on with it; --output names a folder for another one.",
        )


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold the folder of a session, so that one server alone writes to its answers.

    Raises:
        UsageError: Another process holds it.
    """
    number = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(number, 200).decode("utf-8", "replace").strip()
            raise UsageError(
                f"{folder}: is being rated by another 'bench rate' ({holder or 'a process that has just begun'}), and "
                "two would write to the same answers",
                "Raters share one server: open its address, or end it first. --report reads beside it.",
            ) from error
        os.ftruncate(number, 0)
        os.write(number, f"process {os.getpid()} of {os.uname().nodename}".encode())
        yield
    finally:
        os.close(number)


CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class Assignment:
    """Where a rater is.

    Attributes:
        step: What is asked now; None where all is answered.
        number: Which answer that is, from 0.
        total: How many are asked for.
        can_undo: Whether there is an answer to take back.
    """

    step: Step | None
    number: int
    total: int
    can_undo: bool


@dataclass
class RatingQueue:
    """Gives raters what they are asked, and keeps what they answer.

    Attributes:
        session: The session, which this process alone writes to.
    """

    session: Session
    _seats: dict[str, tuple[list[Step], Answers]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def raters(self) -> list[tuple[str, int]]:
        """Return who has answered, and how much."""
        with self._lock:
            return [(name, len(self._seat(name)[1].given)) for name in self.session.raters()]

    def place(self, rater: str) -> Assignment:
        """Return where a rater is."""
        with self._lock:
            return self._place(rater)

    def answer(self, rater: str, number: int, answer: Answer) -> bool:
        """Keep an answer; it is on the disk when this returns.

        Args:
            rater: Who gives it.
            number: Which answer it is, from 0.
            answer: What is said, captions by their own numbers.

        Returns:
            Whether it was asked for; of a page that was sent twice the first answer is kept.

        Raises:
            OSError: It could not be written.
        """
        with self._lock:
            place = self._place(rater)
            if place.step is None or place.number != number:
                return False
            self._seat(rater)[1].add(place.step, answer)
            return True

    def undo(self, rater: str) -> None:
        """Take a rater's last answer back.

        Raises:
            OSError: That could not be written.
        """
        with self._lock:
            self._seat(rater)[1].undo()

    def _place(self, rater: str) -> Assignment:
        asked, answers = self._seat(rater)
        # All before it are answered, as one is asked after the other and the last is taken back first.
        number = len(answers.given)
        step = asked[number] if number < len(asked) else None
        return Assignment(step, number, len(asked), number > 0)

    def _seat(self, rater: str) -> tuple[list[Step], Answers]:
        if rater not in self._seats:
            in_turn = [step for step in self.session.steps(rater) if self.session.is_asked(step)]
            self._seats[rater] = in_turn, self.session.answers(rater)
        return self._seats[rater]


def answer_of(session: Session, step: Step, said: Mapping[str, str]) -> Answer | ValueError:
    """Return the answer that a page sent, or what is wrong with it.

    Args:
        session: The session.
        step: What was asked.
        said: The fields of the page: ``choice``, or each aspect by its place.
    """
    questions = session.design.questions
    if questions.better:
        choice = said.get("choice", "")
        if choice in (TIE, CANNOT_TELL):
            return TIE if choice == TIE else None
        if choice in map(str, range(len(step.shown))):
            return step.shown[int(choice)]
        return ValueError("Choose a caption, or one of the other answers.")
    found: dict[str, int] = {}
    for place, (name, aspect) in enumerate(questions.aspects.items()):
        value = said.get(f"aspect{place}", "")
        if value not in map(str, aspect.numbers):
            return ValueError(f"Choose a number for {spoken(name)}, too.")
        found[name] = int(value)
    return found


def spoken(name: str) -> str:
    """Return the name of an aspect as a page shows it."""
    return name.replace("_", " ")
