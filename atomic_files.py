"""Atomic writes of files and folders, and removal of the drafts of killed processes.

Content is written to a draft in the same folder, which is renamed when all of it is on the disk. The name of a draft
names its process; the next writer removes the drafts of dead processes.
"""

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
    """Return a unique path for the draft of a file or folder, in the same folder."""
    return path.with_name(DRAFT + own_name())


@contextmanager
def written_whole(path: Path) -> Generator[Path]:
    """Yield a draft to write to, which replaces the file at the end; if writing fails, the file stays as it was.

    Drafts of killed processes in the same folder are removed. Links are followed; a terminal or pipe is yielded itself.

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
    """Rename a draft after it is flushed to disk, so that a power loss leaves all of it or nothing.

    A file of that name is replaced.

    Raises:
        OSError: That is not possible; a folder of that name holds something.
    """
    for entry in (draft, *draft.rglob("*")):
        flush(entry)
    draft.replace(path)
    flush(path.parent)


def remove_abandoned(drafts: Iterable[Path], prefix: str = DRAFT) -> None:
    """Remove the drafts of dead processes of this machine."""
    for draft in drafts:
        if not is_abandoned(draft, prefix):
            continue
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def is_abandoned(draft: Path, prefix: str = DRAFT) -> bool:
    """Return whether a draft is of a dead process of this machine."""
    host, process = (*draft.name.removeprefix(prefix).split("-"), "")[:2]
    if host != _host() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        # Another user's process, or a number out of range.
        return False
    return False


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Yield a private temporary folder, removed at the end; those of killed processes are removed now."""
    place = Path(tempfile.gettempdir())
    remove_abandoned(place.glob(f"{_TEMPORARY}*"), _TEMPORARY)
    folder = place / (_TEMPORARY + own_name())
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own_name() -> str:
    """Return a unique name of this process: machine, process and a random number."""
    return f"{_host()}-{os.getpid()}-{secrets.token_hex(4)}"


@cache
def _host() -> str:
    """Return host name and PID namespace: containers on one machine may have processes of the same number."""
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
def folder_lock(folder: Path, refusal: Exception | None = None) -> Generator[None]:
    """Hold the lock of a folder, after waiting for other processes and threads; a killed process releases it.

    Where there are no locks (Windows, some network file systems), several may hold it at once.

    Args:
        folder: The folder.
        refusal: Raised in place of waiting; it is no ``OSError``.
    """
    with ExitStack() as stack:
        with suppress(OSError, ImportError):
            import fcntl

            lock = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal else 0))
            except BlockingIOError as error:
                raise refusal or error from None
            # To close it is not enough: a process that was forked since has it open, too.
            stack.callback(fcntl.flock, lock, fcntl.LOCK_UN)
        yield
