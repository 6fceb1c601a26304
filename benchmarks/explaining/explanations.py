"""The explanation of a caption's score: its parts, and how they are printed and shown as an HTML page."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from ..tables.pages.rendering import embedded, templates


class TextSpan(NamedTuple):
    """A part of a text, and the kind of match that it is marked with; None for other text."""

    text: str
    how: str | None = None


class MatchRow(NamedTuple):
    """A row of a table.

    Attributes:
        how: Kind of match; empty for a row of numbers.
        cells: A text a column.
    """

    how: str
    cells: Sequence[str]


@dataclass(frozen=True)
class ExplanationTable:
    """A table of matches, or of numbers.

    Attributes:
        title: What its rows are.
        heads: Names of the columns.
        rows: The rows.
        note: Their number, or what they make of the score.
        numbers: How many columns hold numbers: the last ones.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[MatchRow]
    note: str = ""
    numbers: int = 1


@dataclass(frozen=True)
class ExplanationPart:
    """A part of an explanation: of one reference, or of all.

    Attributes:
        candidate: The caption in parts.
        references: The reference, or all of them, in parts.
        tables: Matches.
        facts: Names and counts.
        value: The score with the reference; None of a part that is of all.
    """

    candidate: Sequence[TextSpan]
    references: Sequence[Sequence[TextSpan]]
    tables: Sequence[ExplanationTable] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    value: float | None = None

    @property
    def kinds(self) -> set[str | None]:
        """The kinds of match that occur."""
        spans = {span.how for text in (self.candidate, *self.references) for span in text}
        return spans.union(row.how for table in self.tables for row in table.rows)


@dataclass(frozen=True)
class ScoreExplanation:
    """The explanation of a caption's score.

    Attributes:
        label: Label of the metric.
        value: The score.
        method: What the score is, as the end of a sentence that begins with "The score is".
        meanings: Kinds of matches that occur, each with its meaning.
        parts: The parts, in the order of the references.
    """

    label: str
    value: float
    method: str
    meanings: Mapping[str, str]
    parts: Sequence[ExplanationPart]


def marked(words: Sequence[str], places: Iterable[tuple[tuple[int, int], str]], rest: str = "") -> list[TextSpan]:
    """Return a text of words in parts.

    Args:
        words: The words.
        places: First word of each marked phrase and the one after its last, and the kind of match.
        rest: The kind of the words between them; empty if they are not marked.
    """
    parts: list[TextSpan] = []
    end = 0
    for (start, stop), how in [*sorted(places), ((len(words), len(words)), "")]:
        parts += [TextSpan(" ".join(words[end:start]), rest or None), TextSpan(" ")] if start > end else []
        parts += [TextSpan(" ".join(words[start:stop]), how), TextSpan(" ")] if how else []
        end = stop
    return parts


_SIGNS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("equal", "exact"), ("=", "32")),
    **dict.fromkeys(("stem", "synonym"), ("≈", "36")),
    **dict.fromkeys(("similar", "paraphrase", "clipped", "divided"), ("~", "33")),
    **dict.fromkeys(("unmatched", "false", "missing", "hallucinated"), ("✗", "31")),
    **dict.fromkeys(("true", "had", "present"), ("✓", "32")),
    "left out": ("·", "2"),
}
"""Sign and ANSI colour code of a kind of match."""
_WIDTH, _CELL = 100, 40


def as_text(explained: ScoreExplanation, *, colour: bool) -> str:
    """Return an explanation as text.

    Args:
        explained: The explanation.
        colour: Whether words are coloured by ANSI codes, in addition to the signs.
    """
    lines = [f"{explained.label} {explained.value:.4f}", *textwrap.wrap(f"The score is {explained.method}.", _WIDTH)]
    for number, part in enumerate(explained.parts, 1):
        if part.value is not None and len(explained.parts) > 1:
            lines += ["", f"reference {number}: {part.value:.4f}"]
        lines += ["", *_folded("candidate", part.candidate, colour)]
        for text in part.references:
            lines += _folded("reference", text, colour)
        lines += [f"{name}: {fact}" for name, fact in part.facts.items()]
        for table in part.tables:
            lines += ["", f"{table.title}: {table.note or len(table.rows)}", *_table(table, colour)]
    legend = (f"{_paint(_SIGNS[how][0], how, colour)} {said}" for how, said in explained.meanings.items())
    return "\n".join([*lines, "", *legend])


def _folded(title: str, spans: Sequence[TextSpan], colour: bool) -> Iterator[str]:
    text = "".join(re.sub(r"\s", " ", span.text) for span in spans)
    hows = [span.how for span in spans for _ in span.text]
    at = 0
    # Words are folded first, as colour codes have no width.
    for line in textwrap.wrap(text, _WIDTH - 11) or [""]:
        start, at = at, text.index(line, at)
        parts = groupby(zip(line, hows[at:], strict=False), key=itemgetter(1))
        painted = "".join(_paint("".join(sign for sign, _ in part), how, colour) for how, part in parts)
        yield f"{'' if start else title:<9}  {painted}"
        at += len(line)


def _table(table: ExplanationTable, colour: bool) -> Iterator[str]:
    rows = [("", table.heads), *((row.how, row.cells) for row in table.rows)] if table.rows else []
    widths = [min(_CELL, max(map(len, column))) for column in zip(*(cells for _, cells in rows), strict=True)]
    first_number = len(table.heads) - table.numbers
    for how, cells in rows:
        columns = enumerate(zip(cells, widths, strict=True))
        shown = [f"{cell:{'<' if at < first_number else '>'}{width}}" for at, (cell, width) in columns]
        yield "  " + _paint(f"{_SIGNS.get(how, ' ')[0]} {'  '.join(shown)}".rstrip(), how, colour)


def _paint(text: str, how: str | None, colour: bool) -> str:
    return f"\x1b[{_SIGNS[how][1]}m{text}\x1b[0m" if colour and how else text


def as_html(explained: ScoreExplanation, title: str = "") -> str:
    """Return an explanation as a self-contained HTML page without scripts.

    Args:
        explained: The explanation.
        title: Task and sample of the caption.
    """
    heading = explained.label + (f": {title}" if title else "")
    page = templates(Path(__file__).parent).get_template("explained.html")
    return page.render(explained=explained, heading=heading, **embedded(("style.css", "app.css")))
