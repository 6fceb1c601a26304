"""Says whether a leaderboard is what the runs give."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path

from ...boundary import unlinked
from ...errors import BenchError
from .build import listed_files, made
from .diff import moved_lines, read_leaderboard
from .excerpt import with_excerpt
from .formats.plain import JSON_FILE

_MOST_LINES = 60
_EXPLAINED = (JSON_FILE, "README.md")
"""Files of which it is said what differs in them."""


def differences(runs: Path, output: Path, readme_of_repository: Path | None = None) -> list[str]:
    """Return how the leaderboard in a folder differs from the one that the runs give; nothing if it does not.

    Args:
        runs: The folder of the runs.
        output: The folder of the leaderboard.
        readme_of_repository: A Markdown file that shows the top rows.

    Raises:
        UsageError: ``runs`` is a file.
        DataError: The Markdown file has no marks.
    """
    board, files = made(runs)
    paths: set[str] = set()
    missing: list[str] = []
    changed: dict[str, bytes] = {}
    for path, content in files:
        paths.add(path)
        if not (output / path).is_file():
            missing.append(path)
        elif (there := _content(output / path)) is not None and there != content:
            changed[path] = content if path in _EXPLAINED else b""
    lines = [f"missing: {path}" for path in sorted(missing)]
    lines += [f"differs: {path}" for path in sorted(changed)]
    lines += [
        f"no longer made: {path}" for path in listed_files(output) if path not in paths and (output / path).is_file()
    ]
    if JSON_FILE in changed:
        lines += _moved(output, changed[JSON_FILE])
    if "README.md" in changed:
        there = _content(output / "README.md") or b""
        lines += ["", *_unified("README.md", there, changed["README.md"])]
    if readme_of_repository:
        now = with_excerpt(readme_of_repository, board).encode()
        if now != (there := readme_of_repository.read_bytes()):
            name = str(readme_of_repository)
            lines += [f"differs: {name}", "", *_unified(name, there, now)]
    return lines


def _content(path: Path) -> bytes | None:
    try:
        return unlinked(path).read_bytes()
    except OSError:
        return None


def _moved(output: Path, made_now: bytes) -> Iterator[str]:
    """Yield what moved, from the leaderboard that is there to the one that the runs give."""
    try:
        there, _ = read_leaderboard(str(output / JSON_FILE), output)
    except BenchError as error:
        yield str(error)
        return
    if moved := moved_lines(there, json.loads(made_now)):
        yield from ("", *_cut(moved))


def _unified(name: str, there: bytes, made_now: bytes) -> list[str]:
    before, now = (content.decode("utf-8", "replace").splitlines() for content in (there, made_now))
    return _cut(list(difflib.unified_diff(before, now, f"{name} as it is", f"{name} of the runs", n=1, lineterm="")))


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"... and {more:,} more lines"] if more > 0 else lines
