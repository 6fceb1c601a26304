"""Finds the folders of runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...drafts import DRAFT
from ...errors import DataError
from .files import RECORD_FILE

_HINT = "RUN is the folder of a finished run, as 'bench run' prints it, or a folder below which runs lie."


def runs_below(
    root: Path, pass_over: Callable[[Path, str], None] = lambda folder, reason: None
) -> Iterator[Path]:
    """Yield the folders with a record, at a folder and below it, in order of their paths.

    Links to folders are not followed.

    Args:
        root: The folder; a missing one holds none.
        pass_over: Told of each folder that is not looked into, and why.
    """

    def unread(error: OSError) -> None:
        if Path(error.filename) != root:
            pass_over(Path(error.filename), f"the folder cannot be read: {error.strerror}")

    for place, folders, files in os.walk(root, onerror=unread):
        # What is being written is no run yet.
        folders[:] = sorted(name for name in folders if not name.startswith(DRAFT))
        for name in folders:
            if (folder := Path(place) / name).is_symlink():
                pass_over(folder, "is a link to another folder, and such links are not followed")
        if RECORD_FILE in files:
            yield Path(place)


def find_records(places: Sequence[Path]) -> tuple[list[Path], list[DataError]]:
    """Return the files of records, each once, in the order of the places, and why a place has none.

    Args:
        places: Folders of runs, folders below which runs lie, or files of records.
    """
    found: dict[Path, Path] = {}
    errors: list[DataError] = []
    for place in places:
        files = [place] if place.is_file() else [folder / RECORD_FILE for folder in runs_below(place)]
        if not place.exists():
            errors.append(DataError(f"{place}: there is no such folder", _HINT))
        elif not files:
            errors.append(DataError(f"{place}: has no runs (no {RECORD_FILE} below it)", _HINT))
        for file in files:
            # The same run may be named twice, itself and by a folder above it.
            found.setdefault(file.resolve(), file)
    return list(found.values()), errors
