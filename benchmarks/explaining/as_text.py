"""What CAPTURE and ALOHa matched, and what DCScore's judge said, on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ...metrics.aloha.matching import Matched
from ...metrics.capture.matching import KINDS
from ...metrics.capture.metric import Explanation
from ...metrics.dcscore.questions import Account
from .explanations import HOWS, How, Row, Side, Span, left_out, rows, spans
from .facts import ARITHMETIC, COLUMNS, FactRow, Standing, caption_rows, oracle_rows, trial_rows
from .facts import meanings as meanings_of_facts
from .objects import meanings, object_rows

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


def as_text(
    label: str,
    candidate: str,
    references: Sequence[str],
    explanations: Sequence[Explanation],
    *,
    colour: bool,
) -> str:
    """Return CAPTURE's explanations, one a reference, as text.

    Args:
        label: Which of its numbers is explained.
        candidate: The caption.
        references: What it was held against.
        explanations: One a reference.
        colour: Whether words are coloured by ANSI codes; signs say the same.
    """
    mean = sum(one.value for one in explanations) / len(explanations)
    lines = [
        f"{label} {mean:.4f}" + (f", mean of {len(explanations)} references" if len(explanations) > 1 else "")
    ]
    for number, (reference, explanation) in enumerate(zip(references, explanations, strict=True), 1):
        lines += ["", f"reference {number}: {explanation.value:.4f}"] if len(explanations) > 1 else []
        lines += ["", *_caption("candidate", candidate, explanation, colour)]
        lines += ["", *_caption("reference", reference, explanation, colour)]
        for kind in KINDS:
            matched = explanation.matched[kind]
            lines += [
                "",
                f"{kind}s: precision {matched.precision:.4f}, recall {matched.recall:.4f}, F1 {matched.f1:.4f}",
            ]
            lines += _table(rows(matched), colour) or ["  none on either side"]
        if others := left_out(explanation):
            lines += ["", "left out", *_table(others, colour)]
    return "\n".join([*lines, "", *_legend(HOWS, colour)])


def objects_as_text(
    label: str, candidate: str, references: Sequence[str], matched: Matched, *, colour: bool
) -> str:
    """Return ALOHa's matches as text, the object that is least like one of the references' first.

    Args:
        label: How the metric is called.
        candidate: The caption.
        references: What it was held against.
        matched: What was matched.
        colour: As of :func:`as_text`.
    """
    lines = [f"{label} {matched.value:.4f}", "", *_texts(candidate, references, colour)]
    lines += ["", "objects", *_table(object_rows(matched), colour), ""]
    return "\n".join([*lines, *_legend(meanings(matched), colour)])


def facts_as_text(
    label: str, candidate: str, references: Sequence[str], account: Account, *, colour: bool
) -> str:
    """Return what DCScore's judge said, fact by fact, and the numbers of each trial, as text.

    Args:
        label: How the metric is called.
        candidate: The caption.
        references: What the data set has beside it.
        account: What the judge said.
        colour: As of :func:`as_text`.
    """
    lines = [f"{label} {account.value:.4f}, the mean of both F1", "", *_texts(candidate, references, colour)]
    lines += ["", "facts of the caption", *_facts(caption_rows(account), colour)]
    lines += ["", "facts of the oracle", *_facts(oracle_rows(account), colour)]
    trials = trial_rows(account)
    width = max(len(name) for name, _ in trials)
    heads = [f"{column:>6}" for column in COLUMNS]
    lines += ["", f"{'trials':<{width + 2}}  {'  '.join(heads)}"]
    for name, numbers in trials:
        cells = (f"{number:{len(head)}.4f}" for head, number in zip(heads, numbers, strict=True))
        lines.append(f"  {name:<{width}}  {'  '.join(cells)}")
    return "\n".join(
        [*lines, "", *_legend(meanings_of_facts(account), colour), *textwrap.wrap(ARITHMETIC, _WIDTH)]
    )


def _facts(found: Sequence[FactRow], colour: bool) -> list[str]:
    return [
        "  " + _paint(f"{_SIGNS[one.standing]} {one.number} {one.text}  [{one.said}]", one.standing, colour)
        for one in found
    ]


def _texts(candidate: str, references: Sequence[str], colour: bool) -> list[str]:
    """Return a caption and its references, one below the other."""
    lines = _folded("candidate", [Span(candidate, None)], colour)
    for reference in references:
        lines += _folded("reference", [Span(reference, None)], colour)
    return lines


def _legend(meanings: Mapping[Any, str], colour: bool) -> list[str]:
    return [f"{_paint(_SIGNS[how], how, colour)} {said}" for how, said in meanings.items()]


def _caption(side: Side, text: str, explanation: Explanation, colour: bool) -> list[str]:
    return _folded(side, spans(text, explanation, side) if colour else [Span(text, None)], colour)


def _folded(side: Side, marked: Sequence[Span], colour: bool) -> list[str]:
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
                rest.insert(0, Span(part[len(line) - size :], span.how))
                part = part[: len(line) - size]
            taken += _paint(part, span.how, colour)
            size += len(part)
        painted.append(taken)
    return [f"{side if not at else '':<9}  {line}" for at, line in enumerate(painted)]


def _table(found: Sequence[Row], colour: bool) -> list[str]:
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
