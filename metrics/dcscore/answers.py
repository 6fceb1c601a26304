"""What a judge answers, read: facts of a caption, the oracle's facts that they are about, and whether they are true."""

from __future__ import annotations

import ast
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeVar

import numpy as np

_EPSILON = 1e-8

PARTS = ("precision", "recall", "f1", "precision_relevant", "recall_relevant", "f1_relevant")
"""What a trial gives, in order."""


def trial(
    facts: Sequence[CaptionFact], oracle: Sequence[CaptionFact], matches: Sequence[int | None], truths: Sequence[bool]
) -> np.ndarray:
    """Return ``[6]`` float64, the ``PARTS`` of one trial, each 0 to 1.

    Precision is the share of facts that are true. Facts that are about one fact of the oracle share its weight of 1,
    false ones too; recall is the weight of the true ones, and 1 for each true one that is about none, over the facts of
    the oracle and these. The relevant parts look at facts that say what is to be seen, on both sides; weights stay
    those among all facts, as released (``compute_precision_recall`` in ``eval/evaluation_decapbench.py`` of DeCapBench,
    e356ed7). There people's facts are all relevant; a relevant fact that is about another one counts as about none.

    Args:
        facts: ``n`` facts of the caption, of which one or more are relevant.
        oracle: Facts of the oracle, of which one or more are relevant.
        matches: ``n`` places among the oracle's facts; None for a fact that is about none.
        truths: ``n``, whether each is true.
    """
    sharing = Counter(matches)

    def scores(which: Sequence[int], known: Sequence[int]) -> tuple[float, float, float]:
        true = [matches[one] for one in which if truths[one]]
        shares = [1 / sharing[match] for match in true if match in known]
        beyond = len(true) - len(shares)
        precision, recall = len(true) / len(which), (sum(shares) + beyond) / (len(known) + beyond)
        return precision, recall, 2 * precision * recall / (precision + recall + _EPSILON)

    every = range(len(facts)), range(len(oracle))
    return np.array([*scores(*every), *scores(_relevant(facts), _relevant(oracle))])


def mean_of_trials(
    facts: Sequence[CaptionFact],
    oracle: Sequence[CaptionFact],
    matchings: Sequence[Sequence[int | None]],
    verifications: Sequence[Sequence[bool]],
) -> np.ndarray:
    """Return ``[6]`` float64, the means of ``PARTS`` over the trials: each matching with each verification."""
    trials = [trial(facts, oracle, *one) for one in product(matchings, verifications)]
    return np.mean(trials, axis=0)


def _relevant(facts: Sequence[CaptionFact]) -> list[int]:
    return [place for place, fact in enumerate(facts) if fact.relevant]


Join = Literal["number", "text"]
"""How entries of answers are joined with facts: by the number that each was given, or by their text."""

MOST_CHARACTERS = 100_000
"""An answer that is longer is not read."""

NUMBER = "number"
"""The key by which an entry says which fact it is of."""

_T = TypeVar("_T")

_FENCE = "```"
_NO_MATCH = (None, "None")


@dataclass(frozen=True)
class CaptionFact:
    """A fact of a caption.

    Attributes:
        text: The fact.
        relevant: Whether it says what is to be seen.
        identifier: What it calls the thing that it names for the first time; empty for none.
    """

    text: str
    relevant: bool
    identifier: str = ""


def listed(facts: Sequence[CaptionFact], join: Join) -> str:
    """Return facts of a caption as questions show them: a JSON list, one a line."""
    return _listed(
        {
            **({NUMBER: number} if join == "number" else {}),
            "fact": fact.text,
            **({"identifier": fact.identifier} if fact.identifier else {}),
        }
        for number, fact in enumerate(facts)
    )


def listed_oracle(facts: Sequence[CaptionFact]) -> str:
    """Return the oracle's facts as questions show them: their ids are their places."""
    return _listed({"id": place, "fact": fact.text} for place, fact in enumerate(facts))


def _listed(entries: Iterable[Mapping[str, Any]]) -> str:
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]"


def read_entries(answer: str) -> list[Mapping[str, Any]]:
    """Return the list of an answer: from its first bracket to its last, behind the last fence of JSON if it has one.

    It is read as a literal of Python, and where it is none, as JSON.

    Raises:
        ValueError: It is neither, or no list of mappings.
    """
    if len(answer) > MOST_CHARACTERS:
        raise ValueError("an answer is too long to be read")
    _, fence, part = answer.rpartition(f"{_FENCE}json")
    part = part.split(_FENCE)[0] if fence else part
    text = part[part.find("[") : part.rfind("]") + 1]
    try:
        with warnings.catch_warnings():
            # A backslash that Python does not know stays one; it is no matter of the user's.
            warnings.simplefilter("ignore")
            entries = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        try:
            entries = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("an answer is no list of Python or JSON") from None
    if not all(isinstance(one, Mapping) for one in entries):
        raise ValueError("an answer is no list of entries")
    return entries


def read_facts(answer: str) -> tuple[CaptionFact, ...]:
    """Return the facts of an answer, in order.

    Raises:
        ValueError: It cannot be read, an entry has no fact or no relevance of 0 or 1, or no fact is relevant.
    """
    facts: list[CaptionFact] = []
    for entry in read_entries(answer):
        identifier = entry.get("identifier")
        relevant = _flag(entry, "relevance")
        facts.append(CaptionFact(_text(entry), relevant, identifier if isinstance(identifier, str) else ""))
    if not any(fact.relevant for fact in facts):
        raise ValueError(f"an answer has no {'relevant ' if facts else ''}fact")
    return tuple(facts)


def read_matches(answer: str, facts: Sequence[CaptionFact], oracle: int, join: Join) -> tuple[int | None, ...]:
    """Return for each fact of a caption the place of the oracle's fact that it is about; None for none.

    Args:
        answer: The answer.
        facts: The facts of the caption.
        oracle: How many facts the oracle has.
        join: How entries are joined with facts.

    Raises:
        ValueError: It cannot be read, does not judge each fact once, or names a fact that the oracle does not have.
    """
    return _joined(read_entries(answer), facts, join, lambda entry: _match(entry, oracle))


def read_verdicts(answer: str, facts: Sequence[CaptionFact], join: Join) -> tuple[bool, ...]:
    """Return for each fact of a caption whether it is true.

    Raises:
        ValueError: It cannot be read, does not judge each fact once, or by another number than 0 and 1.
    """
    return _joined(read_entries(answer), facts, join, lambda entry: _flag(entry, "verification"))


def _joined(
    entries: Sequence[Mapping[str, Any]],
    facts: Sequence[CaptionFact],
    join: Join,
    value: Callable[[Mapping[str, Any]], _T],
) -> tuple[_T, ...]:
    """Return the value of each fact. Facts of one text are judged in their order."""
    if join == "number":
        keys: list[Any] = list(range(len(facts)))
        given: list[Any] = [_whole(entry.get(NUMBER)) for entry in entries]
    else:
        keys, given = [fact.text for fact in facts], [_text(entry) for entry in entries]
    if Counter(keys) != Counter(given):
        raise ValueError(f"an answer does not judge each fact once, by its {join}")
    values: dict[Any, list[_T]] = {}
    for key, entry in zip(given, entries, strict=True):
        values.setdefault(key, []).append(value(entry))
    return tuple(values[key].pop(0) for key in keys)


def _text(entry: Mapping[str, Any]) -> str:
    text = entry.get("fact")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("an entry of an answer has no fact")
    return text


def _flag(entry: Mapping[str, Any], key: str) -> bool:
    value = entry.get(key)
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError(f"an entry of an answer has a {key} that is not 0 or 1")
    return value == 1


def _match(entry: Mapping[str, Any], oracle: int) -> int | None:
    if "matched_oracle_id" not in entry:
        raise ValueError("an entry of an answer has no matched_oracle_id")
    value = entry["matched_oracle_id"]
    if value in _NO_MATCH:
        return None
    place = _whole(value)
    if place is None or place >= oracle:
        raise ValueError("an entry of an answer matches a fact that the oracle does not have")
    return place


def _whole(value: Any) -> int | None:
    """Return a whole number from 0, which may be written as text; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
