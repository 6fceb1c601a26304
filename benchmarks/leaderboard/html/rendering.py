"""Renders the leaderboard's pages: they work as local files, and load nothing but its own style and scripts."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...tables.pages.rendering import asset, page_name, templates
from ..board import Board, BoardRun

_POLICY = (
    "default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def rendered(template: str, **values: Any) -> bytes:
    """Render a page.

    Args:
        template: A file in ``templates/``.
        values: Template values.
    """
    environment = templates(Path(__file__).parent / "templates", policy=_POLICY, address=address)
    page = environment.get_template(template).render(values)
    # JSON may contain unpaired surrogates, which UTF-8 cannot encode.
    return page.encode("utf-8", "replace")


def assets() -> dict[str, bytes]:
    """Return the style sheet and the scripts of all pages."""
    return {name: asset(name).encode() for name in ("style.css", "theme.js", "columns.js", "tables.js")}


def address(path: str) -> str:
    """Return the path of a page, escaped for a link."""
    return quote(path, safe="/#.-_")


def run_pages(runs: Iterable[BoardRun]) -> dict[str, str]:
    """Return the path of each run's page by the key of the run."""
    taken: set[str] = set()
    return {run.key: f"runs/{page_name(run.key, taken)}.html" for run in runs}


def task_pages(board: Board) -> dict[str, str]:
    """Return the path of each table's page by its anchor; empty for a small board."""
    taken: set[str] = set()
    tables = board.tables if board.is_large else ()
    return {table.anchor: f"tasks/{page_name(table.anchor, taken)}.html" for table in tables}
