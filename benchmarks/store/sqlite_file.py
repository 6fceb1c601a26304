"""The SQLite file of a store: shared by processes and threads, and replaced if it is damaged."""

import itertools
import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ...atomic_files import folder_lock
from ...errors import StoreError
from ...paths import network_file_system

VERSION = 2
BEGIN = "BEGIN IMMEDIATE"
"""Begins a transaction, for which other writers wait; ``with`` the connection ends it."""
LOCK_SECONDS = 30.0
"""How long to wait while another process writes."""
# A feature vector of 2 KB fills half of a default page; seven fit into one of this size.
_PAGE_BYTES = 16_384
# Tables with a rowid: values are appended, and only the index is in key order. WITHOUT ROWID would put rows into the
# index, and values longer than a quarter of a page outside of it.
_TABLES = (
    "CREATE TABLE IF NOT EXISTS producers (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, crc INTEGER)",
    """
    CREATE TABLE IF NOT EXISTS entries (
        key BLOB NOT NULL PRIMARY KEY,
        producer INTEGER NOT NULL REFERENCES producers (id),
        created INTEGER NOT NULL,
        crc INTEGER NOT NULL,
        value NOT NULL
    )
    """,
)
_COLUMNS = (
    "SELECT id, fingerprint, crc FROM producers LIMIT 0",
    "SELECT key, producer, created, crc, value FROM entries LIMIT 0",
)
# The index is in hash order: with SQLite's default of 2 MB every batch rereads most of it, a third more time.
_CACHE_KIB = 16_384
# Size of the log before it is written back. A batch changes most pages of the index; SQLite's default would rewrite
# most of the file after each batch.
_LOG_BYTES = 256 << 20
_LOGS = ("-wal", "-shm")

_ELSEWHERE = "Name another file with --store, or another folder with BENCH_CACHE."
_DELETE = "Delete the file, or name another one with --store or BENCH_CACHE; its content is computed anew."
_BUSY = "Another process has locked it. Wait, or name another file with --store."
_NO_SPACE = "Free disk space, 'bench store prune', or name a file on another disk with --store."
_HINTS = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_FULL: _NO_SPACE,
    sqlite3.SQLITE_IOERR: _NO_SPACE,
}
# Damaged tables can have producers without a number, which entries reject. A truncated file is a short read.
_DAMAGE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_IOERR_SHORT_READ}
)
# A missing table, or a format that SQLite does not know.
_OTHER_SCHEMA = frozenset({sqlite3.SQLITE_ERROR})

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class DamagedStoreError(StoreError):
    """SQLite cannot read the file, or it has other tables."""

    def __init__(self, message: str) -> None:
        super().__init__(message, _DELETE)


class SqliteFile:
    """An open file, which is created if missing, for this user only.

    A damaged file is moved to ``NAME.damaged-DATE``, with a log message, and a new one is created. Other processes
    with the old file open detect the move at their next call, and open the new one. A process that opens, closes or
    moves the file locks its folder: SQLite finds its logs by name, and must not use those of another file.

    Args:
        path: The file.
        replace_damaged: Whether a damaged file is replaced; else it is an error.

    Raises:
        DamagedStoreError: The file is damaged and cannot be replaced.
        StoreError: The file cannot be opened, is on a network file system, or was written by a newer capbench.
    """

    writable: bool
    """Whether it is writable."""

    def __init__(self, path: Path, *, replace_damaged: bool) -> None:
        self.path = path
        self._target = path.resolve()
        self._lock = threading.Lock()
        # In this order: while another process moves the file, there is none, and it may be there a moment later.
        self.writable = _can_be_written(self._target) or not path.is_file() or _can_be_written(self._target)
        self._replace_damaged = replace_damaged and self.writable
        if not self.writable:
            self._db = _connect_for_reading(path)
            return
        if network := network_file_system(path):
            raise StoreError(
                f"store {path} is on a network file system ({network}), where SQLite files can be damaged",
                "Name a file on a local disk with --store, or a local folder with BENCH_CACHE.",
            )
        with store_errors(path):
            self._target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open()

    def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a function on the file; if that is damaged, run it again on a new one.

        Raises:
            StoreError: The file could not be read or written.
        """
        with self._lock, store_errors(self.path):
            if self.writable and _inode(self._target) != self._inode:
                self._reopen()
            try:
                with store_errors(self.path):
                    return work(self._db)
            except DamagedStoreError as damage:
                if not self._replace_damaged:
                    raise
                self._reopen(damage)
            return work(self._db)

    def close(self) -> None:
        """Close the file."""
        # The last process that closes the file deletes the logs, by name.
        with self._lock, folder_lock(self._target.parent):
            self._db.close()

    def _reopen(self, damage: DamagedStoreError | None = None) -> None:
        old = self._db
        self._open(damage)
        # SQLite keeps the logs, as the file was moved.
        old.close()

    def _open(self, damage: DamagedStoreError | None = None) -> None:
        """Open the file; a damaged one is moved first, unless another process has moved it already."""
        with folder_lock(self._target.parent):
            if damage and _inode(self._target) == self._inode:
                _move_aside(self._target, damage)
            _make(self._target)
            try:
                self._db = _connect(self.path)
            except DamagedStoreError as error:
                if not self._replace_damaged:
                    raise
                _move_aside(self._target, error)
                self._db = _connect(self.path)
            self._inode = _inode(self._target)


@contextmanager
def store_errors(path: Path, damage: frozenset[int] = _DAMAGE) -> Iterator[None]:
    """Turn errors of SQLite and the system about a store's file into a ``StoreError``.

    Args:
        path: The file, for messages.
        damage: SQLite's codes for a damaged file.
    """
    try:
        yield
    except sqlite3.Error as error:
        # An extended code holds the plain one in its low byte. Errors of a call, not of the file, have no code.
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            raise
        message = f"store {path}: {error}"
        if damage & {code, code & 0xFF}:
            raise DamagedStoreError(message) from error
        raise StoreError(message, _HINTS.get(code & 0xFF, _ELSEWHERE)) from error
    except UnicodeDecodeError as error:
        # SQLite's own message, which names a damaged table.
        raise DamagedStoreError(f"store {path}: its tables are malformed") from error
    except OSError as error:
        raise StoreError(f"store {path}: {error}", _ELSEWHERE) from error


def _connect(path: Path, query: str = "mode=rw") -> sqlite3.Connection:
    """Open a file.

    Args:
        path: The file, or a link to it.
        query: SQLite's settings of an address.
    """
    db: sqlite3.Connection | None = None
    try:
        with store_errors(path, _DAMAGE | _OTHER_SCHEMA):
            address = f"{path.resolve().as_uri()}?{query}"
            db = sqlite3.connect(address, LOCK_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
            if query == "mode=rw":
                _prepare(db)
            _check_schema(db, path)
        return db
    except BaseException:
        if db:
            db.close()
        raise


def _prepare(db: sqlite3.Connection) -> None:
    # Only applies to a new file.
    db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_BYTES // _PAGE_BYTES}")
    # Only a new file is written: opening a store does not wait for a writer.
    if not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        with db:
            db.execute(BEGIN)
            for table in _TABLES:
                db.execute(table)
            db.execute(f"PRAGMA user_version = {VERSION}")


def _connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open a read-only file; as an immutable one where the log files, which even a reader creates, cannot be made."""
    try:
        return _connect(path, "mode=ro")
    except DamagedStoreError:
        raise
    except StoreError:
        return _connect(path, "mode=ro&immutable=1")


def _check_schema(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreError(
            f"store {path} was written by a newer capbench (schema {version})",
            "Update capbench, delete the file, or name another one with --store.",
        )
    if version != VERSION:
        raise DamagedStoreError(f"store {path} has schema {version}, and this capbench reads schema {VERSION}")
    for columns in _COLUMNS:
        db.execute(columns)
    # Damaged text need not be UTF-8.
    db.text_factory = bytes


def _move_aside(target: Path, damage: DamagedStoreError) -> None:
    """Move a damaged file and its logs, and create a new one with the same permissions."""
    name = target.with_name(f"{target.name}.damaged-{time.strftime('%Y-%m-%d')}")
    others = (name.with_name(f"{name.name}-{number}") for number in itertools.count(2))
    aside = next(path for path in itertools.chain([name], others) if not path.exists())
    # The file first: after a kill here, logs are left without a file, and the next process to create one deletes them.
    target.rename(aside)
    for log in _LOGS:
        with suppress(FileNotFoundError):
            target.with_name(target.name + log).rename(aside.with_name(aside.name + log))
    _make(target)
    shutil.copymode(aside, target)
    _log.warning("%s. It was moved to %s; its content is computed anew.", damage.message, aside)


def _make(target: Path) -> None:
    """Create the file if missing, for this user only: captions may be private. SQLite's logs have the same mode."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    # Logs of a deleted or moved file, which a process may still have open.
    for log in _LOGS:
        target.with_name(target.name + log).unlink(missing_ok=True)


def _inode(target: Path) -> tuple[int, int] | None:
    """Return the identity of a file, None where there is no file."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _can_be_written(target: Path) -> bool:
    # SQLite writes its log next to the file.
    effective = os.access in os.supports_effective_ids
    return all(os.access(path, os.W_OK, effective_ids=effective) for path in (target, target.parent))
