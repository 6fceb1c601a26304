"""A suite in words: its tasks, columns and rows, by the names under which files of the user's own fill them."""

from __future__ import annotations

import textwrap

from .given import file_name
from .read import Suite

_WIDTH = 113
_INDENT = " " * 13


def describe(suite: Suite) -> str:
    """Return a suite as lines for people.

    Args:
        suite: The suite.
    """
    tasks: dict[str, list[str]] = {}
    for column in suite.columns:
        if column.task:
            names = [column.name] if column.name else column.statistics
            tasks.setdefault(column.task, []).extend(map(file_name, names))
    rows = dict.fromkeys(file_name(suite.name(row)) for row in suite.rows)
    lines = [suite.suite, *textwrap.wrap(suite.description, 100), ""]
    lines += _part("tasks", [f"{task}: {', '.join(dict.fromkeys(names))}" for task, names in tasks.items()])
    lines += _part("rows", ["; ".join(rows)])
    lines += _part("to fill", ["DIR/TASK/ROW.jsonl with --recorded DIR, and more in docs/suites.md"])
    lines += _part("note", [suite.note] if suite.note else [])
    return "\n".join(lines)


def _part(name: str, texts: list[str]) -> list[str]:
    """Return texts beside a name, each from a line of its own on."""
    lines = [
        line
        for text in texts
        for line in textwrap.wrap(
            text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
        )
    ]
    return [name + line[len(name) :] if at == 0 else line for at, line in enumerate(lines)]
