"""Writes a leaderboard: every file anew, in one go."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePosixPath

from ...boundary import unlinked
from ...drafts import DRAFT, draft_beside, is_abandoned, remove_abandoned, write_whole
from ...errors import DataError, UsageError
from .board import Board
from .build_board import build_board
from .excerpt import with_excerpt
from .formats.latex import latex_files
from .formats.markdown import readme
from .formats.plain import JSON_FILE, csv_file, json_file
from .page import pages


@contextmanager
def _cycles_rarely_sought() -> Iterator[None]:
    """Let Python look for garbage in cycles rarely: it goes through all records each time, which have none."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@_cycles_rarely_sought()
def build(runs: Path, output: Path, readme_of_repository: Path | None = None) -> Board:
    """Make the leaderboard of the runs below a folder.

    Files of an earlier leaderboard that are no longer made are removed; other files stay.

    Args:
        runs: The folder of the runs; a missing one gives an empty leaderboard.
        output: The folder of the leaderboard.
        readme_of_repository: A Markdown file between whose marks the top rows are written, too.

    Raises:
        UsageError: ``runs`` is a file.
        DataError: The leaderboard cannot be written, or the Markdown file has no marks.
    """
    board, files = made(runs)
    text = with_excerpt(readme_of_repository, board) if readme_of_repository else ""
    try:
        _write(files, output)
        if readme_of_repository:
            write_whole(readme_of_repository, text)
    except OSError as error:
        raise DataError(
            f"the leaderboard cannot be written to {output}: {error.strerror or error}",
            "Name another folder with --output.",
        ) from error
    return board


def made(runs: Path) -> tuple[Board, Iterator[tuple[str, bytes]]]:
    """Return the leaderboard of the runs below a folder, and its files: path in its folder, and content.

    The same runs give the same bytes. A file is made as it is asked for, as there is one a run;
    ``leaderboard.json``, which lists all others, comes last.

    Raises:
        UsageError: ``runs`` is a file.
    """
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"--runs {runs}: is a file; name the folder that runs are written to")
    board = build_board(runs)
    return board, _files(board)


def _files(board: Board) -> Iterator[tuple[str, bytes]]:
    paths = [JSON_FILE]
    for path, content in chain(
        readme(board).items(), csv_file(board).items(), latex_files(board).items(), pages(board)
    ):
        paths.append(path)
        yield path, content
    yield JSON_FILE, json_file(board, paths)


def listed_files(folder: Path) -> list[str]:
    """Return the files of the leaderboard that is there, as its ``leaderboard.json`` lists them; else none."""
    try:
        listed = json.loads(unlinked(folder / JSON_FILE).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return sorted({path for path in listed if _inside(path)}) if isinstance(listed, list) else []


def _inside(path: object) -> bool:
    """Return whether a path stays in the folder, however its list was edited."""
    if not isinstance(path, str) or "\0" in path or "\\" in path:
        return False
    parts = PurePosixPath(path)
    return bool(parts.parts) and not parts.is_absolute() and ".." not in parts.parts


def _write(files: Iterable[tuple[str, bytes]], output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    killed = [draft for draft in output.glob(f"{DRAFT}*") if is_abandoned(draft)]
    earlier = dict.fromkeys((*listed_files(output), *_placed(killed)))
    draft = draft_beside(output / JSON_FILE)
    paths: set[str] = set()
    try:
        for path, content in files:
            paths.add(path)
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_bytes(content)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    # From here on whoever is killed leaves the earlier list and a draft, from which the next build knows every file:
    # the list goes last, and drafts after it.
    for path in sorted(paths - {JSON_FILE}):
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        (draft / path).replace(output / path)
    for path in earlier.keys() - paths:
        if (output / path).is_file() and (output / path).resolve().is_relative_to(output.resolve()):
            (output / path).unlink()
            _remove_empty(output / path, output)
    (draft / JSON_FILE).replace(output / JSON_FILE)
    shutil.rmtree(draft, ignore_errors=True)
    remove_abandoned(killed)


def _placed(drafts: Iterable[Path]) -> list[str]:
    """Return the files that killed builds had put in place: those that their drafts list and no longer hold."""
    return [path for draft in drafts for path in listed_files(draft) if not (draft / path).exists()]


def _remove_empty(path: Path, output: Path) -> None:
    for folder in path.parents:
        if folder == output or any(folder.iterdir()):
            return
        folder.rmdir()
