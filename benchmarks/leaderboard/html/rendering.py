"""Renders the leaderboard's pages: each embeds its style and scripts, and loads nothing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from ...tables.pages.rendering import asset, inline_policy, page_name, templates
from ..board import Board, BoardRun

_HERE = Path(__file__).parent


def rendered(template: str, **values: Any) -> bytes:
    """Render a self-contained page.

    Args:
        template: A file in ``templates/``.
        values: Template values.
    """
    page = _environment().get_template(template).render(values)
    # JSON may contain unpaired surrogates, which UTF-8 cannot encode.
    return page.encode("utf-8", "replace")


@cache
def _environment() -> jinja2.Environment:
    style, theme, columns = asset("style.css"), asset("theme.js"), asset("columns.js")
    tables = (_HERE / "tables.js").read_text(encoding="utf-8").strip()
    environment = templates(_HERE / "templates")
    environment.globals |= {
        "policy": Markup(inline_policy(style, (theme, columns, tables))),  # noqa: S704 - contains no values of runs
        "address": address,
    }
    files = {"style": style, "theme": theme, "columns_script": columns, "tables_script": tables}
    # Only files of capbench, no text of users.
    environment.globals |= {name: Markup(text) for name, text in files.items()}  # noqa: S704
    return environment


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
