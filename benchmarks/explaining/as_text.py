"""What CAPTURE and ALOHa matched, and what DCScore's judge said, on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ...metrics.aloha.matching import ObjectMatching
from ...metrics.capture.matching import KINDS
from ...metrics.capture.metric import Explanation
from ...metrics.dcscore.questions import FactCheck
from .rows import (
    ARITHMETIC,
    COLUMNS,
    HOWS,
    FactRow,
    How,
    MatchRow,
    ScoreExplanation,
    Side,
    Standing,
    TextSpan,
    caption_rows,
    fact_meanings,
    left_out,
    object_meanings,
    object_rows,
    oracle_rows,
    rows,
    spans,
    trial_rows,
)

_COLOURS: dict[How | Standing, str] = {
    "equal": "32",
    "synonym": "36",
    "similar": "33",
    "unmatched": "31",
    "left out": "2",
    "true": "32",
    "had": "32",
    "divided": "33",
    "false": "31",
    "missing": "31",
}
_SIGNS: dict[How | Standing, str] = {
    "equal": "=",
    "synonym": "≈",
    "similar": "~",
    "unmatched": "✗",
    "left out": "·",
    "true": "✓",
    "had": "✓",
    "divided": "~",
    "false": "✗",
    "missing": "✗",
}
_WIDTH = 100


def as_text(explained: ScoreExplanation, *, colour: bool) -> str:
    """Return an explanation as text.

    Args:
        explained: The explanation.
        colour: Whether words are coloured by ANSI codes; signs say the same.
    """
    label, found = explained.label, explained.found
    texts = _texts(explained.candidate, explained.references, colour)
    if isinstance(found, ObjectMatching):
        lines = [f"{label} {found.value:.4f}", "", *texts]
        lines += ["", "objects", *_table(object_rows(found), colour), ""]
        lines += _legend(object_meanings(found), colour)
    elif isinstance(found, FactCheck):
        lines = [f"{label} {found.value:.4f}, the mean of both F1", "", *texts, *_account(found, colour)]
    else:
        mean = sum(one.value for one in found) / len(found)
        lines = [f"{label} {mean:.4f}" + (f", mean of {len(found)} references" if len(found) > 1 else "")]
        for number, (reference, one) in enumerate(zip(explained.references, found, strict=True), 1):
            lines += ["", f"reference {number}: {one.value:.4f}"] if len(found) > 1 else []
            lines += _matches(explained.candidate, reference, one, colour)
        lines += ["", *_legend(HOWS, colour)]
    return "\n".join(lines)


def _matches(candidate: str, reference: str, explanation: Explanation, colour: bool) -> list[str]:
    """Return what CAPTURE matched of a caption and a reference."""
    lines = ["", *_caption("candidate", candidate, explanation, colour)]
    lines += ["", *_caption("reference", reference, explanation, colour)]
    for kind in KINDS:
        matched = explanation.matched[kind]
        lines += ["", f"{kind}s: precision {matched.precision:.4f}, recall {matched.recall:.4f}, F1 {matched.f1:.4f}"]
        lines += _table(rows(matched), colour) or ["  none on either side"]
    if others := left_out(explanation):
        lines += ["", "left out", *_table(others, colour)]
    return lines


def _account(account: FactCheck, colour: bool) -> list[str]:
    """Return what DCScore's judge said, fact by fact, and the numbers of each trial."""
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


def _facts(found: Sequence[FactRow], colour: bool) -> list[str]:
    return [
        "  " + _paint(f"{_SIGNS[one.standing]} {one.number} {one.text}  [{one.said}]", one.standing, colour)
        for one in found
    ]


def _texts(candidate: str, references: Sequence[str], colour: bool) -> list[str]:
    """Return a caption and its references, one below the other."""
    lines = _folded("candidate", [TextSpan(candidate, None)], colour)
    for reference in references:
        lines += _folded("reference", [TextSpan(reference, None)], colour)
    return lines


def _legend(meanings: Mapping[Any, str], colour: bool) -> list[str]:
    return [f"{_paint(_SIGNS[how], how, colour)} {said}" for how, said in meanings.items()]


def _caption(side: Side, text: str, explanation: Explanation, colour: bool) -> list[str]:
    return _folded(side, spans(text, explanation, side) if colour else [TextSpan(text, None)], colour)


def _folded(side: Side, marked: Sequence[TextSpan], colour: bool) -> list[str]:
    text = "".join(one.text for one in marked)
    # Words are folded first, as colour codes have no width.
    folded = textwrap.wrap(text, _WIDTH - 11) or [""]
    painted: list[str] = []
    rest = list(marked)
    for line in folded:
        taken, size = "", 0
        while rest and size < len(line):
            span = rest.pop(0)
            part = span.text if size or taken else span.text.lstrip()
            if len(part) > len(line) - size:
                rest.insert(0, TextSpan(part[len(line) - size :], span.how))
                part = part[: len(line) - size]
            taken += _paint(part, span.how, colour)
            size += len(part)
        painted.append(taken)
    return [f"{side if not at else '':<9}  {line}" for at, line in enumerate(painted)]


def _table(found: Sequence[MatchRow], colour: bool) -> list[str]:
    width = min(40, max((len(row.candidate) for row in found), default=0))
    lines = []
    for row in found:
        said = row.remark
        if row.similarity is not None:
            said = f"{row.similarity:.3f} of the {row.of}'s"
        line = f"{row.candidate:<{width}}  {row.reference}" + (f"  [{said}]" if said else "")
        lines.append("  " + _paint(f"{_SIGNS[row.how]} {line}".rstrip(), row.how, colour))
    return lines


def _paint(text: str, how: How | Standing | None, colour: bool) -> str:
    return f"\x1b[{_COLOURS[how]}m{text}\x1b[0m" if colour and how is not None else text
