"""Writes all files of a leaderboard."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from pathlib import Path

from ...atomic_files import DRAFT, draft_beside, remove_abandoned, write_whole
from ...boundary import unlinked
from ...errors import UsageError, writing
from ...tasks.index import TaskIndex, build_index
from .board import Board, BoardRun, OmittedRun, TaskTable
from .collect import collect
from .formats import JSON_FILE, csv_file, json_file, latex_files, readme, with_excerpt
from .html.index import OVERVIEW_PAGE, index_page, overview_page, task_page
from .html.rendering import assets, run_pages, task_pages
from .html.run import run_page
from .suites_of_board import suite_tables
from .task_tables import rank_tables, task_table


def build(runs: Path, output: Path, readme_of_repository: Path | None = None) -> Board:
    """Build the leaderboard from the runs in a folder.

    Removes files of an earlier leaderboard that are no longer part of it; keeps other files.

    Args:
        runs: The folder of the runs; a missing folder gives an empty leaderboard.
        output: The folder of the leaderboard.
        readme_of_repository: A Markdown file; the top rows are written between its two markers.

    Raises:
        UsageError: ``runs`` is a file, or the leaderboard cannot be written.
        DataError: The Markdown file has no markers.
    """
    board, files = leaderboard_files(runs)
    text = with_excerpt(readme_of_repository, board) if readme_of_repository else ""
    with writing(output, "Choose another folder with --output."):
        _write(files, output)
        if readme_of_repository:
            write_whole(readme_of_repository, text)
    return board


def leaderboard_files(runs: Path) -> tuple[Board, Iterator[tuple[str, bytes]]]:
    """Return the leaderboard of the runs in a folder, and an iterator over its files (relative path, content).

    The output is deterministic. Files are generated lazily, as there is one per run;
    ``leaderboard.json``, which lists all others, comes last.

    Raises:
        UsageError: ``runs`` is a file.
    """
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"--runs {runs}: is not a folder", "Give the folder that 'bench run --output_path' wrote to.")
    index = build_index()
    collected, left_out = collect(runs, index)
    board = board_of(collected, left_out, index)
    return board, _files(board)


def _files(board: Board) -> Iterator[tuple[str, bytes]]:
    paths = [JSON_FILE]
    for path, content in chain((readme(board) | csv_file(board) | latex_files(board) | assets()).items(), pages(board)):
        paths.append(path)
        yield path, content
    yield JSON_FILE, json_file(board, paths)


def listed_files(folder: Path) -> list[str]:
    """Return the files in a folder that its ``leaderboard.json`` lists; empty if there is none, or it was damaged."""
    try:
        listed = json.loads(unlinked(folder / JSON_FILE).read_text(encoding="utf-8"))["files"]
        return sorted({path for path in listed if _inside(folder, path)})
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _inside(folder: Path, path: str) -> bool:
    """Return whether a file is in the folder; the list may have been edited."""
    file = folder / path
    return ".." not in Path(path).parts and file.is_file() and file.resolve().is_relative_to(folder.resolve())


def _write(files: Iterable[tuple[str, bytes]], output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    remove_abandoned(output.glob(f"{DRAFT}*"))
    earlier = listed_files(output)
    draft = draft_beside(output / JSON_FILE)
    paths: set[str] = set()
    try:
        for path, content in files:
            paths.add(path)
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_bytes(content)
        # Until the end the list has the old and the new files, so that the build after a killed one knows all.
        write_whole(output / JSON_FILE, json.dumps({"files": [*earlier, *paths]}))
        for path in sorted(paths - {JSON_FILE}):
            (output / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).replace(output / path)
        for path in set(earlier) - paths:
            (output / path).unlink()
            for folder in takewhile(
                lambda parent: parent != output and not any(parent.iterdir()), (output / path).parents
            ):
                folder.rmdir()
        (draft / JSON_FILE).replace(output / JSON_FILE)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def pages(board: Board) -> Iterator[tuple[str, bytes]]:
    """Yield the HTML pages of a leaderboard lazily.

    The pages work as local files: they load the style and scripts next to ``index.html``, and link only to the other
    pages and to ``README.md`` there. The output is deterministic.

    Args:
        board: The leaderboard.

    Yields:
        Path relative to the leaderboard's folder (``index.html``, ``overview.html``, ``runs/….html``; for a large
        leaderboard also ``tasks/….html``), and content.
    """
    paths = run_pages(board.runs)
    tasks = task_pages(board)
    yield "index.html", index_page(board, paths, tasks)
    if overview := overview_page(board, paths):
        yield OVERVIEW_PAGE, overview
    if tasks:
        for table in board.tables:
            version = table.task, table.version
            runs = [run for run in board.runs if (run.record.task, str(run.record.version)) == version]
            yield tasks[table.anchor], task_page(table, runs, paths)
    for run in board.runs:
        yield paths[run.key], run_page(run, board)


def board_of(runs: Sequence[BoardRun], left_out: Sequence[OmittedRun], index: TaskIndex) -> Board:
    """Build a leaderboard from runs; the result does not depend on their order."""
    by_version: dict[tuple[str, str], list[BoardRun]] = {}
    for run in sorted(runs, key=lambda run: run.key):
        by_version.setdefault((run.record.task, str(run.record.version)), []).append(run)
    tables: list[TaskTable] = []
    shown: set[str] = set()
    for of_version in by_version.values():
        table, keys = task_table(of_version)
        tables.append(table)
        shown |= keys
    # Stable sort: the newest version of a task comes first among tables of the same name.
    tables.sort(key=lambda table: _version(table.version), reverse=True)
    tables.sort(key=lambda table: (table.alias.casefold(), table.task))
    marked = [_superseded(run, runs, shown) for run in runs]
    return Board(
        tuple(tables),
        suite_tables(runs, index),
        rank_tables(tables),
        tuple(sorted(marked, key=lambda run: run.key)),
        tuple(sorted(left_out, key=lambda run: (run.key, run.reason))),
    )


def _version(version: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key for a version: 10 after 9, words before numbers."""
    parts = re.findall(r"\d+|[^\d.]+", version)
    return tuple((1, int(part)) if part.isdecimal() and part.isascii() else (0, part) for part in parts)


def _superseded(run: BoardRun, runs: Sequence[BoardRun], shown: set[str]) -> BoardRun:
    """Mark a run without shown results with the run that supersedes it."""
    if run.key in shown:
        return run
    record = run.record
    version = record.task, record.version
    rivals = [other for other in runs if other.key in shown and (other.record.task, other.record.version) == version]

    def likeness(other: BoardRun) -> tuple[bool, int, float, str]:
        shared = set(other.record.metrics) & set(record.metrics)
        return other.record.model_name == record.model_name, len(shared), other.record.date, other.key

    by = max(rivals, key=likeness, default=None)
    reason = f"superseded by {by.key}" if by else "has no number to show"
    return replace(run, marks=(*run.marks, reason))
