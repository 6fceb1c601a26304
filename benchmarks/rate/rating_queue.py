"""Where raters sit: what each is asked next, and what becomes of an answer. Threads may share it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .answers import TIE, Answer, Answers
from .order import Step
from .session import Session

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


def shown_captions(session: Session, step: Step) -> Sequence[str]:
    """Return the captions of a step, as they stand on the page."""
    return [session.items[step.item].captions[one] for one in step.shown]
