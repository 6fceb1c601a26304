"""What all pages are put together from: documents, escaped text, numbers, links."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

from ...tables.html_text import html_text
from ...tables.pages.rendering import asset
from ..board import BoardRun


def text(value: object) -> str:
    """Return a value as text that is safe between tags and in quoted attributes."""
    return html_text(value)


def ident(name: str) -> str:
    """Return a name as an ``id`` that a link can hold as it is."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)


def number(value: float, decimals: int, sign: bool = False) -> str:
    """Return a number with a true minus sign, and never minus zero."""
    shown = f"{value:+.{decimals}f}" if sign else f"{value:.{decimals}f}"
    if not any(digit in "123456789" for digit in shown):
        shown = shown.replace("-", "+" if sign else "")
    return shown.replace("-", "−")


def date(run: BoardRun) -> str:
    """Return when a run began, in UTC, to the minute."""
    return f"{run.record.started:%Y-%m-%d %H:%M}"


def model_of(run: BoardRun) -> str:
    """Return the model of a run, as text."""
    return run.record.model_name or "no model"


def run_pages(runs: Iterable[BoardRun]) -> dict[str, str]:
    """Return, by the key of a run, the path of its page: ASCII, and unique where capitals do not count.

    A name that does not say its key in full carries a hash of it.
    """
    pages: dict[str, str] = {}
    taken: set[str] = set()
    for run in runs:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", run.key.replace("/", "--")).lstrip(".-") or "run"
        if name != run.key.replace("/", "--") or name.lower() in taken or len(name) > 150:
            name = f"{name[:150]}-{hashlib.sha256(run.key.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
        taken.add(name.lower())
        pages[run.key] = f"runs/{name}.html"
    return pages


def link(address: str, shown: str) -> str:
    """Return a link to another page of the leaderboard; ``shown`` is markup."""
    return f'<a href="{text(quote(address, safe="/#.-_"))}">{shown}</a>'


def marks(found: Sequence[str]) -> str:
    """Return the marks of a run as a list, or nothing."""
    if not found:
        return ""
    return f'<ul class="marks">{"".join(f"<li>{text(one)}</li>" for one in found)}</ul>'


def scrolling(label: str, table: str) -> str:
    """Return a table in a box that scrolls sideways, by keyboard too."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}">{table}</div>'


def facts(entries: Mapping[str, object]) -> str:
    """Return names and values as a list; an empty value is a dash."""
    items = "".join(
        f"<dt>{text(name)}</dt><dd>{text(value) if value not in (None, '') else '–'}</dd>"
        for name, value in entries.items()
    )
    return f'<dl class="facts">{items}</dl>'


class Footnotes:
    """Numbered reasons below a table; a cell links to its own, so a keyboard reaches it.

    Args:
        prefix: What the ids of this table's notes begin with.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._numbers: dict[str, int] = {}

    def mark(self, reason: str) -> str:
        """Return the link of an empty cell to its reason."""
        place = self._numbers.setdefault(reason, len(self._numbers) + 1)
        return (
            f'<span class="empty">–<sup><a href="#{self.prefix}-n{place}" '
            f'aria-label="no value, note {place}">{place}</a></sup></span>'
        )

    def listing(self, notes: Sequence[str] = ()) -> str:
        """Return the notes that stand below the table, the numbered ones first."""
        numbered = "".join(
            f'<li id="{self.prefix}-n{place}">{text(reason)}</li>' for reason, place in self._numbers.items()
        )
        listed = f'<ol class="notes">{numbered}</ol>' if numbered else ""
        if notes:
            listed += f'<ul class="notes">{"".join(f"<li>{text(note)}</li>" for note in notes)}</ul>'
        return listed


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8").strip()


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def document(title: str, body: str, *, scripts: Sequence[str] = ()) -> bytes:
    """Return a whole page, which runs and fetches nothing but what is written here.

    Args:
        title: As plain text.
        body: Markup between the body's tags.
        scripts: Files beside this one that run at the end of the page, beyond the theme's.
    """
    style, theme = asset("style.css"), asset("theme.js")
    after = [_asset(name) for name in scripts]
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {' '.join(map(_hash, [theme, *after]))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{text(title)}</title>",
            '<link rel="icon" href="data:,">',
            f"<style>{style}</style>",
            f"<script>{theme}</script>",
            "</head>",
            "<body>",
            body,
            *(f"<script>{source}</script>" for source in after),
            "</body>",
            "</html>\n",
        ]
    )
    # JSON may hold half of a surrogate pair, which UTF-8 does not.
    return page.encode("utf-8", "replace")
