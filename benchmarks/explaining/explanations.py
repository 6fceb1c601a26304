"""Explanations of scores: CAPTURE's and ALOHa's matches, DCScore's answers; as rows, text and HTML pages."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from ...metrics.aloha import ObjectMatching
from ...metrics.capture.matching import KINDS, Element, Kind, KindScore
from ...metrics.capture.metric import Explanation
from ...metrics.capture.scene_graphs import Graph
from ...metrics.dcscore import PARTS, CaptionFact, FactCheck, trial
from ..tables.pages.rendering import embedded, templates


@dataclass(frozen=True)
class ScoreExplanation:
    """The explanation of a caption's score.

    Attributes:
        label: Label of the metric.
        candidate: The caption.
        references: The references it was compared with.
        explanation: CAPTURE's matches with each reference, ALOHa's objects, or the answers of DCScore's judge.
    """

    label: str
    candidate: str
    references: Sequence[str]
    explanation: Sequence[Explanation] | ObjectMatching | FactCheck

    @property
    def value(self) -> float:
        """The score."""
        if isinstance(self.explanation, ObjectMatching | FactCheck):
            return self.explanation.value
        return sum(explanation.value for explanation in self.explanation) / len(self.explanation)

    @property
    def mean_of(self) -> str:
        """What the score is the mean of, as a suffix; empty where it is no mean."""
        if isinstance(self.explanation, FactCheck):
            return ", the mean of both F1"
        several = not isinstance(self.explanation, ObjectMatching) and len(self.explanation) > 1
        return f", mean of {len(self.references)} references" if several else ""


# --- CAPTURE

How = Literal["equal", "synonym", "similar", "unmatched", "left out"]
HOWS: Mapping[How, str] = {
    "equal": "equal words, counts 1",
    "synonym": "synonyms, counts 1",
    "similar": "unmatched, counts the cosine to the most similar unmatched one of the other side",
    "unmatched": "no match, counts 0",
    "left out": "not compared: a stop word, or no noun of the caption",
}

Side = Literal["candidate", "reference"]


@dataclass(frozen=True)
class MatchRow:
    """One match, or one unmatched element.

    Attributes:
        how: Kind of match.
        candidate: The candidate's element; empty where there is none.
        reference: The reference's element; empty where there is none.
        of: The side whose element counts: both where they are matched, else the unmatched one.
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
    """A part of a caption, and the kind of match of the object or attribute it names; None for other text."""

    text: str
    how: How | None


@dataclass(frozen=True)
class ReferenceMatches:
    """A metric's matches of a caption and one reference.

    Attributes:
        value: Score of the pair.
        candidate: The caption in parts.
        reference: The reference in parts.
        counts: Parts of the score: name to numbers, as texts.
        groups: Title of a table to its matches.
    """

    value: float
    candidate: Sequence[TextSpan]
    reference: Sequence[TextSpan]
    counts: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Sequence[MatchRow]] = field(default_factory=dict)


def reference_matches(candidate: str, reference: str, explanation: Explanation) -> ReferenceMatches:
    """Return CAPTURE's matches of a caption and a reference by kind, and the elements that were left out."""
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
    """Return the matches of one kind: one-to-one matches first, then unmatched elements of either side."""
    mine, theirs = matched.pairing.candidate, matched.pairing.reference
    matches = [MatchRow("equal", name(mine[a]), name(theirs[b]), "both") for a, b in matched.pairing.equal]
    matches += [MatchRow("synonym", name(mine[a]), name(theirs[b]), "both") for a, b in matched.pairing.synonymous]
    left_mine, left_theirs = matched.pairing.left_over()
    if matched.candidate_similar:
        matches += [
            MatchRow("similar", name(mine[pair.element]), name(theirs[pair.nearest]), "candidate", pair.similarity)
            for pair in matched.candidate_similar
        ]
        return matches + [
            MatchRow("similar", name(mine[pair.nearest]), name(theirs[pair.element]), "reference", pair.similarity)
            for pair in matched.reference_similar
        ]
    matches += [MatchRow("unmatched", name(mine[a]), "", "candidate") for a in left_mine]
    return matches + [MatchRow("unmatched", "", name(theirs[b]), "reference") for b in left_theirs]


def left_out(explanation: Explanation) -> list[MatchRow]:
    """Return the parsed objects that were not compared."""
    return [MatchRow("left out", word, "", "candidate", remark=why) for word, why in explanation.candidate.left_out] + [
        MatchRow("left out", "", word, "reference", remark=why) for word, why in explanation.reference.left_out
    ]


def name(element: Element) -> str:
    """Return an element as text."""
    if element.owner:
        return f"{element.words[0]} ({element.owner})"
    return " – ".join(element.words)


def spans(text: str, explanation: Explanation, side: Side) -> list[TextSpan]:
    """Return a caption in parts, with the words that name its objects and attributes marked.

    Graphs have no positions of words: an element is searched as text, in singular or plural, for display only.
    """
    how = dict(_hows(explanation, side))
    if not how:
        return [TextSpan(text, None)]
    longest_first = sorted(how, key=len, reverse=True)
    # One group a word, in singular or plural: the number of the matched group gives the word.
    pattern = re.compile(rf"\b(?:{'|'.join(map(_forms, longest_first))})\b", flags=re.IGNORECASE)
    parts: list[TextSpan] = []
    end = 0
    for match in pattern.finditer(text):
        if match.start() > end:
            parts.append(TextSpan(text[end : match.start()], None))
        parts.append(TextSpan(match.group(), how[longest_first[(match.lastindex or 1) - 1]]))
        end = match.end()
    return [*parts, TextSpan(text[end:], None)] if end < len(text) else parts


def _forms(word: str) -> str:
    """Return the pattern of a word and its plural, as one group."""
    if word.endswith("y") and not word.endswith(("ay", "ey", "oy", "uy")):
        return f"({re.escape(word[:-1])}(?:y|ies))"
    return f"({re.escape(word)}(?:e?s)?)"


def _hows(explanation: Explanation, side: Side) -> Iterator[tuple[str, How]]:
    """Yield words of a side and their kinds of match; later ones override earlier ones."""
    graph: Graph = getattr(explanation, side)
    for word, _ in graph.left_out:
        if word:
            yield word.lower(), "left out"
    kinds: tuple[Kind, ...] = ("attribute", "object")
    for kind in kinds:
        matched = explanation.matched[kind]
        elements: tuple[Element, ...] = getattr(matched.pairing, side)
        number = 0 if side == "candidate" else 1
        similar = matched.candidate_similar or matched.reference_similar
        status: dict[int, How] = dict.fromkeys(range(len(elements)), "similar" if similar else "unmatched")
        status |= {pair[number]: "synonym" for pair in matched.pairing.synonymous}
        status |= {pair[number]: "equal" for pair in matched.pairing.equal}
        for at, how in status.items():
            if elements[at].words[0]:
                yield elements[at].words[0].lower(), how


# --- ALOHa


def object_rows(matched: ObjectMatching) -> list[MatchRow]:
    """Return the objects of the candidate, the least similar first, each with its match."""
    return [
        MatchRow("unmatched", entry.name, "", "candidate")
        if entry.reference is None
        else MatchRow("equal", entry.name, entry.reference, "both")
        if entry.name == entry.reference
        else MatchRow("similar", entry.name, entry.reference, "candidate", entry.similarity)
        for entry in matched.objects
    ]


def object_meanings(matched: ObjectMatching) -> dict[How, str]:
    """Return the kinds of match that occur, with what each counts, and the words that were left out."""
    left = "0" if matched.unmatched == "zero" else "nothing, as released"
    known: dict[How, str] = {
        "equal": "the same name, counts 1",
        "similar": "counts the cosine to the object of the references that it is matched with",
        "unmatched": f"the references have no object left for it, counts {left}",
    }
    hows = {row.how for row in object_rows(matched)}
    meanings: dict[How, str] = {how: said for how, said in known.items() if how in hows}
    if matched.unknown:
        meanings["left out"] = f"words that the parser's list lacks: {', '.join(matched.unknown)}"
    return meanings


# --- DCScore

Standing = Literal["true", "false", "had", "missing", "divided"]
_FACT_MEANINGS: Mapping[Standing, str] = {
    "true": "a fact of the caption that is true in every answer",
    "false": "a fact of the caption that is false in every answer",
    "had": "a fact of the oracle that a true fact of the caption matches in every trial",
    "missing": "a fact of the oracle that no true fact of the caption matches in any trial",
    "divided": "answers differ",
}
COLUMNS = tuple(part.replace("_", ", ").replace("f1", "F1") for part in PARTS)
"""Names of the numbers of a trial."""
ARITHMETIC = (
    "Precision is the share of true facts. Facts that match the same fact of the oracle divide its weight of 1. Recall "
    "is the weight of true facts (1 for each without a match) over the oracle's facts plus true facts without a match."
)


@dataclass(frozen=True)
class FactRow:
    """A fact of the caption or of the oracle.

    Attributes:
        standing: Verdict over all answers.
        number: Its number, from 1.
        text: The fact.
        said: The answers on it.
    """

    standing: Standing
    number: int
    text: str
    said: str


def caption_rows(account: FactCheck) -> list[FactRow]:
    """Return the facts of the caption, each with its truth and its match in the oracle by answer."""
    rows: list[FactRow] = []
    for place, fact in enumerate(account.facts):
        truths = [column[place] for column in account.verifications]
        about = [column[place] for column in account.matchings]
        verdicts = " ".join(str(int(truth)) for truth in truths)
        matches = " ".join("–" if number is None else str(number + 1) for number in about)
        standing = "true" if all(truths) else "divided" if any(truths) else "false"
        rows.append(_fact_row(standing, place, fact, f"true {verdicts}, about {matches}"))
    return rows


def oracle_rows(account: FactCheck) -> list[FactRow]:
    """Return the facts of the oracle, each with the facts of the caption that match it in some answer."""
    rows: list[FactRow] = []
    for place, fact in enumerate(account.oracle):
        had = [
            any(match == place and true for match, true in zip(matches, truths, strict=True))
            for matches, truths in product(account.matchings, account.verifications)
        ]
        about = {number for matches in account.matchings for number, fact in enumerate(matches, 1) if fact == place}
        standing = "had" if all(had) else "divided" if any(had) else "missing"
        said = f"about it {', '.join(map(str, sorted(about)))}" if about else "none about it"
        rows.append(_fact_row(standing, place, fact, said))
    return rows


def trial_rows(account: FactCheck) -> list[tuple[str, list[float]]]:
    """Return the six numbers of each trial, and their means, which make the score."""
    trials = product(enumerate(account.matchings, 1), enumerate(account.verifications, 1))
    rows = [
        (f"matching {matcher}, verifying {other}", trial(account.facts, account.oracle, matches, truths).tolist())
        for (matcher, matches), (other, truths) in trials
    ]
    return [*rows, ("mean", account.parts.tolist())]


def fact_meanings(account: FactCheck) -> dict[Standing, str]:
    """Return the meanings of the verdicts that occur."""
    standings = {row.standing for row in (*caption_rows(account), *oracle_rows(account))}
    return {standing: said for standing, said in _FACT_MEANINGS.items() if standing in standings}


def _fact_row(standing: Standing, place: int, fact: CaptionFact, said: str) -> FactRow:
    return FactRow(standing, place + 1, fact.text, said + ("" if fact.relevant else ", not relevant"))


_SIGNS: dict[How | Standing, tuple[str, str]] = {
    "equal": ("=", "32"),
    "synonym": ("≈", "36"),
    "similar": ("~", "33"),
    "unmatched": ("✗", "31"),
    "left out": ("·", "2"),
    "true": ("✓", "32"),
    "had": ("✓", "32"),
    "divided": ("~", "33"),
    "false": ("✗", "31"),
    "missing": ("✗", "31"),
}
"""Sign and ANSI colour code."""
_WIDTH = 100


def as_text(explained: ScoreExplanation, *, colour: bool) -> str:
    """Return an explanation as text.

    Args:
        explained: The explanation.
        colour: Whether words are coloured by ANSI codes, in addition to the signs.
    """
    explanation = explained.explanation
    lines = [f"{explained.label} {explained.value:.4f}{explained.mean_of}"]
    if isinstance(explanation, ObjectMatching | FactCheck):
        lines += ["", *_folded("candidate", [TextSpan(explained.candidate, None)], colour)]
        for reference in explained.references:
            lines += _folded("reference", [TextSpan(reference, None)], colour)
    if isinstance(explanation, ObjectMatching):
        lines += [
            "",
            "objects",
            *_table(object_rows(explanation), colour),
            "",
            *_legend(object_meanings(explanation), colour),
        ]
    elif isinstance(explanation, FactCheck):
        lines += _account(explanation, colour)
    else:
        for number, (reference, part) in enumerate(zip(explained.references, explanation, strict=True), 1):
            lines += ["", f"reference {number}: {part.value:.4f}"] if len(explanation) > 1 else []
            lines += _matches(reference_matches(explained.candidate, reference, part), colour)
        lines += ["", *_legend(HOWS, colour)]
    return "\n".join(lines)


def _matches(matches: ReferenceMatches, colour: bool) -> list[str]:
    """Return the lines of CAPTURE's matches of a caption and a reference."""
    lines = ["", *_folded("candidate", matches.candidate, colour), "", *_folded("reference", matches.reference, colour)]
    for title, rows in matches.groups.items():
        name = title.lower()
        head = f"{name}: {matches.counts[name]}" if name in matches.counts else name
        lines += ["", head, *(_table(rows, colour) or ["  none on either side"])]
    return lines


def _account(account: FactCheck, colour: bool) -> list[str]:
    """Return the lines of the judge's answers of DCScore, fact by fact, and the numbers of each trial."""
    lines = ["", "facts of the caption", *_facts(caption_rows(account), colour)]
    lines += ["", "facts of the oracle", *_facts(oracle_rows(account), colour)]
    trials = trial_rows(account)
    width = max(len(name) for name, _ in trials)
    heads = [f"{column:>6}" for column in COLUMNS]
    lines += ["", f"{'trials':<{width + 2}}  {'  '.join(heads)}"]
    for name, numbers in trials:
        cells = (f"{number:{len(head)}.4f}" for head, number in zip(heads, numbers, strict=True))
        lines.append(f"  {name:<{width}}  {'  '.join(cells)}")
    return [*lines, "", *_legend(fact_meanings(account), colour), *textwrap.wrap(ARITHMETIC, _WIDTH)]


def _facts(rows: Sequence[FactRow], colour: bool) -> list[str]:
    return [
        "  " + _paint(f"{_SIGNS[row.standing][0]} {row.number} {row.text}  [{row.said}]", row.standing, colour)
        for row in rows
    ]


def _legend(meanings: Mapping[Any, str], colour: bool) -> list[str]:
    return [f"{_paint(_SIGNS[how][0], how, colour)} {said}" for how, said in meanings.items()]


def _folded(side: Side, marked: Sequence[TextSpan], colour: bool) -> list[str]:
    text = "".join(re.sub(r"\s", " ", span.text) for span in marked)
    hows = [span.how for span in marked for _ in span.text]
    painted: list[str] = []
    at = 0
    # Words are folded first, as colour codes have no width.
    for line in textwrap.wrap(text, _WIDTH - 11) or [""]:
        at = text.index(line, at)
        parts = groupby(zip(line, hows[at:], strict=False), key=itemgetter(1))
        painted.append("".join(_paint("".join(sign for sign, _ in part), how, colour) for how, part in parts))
        at += len(line)
    return [f"{side if not at else '':<9}  {line}" for at, line in enumerate(painted)]


def _table(rows: Sequence[MatchRow], colour: bool) -> list[str]:
    width = min(40, max((len(row.candidate) for row in rows), default=0))
    lines = []
    for row in rows:
        said = row.remark
        if row.similarity is not None:
            said = f"{row.similarity:.3f} of the {row.of}'s"
        line = f"{row.candidate:<{width}}  {row.reference}" + (f"  [{said}]" if said else "")
        lines.append("  " + _paint(f"{_SIGNS[row.how][0]} {line}".rstrip(), row.how, colour))
    return lines


def _paint(text: str, how: How | Standing | None, colour: bool) -> str:
    return f"\x1b[{_SIGNS[how][1]}m{text}\x1b[0m" if colour and how is not None else text


def as_html(explained: ScoreExplanation, *, title: str = "") -> str:
    """Return an explanation as a self-contained HTML page without scripts.

    Args:
        explained: The explanation.
        title: Task and sample of the caption.
    """
    explanation = explained.explanation
    values: dict[str, Any] = {"objects": None, "facts": None, "of_references": ()}
    if isinstance(explanation, ObjectMatching):
        meanings: Mapping[Any, str] = object_meanings(explanation)
        values["objects"] = object_rows(explanation)
    elif isinstance(explanation, FactCheck):
        meanings = fact_meanings(explanation)
        facts = {"Facts of the caption": caption_rows(explanation), "Facts of the oracle": oracle_rows(explanation)}
        values |= {"facts": facts, "trials": trial_rows(explanation), "columns": COLUMNS, "arithmetic": ARITHMETIC}
    else:
        meanings, candidate = HOWS, explained.candidate
        pairs = zip(explained.references, explanation, strict=True)
        values["of_references"] = [reference_matches(candidate, *pair) for pair in pairs]
    heading = explained.label + (f": {title}" if title else "")
    page = templates(Path(__file__).parent).get_template("explained.html")
    values |= {"explained": explained, "heading": heading, "meanings": meanings}
    return page.render(values | embedded(("style.css", "app.css")))
