"""Explanations as text for terminals, and as HTML pages."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from ...metrics.aloha import ObjectMatching
from ...metrics.dcscore import FactCheck
from ..tables.pages.rendering import templates
from . import rows as tables

_SIGNS: dict[tables.How | tables.Standing, tuple[str, str]] = {
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


def as_text(explained: tables.ScoreExplanation, *, colour: bool) -> str:
    """Return an explanation as text.

    Args:
        explained: The explanation.
        colour: Whether words are coloured by ANSI codes, in addition to the signs.
    """
    explanation = explained.explanation
    lines = [f"{explained.label} {explained.value:.4f}{explained.mean_of}"]
    if isinstance(explanation, ObjectMatching | FactCheck):
        lines += ["", *_folded("candidate", [tables.TextSpan(explained.candidate, None)], colour)]
        for reference in explained.references:
            lines += _folded("reference", [tables.TextSpan(reference, None)], colour)
    if isinstance(explanation, ObjectMatching):
        lines += [
            "",
            "objects",
            *_table(tables.object_rows(explanation), colour),
            "",
            *_legend(tables.object_meanings(explanation), colour),
        ]
    elif isinstance(explanation, FactCheck):
        lines += _account(explanation, colour)
    else:
        for number, (reference, part) in enumerate(zip(explained.references, explanation, strict=True), 1):
            lines += ["", f"reference {number}: {part.value:.4f}"] if len(explanation) > 1 else []
            lines += _matches(tables.reference_matches(explained.candidate, reference, part), colour)
        lines += ["", *_legend(tables.HOWS, colour)]
    return "\n".join(lines)


def _matches(matches: tables.ReferenceMatches, colour: bool) -> list[str]:
    """Return the lines of CAPTURE's matches of a caption and a reference."""
    lines = ["", *_folded("candidate", matches.candidate, colour), "", *_folded("reference", matches.reference, colour)]
    for title, rows in matches.groups.items():
        name = title.lower()
        head = f"{name}: {matches.counts[name]}" if name in matches.counts else name
        lines += ["", head, *(_table(rows, colour) or ["  none on either side"])]
    return lines


def _account(account: FactCheck, colour: bool) -> list[str]:
    """Return the lines of the judge's answers of DCScore, fact by fact, and the numbers of each trial."""
    lines = ["", "facts of the caption", *_facts(tables.caption_rows(account), colour)]
    lines += ["", "facts of the oracle", *_facts(tables.oracle_rows(account), colour)]
    trials = tables.trial_rows(account)
    width = max(len(name) for name, _ in trials)
    heads = [f"{column:>6}" for column in tables.COLUMNS]
    lines += ["", f"{'trials':<{width + 2}}  {'  '.join(heads)}"]
    for name, numbers in trials:
        cells = (f"{number:{len(head)}.4f}" for head, number in zip(heads, numbers, strict=True))
        lines.append(f"  {name:<{width}}  {'  '.join(cells)}")
    return [*lines, "", *_legend(tables.fact_meanings(account), colour), *textwrap.wrap(tables.ARITHMETIC, _WIDTH)]


def _facts(rows: Sequence[tables.FactRow], colour: bool) -> list[str]:
    return [
        "  " + _paint(f"{_SIGNS[row.standing][0]} {row.number} {row.text}  [{row.said}]", row.standing, colour)
        for row in rows
    ]


def _legend(meanings: Mapping[Any, str], colour: bool) -> list[str]:
    return [f"{_paint(_SIGNS[how][0], how, colour)} {said}" for how, said in meanings.items()]


def _folded(side: tables.Side, marked: Sequence[tables.TextSpan], colour: bool) -> list[str]:
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


def _table(rows: Sequence[tables.MatchRow], colour: bool) -> list[str]:
    width = min(40, max((len(row.candidate) for row in rows), default=0))
    lines = []
    for row in rows:
        said = row.remark
        if row.similarity is not None:
            said = f"{row.similarity:.3f} of the {row.of}'s"
        line = f"{row.candidate:<{width}}  {row.reference}" + (f"  [{said}]" if said else "")
        lines.append("  " + _paint(f"{_SIGNS[row.how][0]} {line}".rstrip(), row.how, colour))
    return lines


def _paint(text: str, how: tables.How | tables.Standing | None, colour: bool) -> str:
    return f"\x1b[{_SIGNS[how][1]}m{text}\x1b[0m" if colour and how is not None else text


def as_html(explained: tables.ScoreExplanation, *, title: str = "") -> str:
    """Return an explanation as a self-contained HTML page without scripts.

    Args:
        explained: The explanation.
        title: Task and sample of the caption.
    """
    explanation = explained.explanation
    values: dict[str, Any] = {"objects": None, "facts": None, "of_references": ()}
    if isinstance(explanation, ObjectMatching):
        meanings: Mapping[Any, str] = tables.object_meanings(explanation)
        values["objects"] = tables.object_rows(explanation)
    elif isinstance(explanation, FactCheck):
        meanings = tables.fact_meanings(explanation)
        own, oracle = tables.caption_rows(explanation), tables.oracle_rows(explanation)
        values["facts"] = {"Facts of the caption": own, "Facts of the oracle": oracle}
        values |= {"trials": tables.trial_rows(explanation), "columns": tables.COLUMNS, "arithmetic": tables.ARITHMETIC}
    else:
        meanings, candidate = tables.HOWS, explained.candidate
        values["of_references"] = [
            (tables.reference_matches(candidate, reference, part), part.matched)
            for reference, part in zip(explained.references, explanation, strict=True)
        ]
    heading = explained.label + (f": {title}" if title else "")
    page = templates(Path(__file__).parent).get_template("explained.html")
    return page.render(explained=explained, heading=heading, meanings=meanings, **values)
