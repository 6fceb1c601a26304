"""Opens a store's file: makes a new one, carries an old one over, and reads one that cannot be written."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from ...errors import StoreError
from ...network_file_systems import network_file_system
from .carry_over import carry_over
from .schema import PAGE_BYTES, VERSION, make_tables, version_of
from .transactions import set_wal_mode, transaction

# The index is in the order of hashes: with SQLite's own 2 MB, every batch reads most of it anew, a third more time.
_CACHE_KIB = 16_384
# How long the log grows before it is written back. A batch changes most pages of the index; after each one, as SQLite
# does by itself, most of the file would be written anew.
_LOG_BYTES = 256 << 20


@dataclass(frozen=True)
class OpenFile:
    """An open store.

    Attributes:
        db: The connection; in autocommit mode, for any thread.
        version: The schema of the file: an older one only where it cannot be written.
        writable: Whether anything can be kept in it.
    """

    db: sqlite3.Connection
    version: int
    writable: bool


def open_file(path: Path, lock_seconds: float) -> OpenFile:
    """Open a store's file, and make it if it does not exist.

    Raises:
        StoreError: It is on a file system of the network, or was written by a newer capbench.
        sqlite3.Error: It cannot be opened, or is damaged.
        OSError: It cannot be made.
    """
    network = network_file_system(path)
    if path.is_file() and not _can_be_written(path.resolve()):
        return _open_for_reading(path, lock_seconds, immutable=network is not None)
    if network:
        raise StoreError(
            f"store {path} is on a file system of the network ({network}), where SQLite's files can be damaged",
            "Name a file on a local disk with --store, or a local folder with BENCH_CACHE.",
        )
    _make_for_this_user_alone(path.resolve())
    db = sqlite3.connect(path, timeout=lock_seconds, isolation_level=None, check_same_thread=False)
    try:
        return OpenFile(db, _prepare(db, path, lock_seconds), writable=True)
    except BaseException:
        db.close()
        raise


def _prepare(db: sqlite3.Connection, path: Path, lock_seconds: float) -> int:
    # Counts for a new file alone.
    db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    set_wal_mode(db, lock_seconds)
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    page_bytes = db.execute("PRAGMA page_size").fetchone()[0]
    db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_BYTES // page_bytes}")
    version = _known_version(db, path)
    # Only a new file is written to: whoever opens the store need not wait for one who writes.
    if version == 0:
        with transaction(db):
            make_tables(db)
    elif version < VERSION:
        carry_over(db, lock_seconds)
    return VERSION


def _open_for_reading(path: Path, lock_seconds: float, immutable: bool) -> OpenFile:
    """Open a file that cannot be written.

    A store in WAL mode has files beside it, which even a reader makes; where they cannot be made, it is read as
    a file that nobody changes.
    """
    try:
        return _connect_for_reading(path, lock_seconds, "mode=ro&immutable=1" if immutable else "mode=ro")
    except sqlite3.OperationalError:
        if immutable:
            raise
        return _connect_for_reading(path, lock_seconds, "mode=ro&immutable=1")


def _connect_for_reading(path: Path, lock_seconds: float, how: str) -> OpenFile:
    uri = f"{path.resolve().as_uri()}?{how}"
    db = sqlite3.connect(uri, uri=True, timeout=lock_seconds, isolation_level=None, check_same_thread=False)
    try:
        version = _known_version(db, path)
        if version == 0:
            raise StoreError(
                f"store {path} is empty and cannot be written",
                "Name another file with --store, or another folder with BENCH_CACHE.",
            )
        return OpenFile(db, version, writable=False)
    except BaseException:
        db.close()
        raise


def _known_version(db: sqlite3.Connection, path: Path) -> int:
    version = version_of(db)
    if version > VERSION:
        raise StoreError(
            f"store {path} was written by a newer capbench (schema {version})",
            "Update capbench, or name another file with --store.",
        )
    return version


def _can_be_written(path: Path) -> bool:
    # SQLite writes its log beside the file.
    effective = os.access in os.supports_effective_ids
    return all(os.access(one, os.W_OK, effective_ids=effective) for one in (path, path.parent))


def _make_for_this_user_alone(path: Path) -> None:
    """Make the file and its folders where there are none: captions may be private. SQLite's logs follow the file."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
