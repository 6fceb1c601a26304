"""What CAPTURE and ALOHa matched, and what DCScore's judge said, as rows for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from ...metrics.aloha import ObjectMatching
from ...metrics.capture.matching import KINDS, Element, Kind, KindScore
from ...metrics.capture.metric import Explanation
from ...metrics.capture.scene_graphs import Graph
from ...metrics.dcscore import PARTS, CaptionFact, FactCheck, trial


@dataclass(frozen=True)
class ScoreExplanation:
    """How a metric came to the score of a caption.

    Attributes:
        label: How the metric is called.
        candidate: The caption.
        references: What it was compared with.
        found: Of CAPTURE what was matched with each reference; of ALOHa the objects; of DCScore what its judge said.
    """

    label: str
    candidate: str
    references: Sequence[str]
    found: Sequence[Explanation] | ObjectMatching | FactCheck

    @property
    def value(self) -> float:
        """The score."""
        if isinstance(self.found, ObjectMatching | FactCheck):
            return self.found.value
        return sum(one.value for one in self.found) / len(self.found)

    @property
    def mean_of(self) -> str:
        """What the score is the mean of, as it stands behind it; empty where it is none."""
        if isinstance(self.found, FactCheck):
            return ", the mean of both F1"
        several = not isinstance(self.found, ObjectMatching) and len(self.found) > 1
        return f", mean of {len(self.references)} references" if several else ""


# --- CAPTURE

How = Literal["equal", "synonym", "similar", "unmatched", "left out"]
HOWS: Mapping[How, str] = {
    "equal": "equal words, counts 1",
    "synonym": "synonyms, counts 1",
    "similar": "left over, counts the cosine to the most similar one left over on the other side",
    "unmatched": "matched with nothing, counts 0",
    "left out": "not compared: a stop word, or no noun of the caption",
}

Side = Literal["candidate", "reference"]


@dataclass(frozen=True)
class MatchRow:
    """One line of what was matched.

    Attributes:
        how: In which way.
        candidate: The candidate's element; empty where there is none.
        reference: The reference's.
        of: Whose element counts: both sides' where they are matched, else that of the side left over.
        similarity: Their cosine, where they are similar.
        remark: Why an element was left out.
    """

    how: How
    candidate: str
    reference: str
    of: Side | Literal["both"]
    similarity: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class TextSpan:
    """A part of a caption, and how what it names was matched; None for the text between."""

    text: str
    how: How | None


@dataclass(frozen=True)
class ReferenceMatches:
    """What a metric matched of a caption and one reference.

    Attributes:
        value: Its value of the two.
        candidate: The caption in parts.
        reference: The reference in parts.
        counts: What the value is made of: name to number, as texts.
        groups: Title of a table to what was matched there.
    """

    value: float
    candidate: Sequence[TextSpan]
    reference: Sequence[TextSpan]
    counts: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Sequence[MatchRow]] = field(default_factory=dict)


def reference_matches(candidate: str, reference: str, explanation: Explanation) -> ReferenceMatches:
    """Return what CAPTURE matched of a caption and a reference: each kind, and where some were, what was left out."""
    counts = {
        f"{kind}s": f"precision {matched.precision:.4f}, recall {matched.recall:.4f}, F1 {matched.f1:.4f}"
        for kind, matched in ((kind, explanation.matched[kind]) for kind in KINDS)
    }
    groups = {f"{kind.capitalize()}s": rows(explanation.matched[kind]) for kind in KINDS}
    if others := left_out(explanation):
        groups["Left out"] = others
    mine, theirs = spans(candidate, explanation, "candidate"), spans(reference, explanation, "reference")
    return ReferenceMatches(explanation.value, mine, theirs, counts, groups)


def rows(matched: KindScore) -> list[MatchRow]:
    """Return what was matched of one kind: one to one first, then what was left over on either side."""
    mine, theirs = matched.pairing.candidate, matched.pairing.reference
    found = [MatchRow("equal", name(mine[a]), name(theirs[b]), "both") for a, b in matched.pairing.equal]
    found += [MatchRow("synonym", name(mine[a]), name(theirs[b]), "both") for a, b in matched.pairing.synonymous]
    left_mine, left_theirs = matched.pairing.left_over()
    if matched.candidate_similar:
        for one in matched.candidate_similar:
            found.append(
                MatchRow("similar", name(mine[one.element]), name(theirs[one.nearest]), "candidate", one.similarity)
            )  # fmt: skip
        for one in matched.reference_similar:
            found.append(
                MatchRow("similar", name(mine[one.nearest]), name(theirs[one.element]), "reference", one.similarity)
            )  # fmt: skip
        return found
    found += [MatchRow("unmatched", name(mine[a]), "", "candidate") for a in left_mine]
    return found + [MatchRow("unmatched", "", name(theirs[b]), "reference") for b in left_theirs]


def left_out(explanation: Explanation) -> list[MatchRow]:
    """Return the objects that the parser found and that were not compared."""
    return [MatchRow("left out", one, "", "candidate", remark=why) for one, why in explanation.candidate.left_out] + [
        MatchRow("left out", "", one, "reference", remark=why) for one, why in explanation.reference.left_out
    ]


def name(element: Element) -> str:
    """Return an element as people read it."""
    if element.owner:
        return f"{element.words[0]} ({element.owner})"
    return " – ".join(element.words)


def spans(text: str, explanation: Explanation, side: Side) -> list[TextSpan]:
    """Return a caption in parts, with the words that name its objects and attributes marked.

    Graphs do not say where a word stood: an element is looked for by its letters, in singular or plural. The
    places serve the eye alone.
    """
    how = dict(_hows(explanation, side))
    if not how:
        return [TextSpan(text, None)]
    longest_first = sorted(how, key=len, reverse=True)
    # One group a word, in singular or plural: which of them matched, says whose place it is.
    pattern = re.compile(rf"\b(?:{'|'.join(map(_forms, longest_first))})\b", flags=re.IGNORECASE)
    found: list[TextSpan] = []
    end = 0
    for match in pattern.finditer(text):
        if match.start() > end:
            found.append(TextSpan(text[end : match.start()], None))
        found.append(TextSpan(match.group(), how[longest_first[(match.lastindex or 1) - 1]]))
        end = match.end()
    return [*found, TextSpan(text[end:], None)] if end < len(text) else found


def _forms(word: str) -> str:
    """Return the pattern of a word and its plural, as one group."""
    if word.endswith("y") and not word.endswith(("ay", "ey", "oy", "uy")):
        return f"({re.escape(word[:-1])}(?:y|ies))"
    return f"({re.escape(word)}(?:e?s)?)"


def _hows(explanation: Explanation, side: Side) -> Iterator[tuple[str, How]]:
    """Yield words of a side and how they were matched; what comes later counts."""
    graph: Graph = getattr(explanation, side)
    for word, _ in graph.left_out:
        if word:
            yield word.lower(), "left out"
    kinds: tuple[Kind, ...] = ("attribute", "object")
    for kind in kinds:
        matched = explanation.matched[kind]
        its: tuple[Element, ...] = getattr(matched.pairing, side)
        number = 0 if side == "candidate" else 1
        similar = matched.candidate_similar or matched.reference_similar
        status: dict[int, How] = dict.fromkeys(range(len(its)), "similar" if similar else "unmatched")
        status |= {pair[number]: "synonym" for pair in matched.pairing.synonymous}
        status |= {pair[number]: "equal" for pair in matched.pairing.equal}
        for at, one in status.items():
            if its[at].words[0]:
                yield its[at].words[0].lower(), one


# --- ALOHa

_OBJECT_MEANINGS: Mapping[How, str] = {
    "equal": "the same name, counts 1",
    "similar": "counts the cosine to the object of the references that it is matched with",
}


def object_rows(matched: ObjectMatching) -> list[MatchRow]:
    """Return the objects of the candidate, the least similar first, each with what it is matched with."""
    return [
        MatchRow("unmatched", one.name, "", "candidate")
        if one.reference is None
        else MatchRow("equal", one.name, one.reference, "both")
        if one.name == one.reference
        else MatchRow("similar", one.name, one.reference, "candidate", one.similarity)
        for one in matched.objects
    ]


def object_meanings(matched: ObjectMatching) -> dict[How, str]:
    """Return the ways in which objects were matched, and what each counts; and which words were left out."""
    left = "0" if matched.unmatched == "zero" else "nothing, as released"
    known: dict[How, str] = {
        **_OBJECT_MEANINGS,
        "unmatched": f"the references have no object left for it, counts {left}",
    }
    hows = {one.how for one in object_rows(matched)}
    found: dict[How, str] = {how: said for how, said in known.items() if how in hows}
    if matched.unknown:
        found["left out"] = f"words that the parser's list lacks: {', '.join(matched.unknown)}"
    return found


# --- DCScore

Standing = Literal["true", "false", "had", "missing", "divided"]
_FACT_MEANINGS: Mapping[Standing, str] = {
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


def caption_rows(account: FactCheck) -> list[FactRow]:
    """Return the facts of the caption, and by each answer whether it is true, or which of the oracle's it is about."""
    rows: list[FactRow] = []
    for place, fact in enumerate(account.facts):
        truths = [one[place] for one in account.verifications]
        about = [one[place] for one in account.matchings]
        verdicts = " ".join(str(int(one)) for one in truths)
        matches = " ".join("–" if one is None else str(one + 1) for one in about)
        standing = "true" if all(truths) else "divided" if any(truths) else "false"
        rows.append(_fact_row(standing, place, fact, f"true {verdicts}, about {matches}"))
    return rows


def oracle_rows(account: FactCheck) -> list[FactRow]:
    """Return the facts of the oracle, each with the facts of the caption that some answer says are about it."""
    rows: list[FactRow] = []
    for place, fact in enumerate(account.oracle):
        had = [
            any(match == place and true for match, true in zip(matches, truths, strict=True))
            for matches, truths in product(account.matchings, account.verifications)
        ]
        about = {number for matches in account.matchings for number, one in enumerate(matches, 1) if one == place}
        standing = "had" if all(had) else "divided" if any(had) else "missing"
        said = f"about it {', '.join(map(str, sorted(about)))}" if about else "none about it"
        rows.append(_fact_row(standing, place, fact, said))
    return rows


def trial_rows(account: FactCheck) -> list[tuple[str, list[float]]]:
    """Return the six numbers of each trial, and their means, which count."""
    trials = product(enumerate(account.matchings, 1), enumerate(account.verifications, 1))
    rows = [
        (f"matching {one}, verifying {other}", trial(account.facts, account.oracle, matches, truths).tolist())
        for (one, matches), (other, truths) in trials
    ]
    return [*rows, ("mean", account.parts.tolist())]


def fact_meanings(account: FactCheck) -> dict[Standing, str]:
    """Return the standings that occur, and what each means."""
    standings = {one.standing for one in (*caption_rows(account), *oracle_rows(account))}
    return {standing: said for standing, said in _FACT_MEANINGS.items() if standing in standings}


def _fact_row(standing: Standing, place: int, fact: CaptionFact, said: str) -> FactRow:
    return FactRow(standing, place + 1, fact.text, said + ("" if fact.relevant else ", not relevant"))
