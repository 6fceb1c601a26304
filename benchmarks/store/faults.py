"""What went wrong with a store's file, as errors that name the file and the remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import StoreError

_ELSEWHERE = "Name another file with --store, or another folder with BENCH_CACHE."
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_NO_SPACE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
_NOT_ALLOWED = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}


class DamagedStoreError(StoreError):
    """The file is no store, or no longer one that SQLite can read."""


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system say about a store's file into a ``StoreError``."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(path, error) from error
    except OSError as error:
        raise StoreError(f"store {path}: {error}", _ELSEWHERE) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another process is in the way."""
    return _code(error) in _BUSY


def _code(error: sqlite3.Error) -> int:
    # An extended code holds the plain one in its low byte. What Python itself finds has none: text that is not UTF-8.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


def _translated(path: Path, error: sqlite3.Error) -> StoreError:
    code = _code(error)
    message = f"store {path}: {error}"
    if is_busy(error):
        return StoreError(
            message, "Another process holds it. Wait for it, or name another file with --store."
        )
    if code in _NO_SPACE:
        return StoreError(
            message, "Free disk space, 'bench store prune', or name a file on another disk with --store."
        )
    if code in _NOT_ALLOWED:
        return StoreError(message, _ELSEWHERE)
    return DamagedStoreError(
        message,
        f"'bench store verify --repair --store {path}' saves what can be read. "
        "Move the file away to start again; what it kept will be computed anew.",
    )
