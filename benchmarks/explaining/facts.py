"""What a judge said of the facts of a caption, and of the oracle's, as rows for people (DCScore)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from ...metrics.dcscore.answers import Fact
from ...metrics.dcscore.questions import Account
from ...metrics.dcscore.trials import PARTS, trial

Standing = Literal["true", "false", "had", "missing", "divided"]
_MEANINGS: Mapping[Standing, str] = {
    "true": "a fact of the caption that is true, by every answer",
    "false": "one that is not, by every answer",
    "had": "a fact of the oracle that a true one of the caption is about, in every trial",
    "missing": "one that no true one is about, in any trial",
    "divided": "answers differ",
}
COLUMNS = tuple(part.replace("_", ", ").replace("f1", "F1") for part in PARTS)
"""What the numbers of a trial are called."""
ARITHMETIC = (
    "Precision is the share of true facts. Facts that are about one of the oracle's share its weight of 1; recall is "
    "the weight of the true ones, and 1 for each true one that is about none, over the oracle's facts and these."
)


@dataclass(frozen=True)
class FactRow:
    """A fact of the caption or of the oracle.

    Attributes:
        standing: What follows of all answers.
        number: Its number, from 1.
        text: What it says.
        said: What each answer says of it.
    """

    standing: Standing
    number: int
    text: str
    said: str


def caption_rows(account: Account) -> list[FactRow]:
    """Return the facts of the caption, and by each answer whether it is true, or which of the oracle's it is about."""
    rows: list[FactRow] = []
    for place, fact in enumerate(account.facts):
        truths = [one[place] for one in account.verifications]
        about = [one[place] for one in account.matchings]
        verdicts = " ".join(str(int(one)) for one in truths)
        matches = " ".join("–" if one is None else str(one + 1) for one in about)
        standing = "true" if all(truths) else "divided" if any(truths) else "false"
        rows.append(_row(standing, place, fact, f"true {verdicts}, about {matches}"))
    return rows


def oracle_rows(account: Account) -> list[FactRow]:
    """Return the facts of the oracle, each with the facts of the caption that some answer says are about it."""
    rows: list[FactRow] = []
    for place, fact in enumerate(account.oracle):
        had = [
            any(match == place and true for match, true in zip(matches, truths, strict=True))
            for matches, truths in product(account.matchings, account.verifications)
        ]
        about = {
            number for matches in account.matchings for number, one in enumerate(matches, 1) if one == place
        }
        standing = "had" if all(had) else "divided" if any(had) else "missing"
        said = f"about it {', '.join(map(str, sorted(about)))}" if about else "none about it"
        rows.append(_row(standing, place, fact, said))
    return rows


def trial_rows(account: Account) -> list[tuple[str, list[float]]]:
    """Return the six numbers of each trial, and their means, which count."""
    trials = product(enumerate(account.matchings, 1), enumerate(account.verifications, 1))
    rows = [
        (f"matching {one}, verifying {other}", trial(account.facts, account.oracle, matches, truths).tolist())
        for (one, matches), (other, truths) in trials
    ]
    return [*rows, ("mean", account.parts.tolist())]


def meanings(account: Account) -> dict[Standing, str]:
    """Return the standings that occur, and what each means."""
    standings = {one.standing for one in (*caption_rows(account), *oracle_rows(account))}
    return {standing: said for standing, said in _MEANINGS.items() if standing in standings}


def _row(standing: Standing, place: int, fact: Fact, said: str) -> FactRow:
    return FactRow(standing, place + 1, fact.text, said + ("" if fact.relevant else ", not relevant"))
