"""Makes the leaderboard's pages of its templates: each holds its style and scripts, and fetches nothing."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...tables.pages.rendering import asset, templates
from ..board import Board, BoardRun, TaskTable

if TYPE_CHECKING:
    import jinja2

_HERE = Path(__file__).parent


def rendered(template: str, **values: Any) -> bytes:
    """Return a page, which runs and fetches nothing but what is written in it.

    Args:
        template: A file of ``templates/``.
        values: What it shows.
    """
    page = _environment().get_template(template).render(values)
    # JSON may hold half of a surrogate pair, which UTF-8 does not.
    return page.encode("utf-8", "replace")


@cache
def _environment() -> jinja2.Environment:
    from markupsafe import Markup

    style, theme, columns = asset("style.css"), asset("theme.js"), asset("columns.js")
    tables = (_HERE / "tables.js").read_text(encoding="utf-8").strip()
    scripts = " ".join(map(_hash, (theme, columns, tables)))
    made = templates(_HERE / "templates")
    made.globals |= {
        "policy": Markup(  # noqa: S704 - no value of a run is in it
            f"default-src 'none'; style-src {_hash(style)}; script-src {scripts}; img-src data:; base-uri 'none'; "
            "form-action 'none'"
        ),
        # Files of capbench, and nobody else's text.
        "style": Markup(style),  # noqa: S704
        "theme": Markup(theme),  # noqa: S704
        "columns_script": Markup(columns),  # noqa: S704
        "tables_script": Markup(tables),  # noqa: S704
    }
    return made


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def ident(name: str) -> str:
    """Return a name as an ``id`` that a link can hold as it is."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)


def address(path: str) -> str:
    """Return the path of a page as a link holds it."""
    return quote(path, safe="/#.-_")


def task_id(table: TaskTable) -> str:
    """Return the ``id`` of the table of a task."""
    return "task-" + ident(table.anchor)


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


def task_pages(board: Board) -> dict[str, str]:
    """Return, by a table's anchor, the path of its page: unique where capitals do not count; none of a small board."""
    paths: dict[str, str] = {}
    taken: set[str] = set()
    for table in board.tables if board.is_large else ():
        name = first = ident(table.anchor)
        while name.lower() in taken:
            name = f"{first}-{len(taken)}"
        taken.add(name.lower())
        paths[table.anchor] = f"tasks/{name}.html"
    return paths
