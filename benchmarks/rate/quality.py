"""What tells careful raters from others: time, agreement with themselves, known answers, change of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from .forms import Answer
from .items import RatedItem
from .session import Answers, Key, Session

WORDS_A_SECOND = 8.0
"""Twice the mean rate of silent reading (238 words a minute; Brysbaert 2019): who is faster has not read."""
_FEWEST = 8
"""Answers from which a rater is judged."""
QUALITY = {
    "answers": "Answers",
    "asked": "Asked",
    "seconds": "Median seconds",
    "fast": "Faster than reading",
    "same_again": "Same when asked again",
    "known": "Known answers met",
}


@dataclass(frozen=True)
class RaterRow:
    """The quality of a rater's answers.

    Attributes:
        values: By the names of :data:`QUALITY`, and ``constant``: whether all answers, or all chosen places on the
            page, are equal. Shares are pairs (hits, of).
    """

    values: Mapping[str, Any]

    @property
    def shown(self) -> dict[str, str]:
        """The values as text; empty ones are missing."""
        return {name: _text(self.values[name]) for name in QUALITY}


def _text(value: Any) -> str:
    if isinstance(value, Sequence):
        hits, of = value
        if not of:
            return ""
        from scipy.stats import binomtest

        interval = binomtest(hits, of).proportion_ci(method="wilson")
        return f"{hits:,} of {of:,} [{interval.low:.2f}, {interval.high:.2f}]"
    return "" if value is None else f"{value:,}"


def is_unknown(answer: Answer) -> bool:
    """Return whether an answer, or a part of it, is 'cannot tell'."""
    return answer is None or (isinstance(answer, Mapping) and None in answer.values())


def rater_rows(session: Session, by_rater: Mapping[str, Mapping[Key, Answer]]) -> dict[str, RaterRow]:
    """Return the quality of each rater's answers, by name.

    Args:
        session: The session, whose files have times and orders of captions.
        by_rater: The current answers by rater.
    """
    items = {item.id: item for item in session.items}
    known = {
        (entry.id, None if entry.system is None else session.design.systems.index(entry.system)): entry.answer
        for entry in session.design.known
    }
    return {
        name: RaterRow(_values(session, answers, session.answers(name), items, known, len(session.asked(name))))
        for name, answers in sorted(by_rater.items())
    }


def _values(
    session: Session,
    answers: Mapping[Key, Answer],
    log: Answers,
    items: Mapping[str, RatedItem],
    known: Mapping[tuple[str, int | None], Answer],
    asked: int,
) -> dict[str, Any]:
    timed = {key: row["seconds"] for key, row in log.rows.items() if key in answers and "seconds" in row}
    read = {key: _words(items[key[0]], key[1], log.rows[key].get("shown", ())) / WORDS_A_SECOND for key in timed}
    fast = sum(seconds < read[key] for key, seconds in timed.items())
    repeated = [(answers[key[0], key[1]], answer) for key, answer in answers.items() if len(key) == 3]
    met = [(right, answers[key]) for key, right in known.items() if key in answers]
    places = Counter(_said(answer, log.rows.get(key, {}).get("shown", ())) for key, answer in answers.items())
    return {
        "answers": len(answers),
        "asked": asked,
        "seconds": median(timed.values()) if timed else None,
        "fast": (fast, len(timed)),
        "same_again": (sum(_alike(first, other) for first, other in repeated), len(repeated)),
        "known": (sum(_alike(right, answer) for right, answer in met), len(met)),
        "constant": len(answers) >= _FEWEST and len(places) == 1,
    }


def _words(item: RatedItem, number: int | None, shown: Sequence[int]) -> int:
    captions = [item.texts[at] for at in (shown if number is None else [number])]
    return sum(len(caption.split()) for caption in captions)


def _said(answer: Answer, shown: Sequence[int]) -> str:
    """Return what a rater did on the page: the place of a chosen caption, or the answer itself."""
    if isinstance(answer, Mapping) and "better" in answer:
        answer = answer["better"]
    return f"place {shown.index(answer)}" if type(answer) is int and answer in shown else str(answer)


def _alike(first: Answer, other: Answer) -> bool:
    """Return whether two answers are equal; scores may differ by 1."""
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        if "better" in first:
            return first["better"] == other["better"]
        if "best" not in first:
            return all(
                entry == other[name] or (None not in (entry, other[name]) and abs(entry - other[name]) <= 1)
                for name, entry in first.items()
            )
    return first == other


def warnings(raters: Mapping[str, RaterRow]) -> list[str]:
    """Return a sentence for each kind of answers that are no judgements, with its raters."""
    fast = [name for name, row in raters.items() if row.values["fast"][1] >= _FEWEST]
    hasty = [name for name in fast if 2 * raters[name].values["fast"][0] > raters[name].values["fast"][1]]
    constant = [name for name, row in raters.items() if row.values["constant"]]
    reasons = {
        f"more than half of their answers took less time than reading ({WORDS_A_SECOND:g} words a second)": hasty,
        "all their answers are equal, or at the same place of the page": constant,
    }
    return [f"Look at {', '.join(names)}: {why}." for why, names in reasons.items() if names]
