"""The answers of one rater: a file that only grows, on the disk before anybody is told."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ...drafts import flush
from ...errors import DataError
from ...rows import parse_json
from .items import RatedItem, Step
from .questions import Questionnaire

TIE: Literal["tie"] = "tie"
Answer = Mapping[str, int] | int | Literal["tie"] | None
"""Numbers by aspect; or the number of the better caption, a tie, or None for one that cannot be told."""
Key = tuple[str, int | None]
"""Id of an item, and the number of the caption that is rated by itself; None where all are."""


@dataclass(frozen=True)
class AnswerRules:
    """What answers must fit.

    Attributes:
        questions: What is asked.
        items: Of what.
        systems: What wrote the captions of an item.
    """

    questions: Questionnaire
    items: Sequence[RatedItem]
    systems: Sequence[str]

    @property
    def together(self) -> bool:
        """Whether the captions of an item are on one page."""
        return bool(self.questions.better)

    def key(self, step: Step) -> Key:
        """Return what an answer to a step is of."""
        return self.items[step.item].id, None if self.together else step.shown[0]

    def is_answer(self, value: Any) -> bool:
        """Tell whether a value answers what is asked."""
        if self.together:
            return value is None or value == TIE or (type(value) is int and 0 <= value < len(self.systems))
        aspects = self.questions.aspects
        return (
            isinstance(value, dict)
            and value.keys() == aspects.keys()
            and all(type(number) is int and number in aspects[name].numbers for name, number in value.items())
        )


@dataclass
class Answers:
    """The answers of one rater, in their order.

    Attributes:
        path: Their file.
        asked: What they must fit.
        given: The answers that stand, the oldest first.
    """

    path: Path
    asked: AnswerRules
    given: dict[Key, Answer] = field(default_factory=dict[Key, Answer])
    _size: int = 0

    @classmethod
    def read(cls, path: Path, asked: AnswerRules) -> Answers:
        """Return the answers that are on the disk; there may be none yet.

        A last line that was not written to its end is no answer: who gave it was not told that it is kept.

        Raises:
            DataError: A line is no answer to what is asked.
        """
        found = cls(path, asked)
        content = path.read_bytes() if path.exists() else b""
        ids = {item.id for item in asked.items}
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
        if self.asked.together != (system is None) or (system is not None and system not in self.asked.systems):
            return f"names no system whose captions are rated: {system!r:.80}"
        key: Key = row["id"], None if system is None else list(self.asked.systems).index(system)
        if row.get("undo") is True:
            if not self.given or next(reversed(self.given)) != key:
                return "takes back what is not the last answer"
            del self.given[key]
        elif "answer" not in row or not self.asked.is_answer(row["answer"]):
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
        identity, number = key = self.asked.key(step)
        row: dict[str, Any] = {"id": identity}
        if number is not None:
            row["system"] = self.asked.systems[number]
        row["answer"] = answer
        if self.asked.together:
            row["shown"] = list(step.shown)
        self._append(row)
        self.given[key] = answer

    def undo(self) -> None:
        """Take the last answer back, where there is one.

        Raises:
            OSError: As of :meth:`add`.
        """
        if not self.given:
            return
        identity, number = key = next(reversed(self.given))
        row: dict[str, Any] = {"id": identity}
        if number is not None:
            row["system"] = self.asked.systems[number]
        self._append({**row, "undo": True})
        del self.given[key]

    def _append(self, row: Mapping[str, Any]) -> None:
        line = json.dumps({**row, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}, ensure_ascii=False) + "\n"
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
