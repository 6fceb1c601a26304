"""Writes the folder of a run atomically, and reads the files next to its record."""

import errno
import hashlib
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ...atomic_files import DRAFT, draft_beside, put_in_place, remove_abandoned
from ...boundary import unlinked
from ...errors import DataError
from .hashes import plain
from .record import Record

RECORD_FILE = "run.json"
_LONGEST_NAME = 120
# Lists of numbers as json.dumps indents them; no text of a record has such a line break, as JSON escapes it.
_NUMBERS = re.compile(r"\[\n\s+-?\d[^\]\[\"{]*\]")


def require_folder(root: Path) -> None:
    """Make the folder below which runs are written, before any work is done for them.

    Unfinished runs of killed processes of this machine are removed.

    Raises:
        DataError: It cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=root).close()
    except OSError as error:
        raise _unwritable(root, error) from error
    remove_abandoned(draft for place in ("", "*/*/") for draft in root.glob(f"{place}{DRAFT}*"))


def _unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"the run cannot be written to {folder}: {error.strerror or error}", "Name another folder with --output_path."
    )


def _folder_name(name: str) -> str:
    """Return a file name for any name of a task or model: without separators, and not too long."""
    short = re.sub(r"[^A-Za-z0-9._-]+|^\.+", "_", name)
    if len(short) <= _LONGEST_NAME:
        return short
    return f"{short[:_LONGEST_NAME]}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _put_in_place(draft: Path, folder: Path) -> Path:
    """Rename a draft to a folder that no other run has, and return it."""
    names = itertools.chain([folder], (folder.with_name(f"{folder.name}.{n}") for n in itertools.count(2)))
    for name in names:
        try:
            put_in_place(draft, name)
            return name
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
    raise AssertionError("there is always another name")


def record_text(record: Record) -> str:
    """Return what ``run.json`` holds: a key a line, a list of numbers in one line."""
    text = json.dumps(plain(record.values), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return _NUMBERS.sub(lambda match: json.dumps(json.loads(match[0])), text)


def run_folder(root: Path, record: Record) -> Path:
    """Return the folder of a run below ``root``: ``TASK/MODEL/TIME-FINGERPRINT``."""
    task, model = (_folder_name(name) for name in (record.task, record.model_name or "no-model"))
    return root / task / model / f"{record.started:%Y%m%dT%H%M%S}-{record.fingerprint[:8]}"


def write_run(root: Path, record: Record, files: Mapping[str, bytes | Path]) -> Path:
    """Write a run below ``root`` atomically and return its folder.

    Args:
        root: The folder of all runs.
        record: What ``run.json`` holds.
        files: The other files: path below the run's folder to content, or to a file that is copied.

    Raises:
        DataError: The folder cannot be written.
    """
    folder = run_folder(root, record)
    draft = draft_beside(folder)
    try:
        draft.mkdir(parents=True)
        for name, content in files.items():
            (draft / name).parent.mkdir(exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, draft / name)
            else:
                (draft / name).write_bytes(content)
        (draft / RECORD_FILE).write_text(record_text(record), encoding="utf-8")
        return _put_in_place(draft, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def read_file(folder: Path, record: Record, name: str) -> bytes:
    """Return the verified content of a file next to a record: samples or a picture of a finished run.

    Args:
        folder: Folder of the run.
        record: Its record, with the file's checksum; older ones have none.
        name: Path of the file below the folder.

    Raises:
        DataError: The file was changed after the run.
        OSError: It is missing, or cannot be read.
    """
    path = unlinked(folder / name)
    content = path.read_bytes()
    if record.files is not None and record.files.get(name) != hashlib.sha256(content).hexdigest():
        raise DataError(
            f"{path}: was changed after the run: its SHA-256 differs from that in {RECORD_FILE}",
            "Restore the original file, or run the task again; 'bench verify' lists all errors.",
        )
    return content


def require_files(folder: Path, record: Record) -> None:
    """Raise unless the files next to a record are intact; missing ones are allowed, as they may not be redistributed.

    Raises:
        DataError: One was changed, or cannot be read.
    """
    for name in record.files or {}:
        if not (folder / name).is_file():
            continue
        try:
            read_file(folder, record, name)
        except OSError as error:
            raise DataError(f"{folder / name}: cannot be read: {error.strerror}") from error
