"""Differences between two leaderboards, as a Markdown comment."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...boundary import unlinked
from ...errors import BenchError, DataError, UsageError
from ..tables.text import show_difference, show_number
from .build import leaderboard_files, listed_files
from .formats import JSON_FILE, SCHEMA_VERSION, markdown, with_excerpt

_Json = Mapping[str, Any]
_EMPTY: _Json = {"tables": [], "left_out": []}


def read_leaderboard(named: str, folder: Path) -> tuple[_Json, str]:
    """Return a leaderboard as JSON, and a note on it; the note is empty if there is none.

    Args:
        named: Its folder, its ``leaderboard.json``, or a git revision that contains it.
        folder: The folder of the leaderboard in the working tree; its path in the revision is the same.

    Raises:
        UsageError: ``named`` is none of these.
        DataError: The leaderboard cannot be read.
    """
    path = Path(named)
    if (path / JSON_FILE).is_file():
        path = path / JSON_FILE
    if path.is_file():
        return _parsed(unlinked(path).read_bytes(), str(path)), ""
    return _of_revision(named, folder)


def _of_revision(revision: str, folder: Path) -> tuple[_Json, str]:
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
    commit = f"{revision}^{{commit}}"
    # Git would read a revision with a leading dash as an option.
    if revision.startswith("-") or git_output(place, "rev-parse", "--verify", "--quiet", commit) is None:
        raise UsageError(
            f"'{revision}' is neither a leaderboard ({JSON_FILE} or its folder) nor a git revision",
            "Give a branch, a tag or a commit: bench leaderboard diff main",
        )
    path = (folder.absolute() / JSON_FILE).relative_to(place).as_posix()
    content = git_output(place, "show", f"{revision}:./{path}")
    if content is None:
        return _EMPTY, f"{revision} has no leaderboard in {folder}."
    return _parsed(content, f"{revision}:{path}"), ""


def git_output(place: Path, *arguments: str) -> bytes | None:
    """Return the output of git, or None if git fails.

    Args:
        place: A folder of the working tree.
        *arguments: The arguments; a revision among them must be known to be one.

    Raises:
        DataError: There is no git.
    """
    try:
        done = subprocess.run(["git", "-C", str(place), *arguments], capture_output=True, check=False)
    except FileNotFoundError as error:
        raise DataError("git is not installed", f"Give the {JSON_FILE} of both leaderboards instead.") from error
    return done.stdout if done.returncode == 0 else None


def _parsed(content: bytes, name: str) -> _Json:
    try:
        board = json.loads(content)
        # Access every compared field here, so that a damaged file is reported once.
        moved_lines(board, board)
        if board["schema_version"] != SCHEMA_VERSION:
            raise ValueError(board["schema_version"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(
            f"{name}: is not a readable leaderboard of schema version {SCHEMA_VERSION}",
            "Rebuild it: bench leaderboard build",
        ) from error
    return board


def comment(base: _Json, head: _Json, note: str = "") -> str:
    """Return the changes from one leaderboard to another, in Markdown.

    Args:
        base: The content of the earlier ``leaderboard.json``.
        head: The content of the later one.
        note: Text above the changes.
    """
    lines = ["### Leaderboard", "", *([markdown(note), ""] if note else [])]
    changes = moved_lines(base, head)
    return "\n".join([*lines, *(changes or ["No changes."])])


def moved_lines(base: _Json, head: _Json) -> list[str]:
    """Return a table of the cells that changed, for each task, and the runs that are left out since; or nothing."""
    lines: list[str] = []
    before, after = _tables(base), _tables(head)
    for key in sorted(before.keys() | after.keys()):
        table = after.get(key) or before[key]
        old, new = _cells(before.get(key)), _cells(after.get(key))
        moved = [_moved(place, old.get(place), new.get(place)) for place in dict.fromkeys([*new, *old])]
        if any(moved):
            lines += [f"**{markdown(table['alias'])}** (version {markdown(str(table['version']))})", "", *_HEAD]
            lines += [*filter(None, moved), ""]
    known = {(run["key"], run["reason"]) for run in base["left_out"]}
    left_out = [run for run in head["left_out"] if (run["key"], run["reason"]) not in known]
    if left_out:
        lines += ["**Excluded runs**", ""]
        lines += [f"- {markdown(run['key'])}: {markdown(run['reason'])}" for run in left_out]
    return lines


_HEAD = ("| Row | Column | before | now | difference | rank |", "| :-- | :-- | --: | --: | --: | :-- |")
_Place = tuple[str, str]
"""A row and a column."""


def _tables(board: _Json) -> dict[tuple[str, str], _Json]:
    return {(table["task"], str(table["version"])): table for table in board["tables"]}


def _cells(table: _Json | None) -> dict[_Place, _Json]:
    """Return the cells of a table, with the scale and decimals of their columns."""
    return {
        (_name(row), markdown(column["label"])): column | cell
        for row in (table["rows"] if table else ())
        for column, cell in zip(table["columns"] if table else (), row["cells"], strict=True)
        if cell is not None
    }


def _name(row: _Json) -> str:
    by = f" ({markdown(row['model'])})" if row["model"] else ""
    return f"{markdown(row['name'])}{by}{', published only' if row['kind'] == 'published' else ''}"


def _moved(place: _Place, *cells: _Json | None) -> str:
    """Return the line of a cell, before and now; empty if nothing of it changed."""
    compared = ("value", "rank", "published", "group")
    values: list[list[Any]] = [[cell[key] for key in compared] if cell else [None] * 4 for cell in cells]
    old, new = values
    if old == new:
        return ""
    shown = [
        "–" if cell is None or cell["value"] is None else show_number(cell["value"] * cell["scale"], cell["decimals"])
        for cell in cells
    ]
    column = cells[1] or cells[0] or {}
    is_in_both, is_rank = "–" not in shown, old[1] != new[1]
    moved = (new[0] - old[0]) * column["scale"] if is_in_both else 0
    difference = show_difference(moved, column["decimals"])
    if not float(difference):
        same = "group or published value" if is_in_both and not is_rank else ""
        difference = f"{moved:+.1e}" if moved else same
    rank = " → ".join("–" if value is None else str(value) for value in (old[1], new[1])) if is_rank else ""
    return f"| {' | '.join((*place, *shown, difference, rank))} |"


_MOST_LINES = 60


def differences(runs: Path, output: Path, readme_of_repository: Path | None = None) -> list[str]:
    """Return the files of a leaderboard that a new build would change, and the changes in its tables; empty if none.

    Args:
        runs: The folder of the runs.
        output: The folder of the leaderboard.
        readme_of_repository: A Markdown file with the top rows.

    Raises:
        UsageError: ``runs`` is a file.
        DataError: The Markdown file has no markers.
    """
    board, files = leaderboard_files(runs)
    paths: set[str] = set()
    changes: list[str] = []
    moved: list[str] = []
    for path, content in files:
        paths.add(path)
        try:
            there = unlinked(output / path).read_bytes()
        except OSError:
            changes.append(f"missing: {path}")
            continue
        if there != content:
            changes.append(f"differs: {path}")
            if path == JSON_FILE:
                try:
                    moved = moved_lines(_parsed(there, str(output / path)), json.loads(content))
                except BenchError as error:
                    moved = [str(error)]
    if readme_of_repository:
        now = with_excerpt(readme_of_repository, board).encode()
        changes += [f"differs: {readme_of_repository}"] if now != readme_of_repository.read_bytes() else []
    changes += [f"obsolete: {path}" for path in listed_files(output) if path not in paths]
    more = len(moved) - _MOST_LINES
    cut = [f"... and {more:,} more lines"] if more > 0 else []
    return [*sorted(changes), *([""] if moved else []), *moved[:_MOST_LINES], *cut]
