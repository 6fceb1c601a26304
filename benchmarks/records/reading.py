"""Finds and reads records of finished runs."""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ...atomic_files import DRAFT
from ...boundary import unlinked
from ...errors import DataError
from ...rows import refuse_constant
from .entries import SCHEMA_VERSION
from .files import RECORD_FILE, require_files
from .hashes import verify
from .record import Record
from .task_run import TaskRun

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_REMEDY = "Restore the original record, or run the task again."
_PLACES = "RUN is the folder of a finished run, as 'bench run' prints it, or a folder below which runs lie."


def runs_below(root: Path, pass_over: Callable[[Path, str], None] = lambda folder, reason: None) -> Iterator[Path]:
    """Yield the folders with a record, at a folder and below it, in order of their paths.

    Links to folders are not followed.

    Args:
        root: The folder; a missing one holds none.
        pass_over: Called with each folder that is skipped, and the reason.
    """

    def unread(error: OSError) -> None:
        if Path(error.filename) != root:
            pass_over(Path(error.filename), f"the folder cannot be read: {error.strerror}")

    for place, folders, files in os.walk(root, onerror=unread):
        # Drafts are runs that are being written.
        folders[:] = sorted(name for name in folders if not name.startswith(DRAFT))
        for name in folders:
            if (folder := Path(place) / name).is_symlink():
                pass_over(folder, "is a link to another folder; links are not followed")
        if RECORD_FILE in files:
            yield Path(place)


def find_records(places: Sequence[Path]) -> tuple[list[Path], list[DataError]]:
    """Return the files of records, each once, in the order of the places, and an error for each place without any.

    Args:
        places: Folders of runs, folders below which runs lie, or files of records.
    """
    records: dict[Path, Path] = {}
    errors: list[DataError] = []
    for place in places:
        files = [place] if place.is_file() else [folder / RECORD_FILE for folder in runs_below(place)]
        if not place.exists():
            errors.append(DataError(f"{place}: there is no such folder", _PLACES))
        elif not files:
            errors.append(DataError(f"{place}: contains no runs (no {RECORD_FILE} in it or below it)", _PLACES))
        for file in files:
            # The same run may be named twice, itself and by a folder above it.
            records.setdefault(file.resolve(), file)
    return list(records.values()), errors


def read_record(place: Path) -> Record:
    """Return the record in a folder, or in a file.

    Raises:
        DataError: Missing, not JSON, of a newer schema, not a valid record (the message has the JSON pointer),
            or edited by hand; the message begins with the file.
    """
    path = place / RECORD_FILE if place.is_dir() else place
    values = _read_json(path)
    version = cast("dict[str, Any]", values).get("schema_version") if isinstance(values, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise DataError(f"{path}: is not a run record of capbench (it has no schema_version)", _REMEDY)
    if version > SCHEMA_VERSION:
        raise DataError(
            f"{path}: has schema version {version}; this capbench reads up to {SCHEMA_VERSION}", "Update capbench."
        )
    try:
        record = Record(cast("dict[str, Any]", values))
    except DataError as error:
        raise DataError(f"{path}: {error.message}", error.hint) from error
    if fault := verify(record.values):
        raise DataError(f"{path}: was edited by hand: {fault}", _REMEDY)
    return record


def read_task_run(place: Path) -> TaskRun:
    """Return the run in a folder, named by it or by its record.

    Raises:
        DataError: As of :func:`read_record`, or its protocol is not installed; the message begins with the file.
    """
    record = read_record(place)
    try:
        folder = place if place.is_dir() else place.parent
        return TaskRun(record, list(record.results.values()), folder, record.failures)
    except DataError as error:
        raise DataError(f"{place}: {error.message}", error.hint) from error


def read_task_runs(files: Sequence[Path]) -> tuple[list[TaskRun], list[DataError]]:
    """Return the runs of some records, and an error for each that cannot be read.

    A run whose samples or pictures were changed cannot be read; one whose samples or pictures are missing can.
    """
    runs: list[TaskRun] = []
    faults: list[DataError] = []
    for file in files:
        try:
            run = read_task_run(file)
            if run.folder is not None:
                require_files(run.folder, run.record)
            runs.append(run)
        except DataError as error:
            faults.append(error)
    return runs, faults


def _read_json(path: Path) -> object:
    try:
        text = unlinked(path).read_bytes().decode("utf-8")
        values = json.loads(text, parse_constant=refuse_constant)
        if _SURROGATE.search(text):
            # A lone surrogate can be read, but not written.
            json.dumps(values, ensure_ascii=False).encode()
    except OSError as error:
        raise DataError(f"{path}: cannot be read as a run: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read as a run: it is not valid JSON ({reason})", _REMEDY) from error
    return values
