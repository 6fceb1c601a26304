"""Files and folders that are there whole or not at all, however a process ends, and what killed ones left.

What is written is a draft first, beside the place that it is for, and gets its name when all of it is on the disk.
A draft bears the name of its process: who writes there next removes those of processes that are no more.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

DRAFT = ".draft-"
"""What the name of a draft begins with: ``.draft-HOST-PROCESS-NUMBER``."""
_TEMPORARY = "capbench-"


def draft_beside(path: Path) -> Path:
    """Return a name for the draft of a file or folder, which nobody else has."""
    return path.with_name(DRAFT + own_name())


@contextmanager
def written_whole(path: Path) -> Generator[Path]:
    """Give a draft to write to, which becomes the file at the end; where writing fails, the file is as it was.

    Drafts that killed processes left beside it are removed. A link is followed, and what is no file but can be written
    (a terminal, a pipe) is given itself.

    Args:
        path: The file; its folder must be there.

    Raises:
        OSError: It cannot be written.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))
    remove_abandoned(path.parent.glob(f"{DRAFT}*"))
    draft = draft_beside(path)
    try:
        yield draft
        if path.exists():
            shutil.copymode(path, draft)
        put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all; see :func:`written_whole`.

    Args:
        path: The file.
        content: Text is written as UTF-8.

    Raises:
        OSError: It cannot be written.
    """
    with written_whole(path) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def put_in_place(draft: Path, path: Path) -> None:
    """Give a draft its name, after all of it is on the disk: a machine that loses its power has all of it or nothing.

    A file of that name is replaced.

    Raises:
        OSError: That is not possible; a folder of that name holds something.
    """
    for one in (draft, *draft.rglob("*")):
        flush(one)
    draft.replace(path)
    flush(path.parent)


def remove_abandoned(drafts: Iterable[Path], prefix: str = DRAFT) -> None:
    """Remove those drafts that are of processes of this machine that are no more."""
    for draft in drafts:
        if not is_abandoned(draft, prefix):
            continue
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def is_abandoned(draft: Path, prefix: str = DRAFT) -> bool:
    """Return whether a draft is of a process of this machine that is no more."""
    host, process = (*draft.name.removeprefix(prefix).split("-"), "")[:2]
    if host != _host() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        # It is another user's, or none that this system could have.
        return False
    return False


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Give a folder for this user alone, which goes at the end; those that killed processes left go now."""
    place = Path(tempfile.gettempdir())
    remove_abandoned(place.glob(f"{_TEMPORARY}*"), _TEMPORARY)
    folder = place / (_TEMPORARY + own_name())
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own_name() -> str:
    """Return a name that tells whose something is: machine, process and a number that nobody else has."""
    return f"{_host()}-{os.getpid()}-{secrets.token_hex(4)}"


@cache
def _host() -> str:
    """Return what tells processes apart that may have the same number: machines, and containers on one of them."""
    try:
        # "pid:[4026531836]": containers may share the name of the host, and a folder.
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")  # noqa: PTH115 - it leads to no path
    except OSError:
        space = ""
    # A dash ends the host's name in that of a draft.
    return f"{re.sub(r'[^A-Za-z0-9.]+', '_', socket.gethostname())[:64]}.{space}"


def flush(path: Path) -> None:
    """Wait until a file, or what a folder lists, is on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError:
        # Not every file system can do that for a folder.
        if not path.is_dir():
            raise
    finally:
        os.close(number)


@contextmanager
def folder_lock(folder: Path) -> Generator[None]:
    """Wait until no other process or thread has the lock of a folder, and hold it; one that is killed lets it go.

    Where there are no locks (Windows, some network file systems), several may hold it at once.
    """
    with ExitStack() as stack:
        with suppress(OSError, ImportError):
            import fcntl

            lock = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
            # To close it is not enough: a process that was forked since has it open, too.
            stack.callback(fcntl.flock, lock, fcntl.LOCK_UN)
        yield
