"""The folder of a session: questions, items, images, and a file of answers per rater."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import ValidationError

from ...atomic_files import DRAFT, draft_beside, flush, put_in_place, remove_abandoned
from ...boundary import links_outside
from ...errors import DataError, UsageError, writing
from ...rows import parse_json
from ..inputs.failures import FailureLog
from ..inputs.task_images import NoPicture, Picture, picture_of
from .forms import TIE, Answer, is_answer
from .items import DESIGN, Design, RatedItem, Step, changed, design_text, in_order, read_design

ITEMS, IMAGES, ANSWERS, LINKS = "items.jsonl", "images", "answers", "links.json"
_LOCK = ".lock"
_MOST_OF_A_NAME = 40
_LONGEST_REMARK = 500
_AGAIN = "again"
Key = tuple[str, int | None] | tuple[str, int | None, str]
"""Id of an item, and the index of the rated caption, None if several are on one page; ``again`` if it is repeated."""


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
        """Whether several captions of an item are on one page."""
        return self.design.questions.together

    def key(self, step: Step) -> Key:
        """Return the key of answers to a step."""
        key = self.items[step.item].id, None if self.together else step.shown[0]
        return (*key, _AGAIN) if step.again else key

    @property
    def wanted(self) -> int:
        """Number of answers of a rater of all items, without repeated questions."""
        if self.together:
            return sum(item.has_choice for item in self.items)
        return len(self.items) * len(self.design.systems)

    def asked(self, rater: str) -> list[Step]:
        """Return the steps of a rater that have a page, with those that are asked again at the end."""
        steps = [step for step in self.steps(rater) if self.is_asked(step)]
        names = [json.dumps(self.key(step)) for step in steps]
        # The last question is not asked twice in a row.
        again = in_order(names[:-1], self.design.seed, rater, "repeats")[: self.design.repeats]
        # On the page of a repeated question captions are in the opposite order.
        return steps + [Step(steps[place].item, steps[place].shown[::-1], again=True) for place in again]

    def steps(self, rater: str) -> list[Step]:
        """Return all steps of a rater, in order; a step with a single caption to choose from has no page.

        With one caption a page, captions of an image do not follow one another, where there are two images.
        """
        design, seed = self.design, (self.design.seed, rater)
        numbers = [number for number in range(len(self.items)) if self._is_of(rater, number)]
        ids = [self.items[number].id for number in numbers]
        shown = {number: in_order(design.systems, *seed, self.items[number].id) for number in numbers}
        if self.together:
            order = [numbers[place] for place in in_order(ids, *seed, "items")]
            return [Step(n, tuple(entry for entry in shown[n] if entry in self.items[n].first_equal)) for n in order]
        steps: list[Step] = []
        for turn in range(len(design.systems)):
            order = [numbers[place] for place in in_order(ids, *seed, "items", turn)]
            if steps and len(order) > 1 and order[0] == steps[-1].item:
                order.append(order.pop(0))
            steps += [Step(number, (shown[number][turn],)) for number in order]
        return steps

    def _is_of(self, rater: str, number: int) -> bool:
        """Return whether a rater is one of those of an item; all raters have about as many items."""
        design = self.design
        if design.per_item is None or rater not in design.raters:
            return True
        place = in_order([item.id for item in self.items], design.seed, "raters").index(number)
        return (design.raters.index(rater) - place * design.per_item) % len(design.raters) < design.per_item

    def is_asked(self, step: Step) -> bool:
        """Return whether a step has a page; there is no choice if all captions are equal."""
        return not self.together or len(step.shown) > 1

    def decided(self, rater: str, answers: Mapping[Key, Answer]) -> dict[Key, Answer]:
        """Return a rater's choices, with ties for the steps without a page that the rater has passed."""
        complete, left = dict(answers), sum(len(key) == 2 for key in answers)
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

    def links(self) -> dict[str, str]:
        """Return the raters by the last part of their links; empty if raters enter their names."""
        if not self.design.raters:
            return {}
        keys = json.loads((self.folder / LINKS).read_text(encoding="utf-8"))
        return {f"{rater}-{keys[rater]}": rater for rater in self.design.raters}

    def taken(self, name: str) -> str:
        """Return another rater whose name looks like a new one, in other letters; empty if there is none."""
        known = self.raters()
        return "" if name in known else next((entry for entry in known if _look(entry) == _look(name)), "")

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
        rows: The line of each in the file: ``shown``, ``seconds``, ``remark``, ``at``.
    """

    path: Path
    session: Session
    current: dict[Key, Answer] = field(default_factory=dict[Key, Answer])
    rows: dict[Key, Mapping[str, Any]] = field(default_factory=dict[Key, Mapping[str, Any]])
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
        ids = {item.id: item for item in session.items}
        *lines, rest = content.split(b"\n")
        log._size = len(content) - len(rest)
        for number, line in enumerate(lines, 1):
            if not log._take(line, ids):
                raise DataError(
                    f"{path}:{number}: is no answer to an open question of the session: {line[:100]!r}",
                    "It was edited, or is for other questions. Fix the line, or move the file out of the session.",
                )
        return log

    def _take(self, line: bytes, items: Mapping[str, RatedItem]) -> bool:
        """Take a line into account; return False if it is not valid."""
        try:
            row = parse_json(line.decode())
        except ValueError:
            return False
        systems = self.session.design.systems
        known = (None,) if self.session.together else systems
        if not isinstance(row, dict) or row.get("id") not in items or row.get("system") not in known:
            return False
        place = row["id"], None if self.session.together else systems.index(row["system"])
        key: Key = (*place, _AGAIN) if row.get(_AGAIN) is True else place
        if row.get("undo") is True and key == next(reversed(self.current), None):
            del self.current[key]
        elif (
            "answer" in row
            and key not in self.current
            and is_answer(self.session.design.questions, items[row["id"]], row["answer"])
        ):
            self.current[key], self.rows[key] = row["answer"], row
        else:
            return False
        return True

    def add(self, step: Step, answer: Answer, seconds: float | None = None, remark: str = "") -> None:
        """Save an answer durably.

        Args:
            step: The question.
            answer: The answer.
            seconds: From when the page was asked for; None if that is not known.
            remark: What the rater adds.

        Raises:
            OSError: The answer could not be written; no part of it remains.
        """
        key = self.session.key(step)
        more: dict[str, Any] = {"shown": list(step.shown)} if self.session.together else {}
        more |= {"seconds": seconds} if seconds is not None else {}
        more |= {"remark": remark[:_LONGEST_REMARK]} if remark else {}
        self._append(key, {"answer": answer, **more})
        self.current[key], self.rows[key] = answer, more

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
        identity, number, *again = key
        of = {"id": identity} if number is None else {"id": identity, "system": self.session.design.systems[number]}
        row = {**of, **({_AGAIN: True} if again else {}), **fields, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
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


_LOOKALIKES = str.maketrans("аеорсухіјѕкмтнвαορνικτυχ", "aeopcyxijskmthbaopviktux")
"""Small Cyrillic and Greek letters that look like Latin ones."""


def _look(name: str) -> str:
    """Return what names have in common that differ in marks, hyphens, or letters that look alike."""
    plain = unicodedata.normalize("NFKD", name).translate(_LOOKALIKES)
    return "".join(letter for letter in plain if letter.isalnum())


def begin(
    folder: Path,
    design: Design,
    items: Sequence[RatedItem],
    picture_of_item: Callable[[RatedItem], Picture | NoPicture],
    failures: FailureLog,
) -> Session:
    """Write the folder of a new session atomically.

    Args:
        folder: A missing or empty folder.
        design: The design.
        items: The items; those without an image are excluded.
        picture_of_item: Returns the image of an item, or why there is none.
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
            if isinstance(picture, NoPicture):
                failures.add(items[number].id, "image", picture.reason)
            else:
                name = f"{hashlib.sha256(picture.content).hexdigest()}.{picture.ending}"
                (draft / IMAGES / name).write_bytes(picture.content)
                sampled[number] = items[number].model_copy(update={"picture": name, "of_video": picture.of_video})
            if len(sampled) == design.sample:
                break
        named = [sampled[number] for number in sorted(sampled)]
        if not named:
            raise DataError(
                f"task '{design.task}': no image can be shown",
                f"'bench data {design.task}' shows where the images belong.",
            )
        if design.questions.together and not any(item.has_choice for item in named):
            raise DataError(
                f"task '{design.task}': all systems have equal captions for each image, so there is no choice",
                "Give captions of other systems, or rate these on a scale (--aspect).",
            )
        lines = "".join(json.dumps(item.model_dump(), ensure_ascii=False) + "\n" for item in named).encode()
        (draft / ITEMS).write_bytes(lines)
        text = design_text(design, hashlib.sha256(lines).hexdigest())
        (draft / DESIGN).write_text(text, encoding="utf-8")
        links = {rater: secrets.token_hex(8) for rater in design.raters}
        (draft / LINKS).write_text(json.dumps(links, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (draft / LINKS).chmod(0o600)
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
    _pages: dict[tuple[str, int], tuple[Step, float | None]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def raters(self) -> list[tuple[str, int]]:
        """Return raters and their numbers of answers."""
        with self._lock:
            return [(name, len(self._seat(name)[1].current)) for name in self.session.raters()]

    def place(self, rater: str, *, shown: bool = True) -> Assignment:
        """Return the progress of a rater.

        Args:
            rater: The rater.
            shown: Whether the question is shown now; its answer has a time from then.
        """
        with self._lock:
            asked, answers = self._seat(rater)
            # All earlier steps are answered, as answers are added and undone in order.
            number = len(answers.current)
            if number == len(asked):
                return Assignment(None, number, len(asked))
            if (rater, number) not in self._pages:
                step = asked[number]
                step = self._drawn(rater, step) if self._is_battle else step
                self._pages[rater, number] = step, monotonic() if shown else None
            return Assignment(self._pages[rater, number][0], number, len(asked))

    @property
    def _is_battle(self) -> bool:
        return self.session.design.questions.form == "battle"

    def _drawn(self, rater: str, step: Step) -> Step:
        """Return a battle of the two systems whose strengths are the least certain against each other.

        That is the pair with the largest variance of Beta(1 + wins, 1 + losses), a tie being half of both; equal ones
        and the order on the page are drawn by hash.
        """
        item, answers = self.session.items[step.item], self._seat(rater)[1].current
        if step.again:
            first, other = answers[item.id, None]["pair"]
            return replace(step, shown=(other, first))
        points: Counter[tuple[int, int]] = Counter()
        for entry in self.session.raters():
            for value in self._seat(entry)[1].current.values():
                first, other = value["pair"]
                if value["better"] is not None:
                    points[first, other] += 1 if value["better"] == TIE else 2 * (value["better"] == first)
                    points[other, first] += 1 if value["better"] == TIE else 2 * (value["better"] == other)

        def variance(pair: tuple[int, int]) -> float:
            wins, losses = 1 + points[pair] / 2, 1 + points[pair[1], pair[0]] / 2
            return wins * losses / ((wins + losses) ** 2 * (wins + losses + 1))

        # The order of captions that can be shown is drawn for the rater and the item.
        pairs = [p for p in combinations(step.shown, 2) if item.first_equal[p[0]] != item.first_equal[p[1]]]
        return replace(step, shown=max(pairs, key=variance))

    def answer(self, rater: str, number: int, answer: Answer, remark: str = "") -> bool:
        """Save an answer durably.

        Args:
            rater: The rater.
            number: Index of the question, from 0.
            answer: The answer; captions are given by index in the item.
            remark: What the rater adds.

        Returns:
            Whether it answers the current question; if a page is sent twice, the first answer is kept.

        Raises:
            OSError: The answer could not be written.
        """
        with self._lock:
            place = self.place(rater, shown=False)
            if place.step is None or place.number != number:
                return False
            since = self._pages[rater, number][1]
            seconds = None if since is None else round(monotonic() - since, 1)
            self._seat(rater)[1].add(place.step, answer, seconds, remark)
            del self._pages[rater, number]
            return True

    def undo(self, rater: str) -> None:
        """Undo a rater's last answer.

        Raises:
            OSError: The change could not be written.
        """
        with self._lock:
            answers = self._seat(rater)[1]
            self._pages.pop((rater, len(answers.current)), None)
            answers.undo()

    def _seat(self, rater: str) -> tuple[list[Step], Answers]:
        if rater not in self._seats:
            self._seats[rater] = self.session.asked(rater), self.session.answers(rater)
        return self._seats[rater]
