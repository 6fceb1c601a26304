"""Says how far a session is, how far raters agree, and what a narrower interval would need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...errors import counted
from ..tables.results import TABULATE_FORMATS
from .answers import Answer, Key
from .figures import RESAMPLES, Figure, figures
from .session import Session

_LEFT = ("Rater", "Figure", "Of")


def report(session: Session, given: Mapping[str, Mapping[Key, Answer]], reach: float, fmt: str) -> str:
    """Return what is to be said of a session, for a terminal or a paper.

    Args:
        session: The session.
        given: The answers that stand, by rater.
        reach: How far intervals are to reach to each side, of the range of a scale or of 1.
        fmt: ``github`` and ``latex`` give tables, ``json`` and ``csv`` plain values.
    """
    found = figures(session, given) if given else []
    if fmt in ("json", "csv"):
        return _plain(session, given, found, reach, fmt)
    if not found:
        return _said(session, given)
    from tabulate import tabulate

    raters = [
        {"Rater": name, "Answers": f"{len(answers):,}", "Asked": f"{session.wanted:,}"}
        for name, answers in sorted(given.items())
    ]
    rows = [_row(figure, reach) for figure in found]
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    figure_rows = [{name: row[name] for name in shown} for row in rows]
    tables = [
        tabulate(
            table,
            headers="keys",
            tablefmt=TABULATE_FORMATS[fmt],
            disable_numparse=True,
            colalign=["left" if name in _LEFT else "right" for name in table[0]],
        )
        for table in (raters, figure_rows)
    ]
    return "\n\n".join([_said(session, given), *tables, "\n".join(_notes(found, reach))])


def _said(session: Session, given: Mapping[str, Mapping[Key, Answer]]) -> str:
    total = sum(map(len, given.values()))
    unknown = sum(answer is None for answers in given.values() for answer in answers.values())
    cannot = f", {unknown:,} of them 'cannot tell', which count nowhere" if unknown else ""
    return (
        f"{session.folder}: {counted(total, 'answer')} of {counted(len(given), 'rater')}{cannot}; "
        f"{counted(session.wanted, 'answer')} are asked of each ({counted(len(session.items), 'image')})"
        f"{_not_asked(session)}"
    )


def _not_asked(session: Session) -> str:
    equal = sum(not item.has_choice for item in session.items)
    if not equal or not session.asked.together:
        return ""
    return f"; nobody is asked of {counted(equal, 'image')} with equal captions of all systems: no difference"


def _row(figure: Figure, reach: float) -> dict[str, str]:
    interval, more = figure.interval, figure.more(reach)
    known = interval is not None and interval.low is not None and interval.high is not None
    return {
        "Figure": figure.name,
        "Of": figure.of,
        "Value": "–" if figure.value is None else f"{figure.value:.3f}".replace("-", "−"),
        "95% CI": f"[{interval.low:.3f}, {interval.high:.3f}]".replace("-", "−")
        if known and interval
        else "",
        "Images": f"{figure.images:,}",
        "Answers": f"{figure.answers:,}",
        f"For ±{reach:g}": "" if more is None else "reached" if not more[0] else f"{more[0]:,} more images",
        "Which are": f"{more[1]:,} more answers" if more and more[0] else "",
    }


def _notes(found: list[Figure], reach: float) -> list[str]:
    undefined: dict[str, list[str]] = {}
    for figure in found:
        if figure.reason:
            undefined.setdefault(figure.reason, []).append(" ".join(filter(None, (figure.name, figure.of))))
    wide = any(figure.span != 1 for figure in found)
    of = f" (of means: {reach:g} of the range of their scale)" if wide else ""
    return [
        *(f"{', '.join(names)}: {reason}." for reason, names in undefined.items()),
        f"Intervals are of {RESAMPLES:,} resamples of images. For ±W = ±{reach:g}{of}, n images with an interval of "
        "±w give n·(w/W)², each with as many answers as so far (docs/rate.md).",
    ]


def _plain(
    session: Session, given: Mapping[str, Mapping[Key, Answer]], found: list[Figure], reach: float, fmt: str
) -> str:
    rows: list[dict[str, Any]] = []
    for figure in found:
        more = figure.more(reach) or (None, None)
        rows.append(
            {
                "figure": figure.name,
                "of": figure.of,
                "value": figure.value,
                "low": figure.interval.low if figure.interval else None,
                "high": figure.interval.high if figure.interval else None,
                "images": figure.images,
                "answers": figure.answers,
                "reach": reach,
                "more_images": more[0],
                "more_answers": more[1],
                "reason": figure.reason,
            }
        )
    if fmt == "csv":
        from ..tables.csv_text import csv_text

        return csv_text(rows)
    raters = {name: len(answers) for name, answers in sorted(given.items())}
    told = {"asked": session.wanted, "raters": raters, "figures": rows}
    return json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False)
