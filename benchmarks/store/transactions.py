"""Transactions of a store, and how its file gives space back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .faults import is_busy
from .schema import PAGE_BYTES


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Do everything or nothing; whoever else wants to write waits."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # SQLite has already rolled back by itself when the disk is full.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def set_wal_mode(db: sqlite3.Connection, lock_seconds: float) -> None:
    """Let one process write while others read."""
    # SQLite does not wait for the lock here by itself, and two processes may make the file at once.
    give_up = time.monotonic() + lock_seconds
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def give_space_back(db: sqlite3.Connection, lock_seconds: float) -> None:
    """Shrink the file to what it holds, in pages of this schema's size unless others have it open."""
    if db.execute("PRAGMA page_size").fetchone()[0] == PAGE_BYTES or not _leave_wal_mode(db):
        db.execute("VACUUM")
        # In WAL mode the file itself shrinks when the log is written back.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return
    try:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.execute("VACUUM")
    finally:
        set_wal_mode(db, lock_seconds)


def _leave_wal_mode(db: sqlite3.Connection) -> bool:
    """Return whether that was possible: it is for who is alone. In WAL mode pages keep their size."""
    try:
        db.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        return False
    return True
