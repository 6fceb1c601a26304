"""Brings a store of the first schema into the second, in its own file."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib

from .schema import VERSION, checksum, is_sound_in_any_schema, make_tables, version_of
from .transactions import give_space_back, transaction


def carry_over(db: sqlite3.Connection, lock_seconds: float) -> None:
    """Rewrite the tables of the first schema as those of the second; what is damaged is left behind.

    One transaction: a process that is killed, or a disk that is full, leaves the old tables as they were. Of two
    processes the second waits, and finds the work done.

    Raises:
        sqlite3.Error: It could not be done.
    """
    db.create_function("crc_of", 1, zlib.crc32, deterministic=True)
    db.create_function("checksum", 2, checksum, deterministic=True)
    db.create_function("is_sound", 3, is_sound_in_any_schema, deterministic=True)
    # Debian's SQLite blanks pages that are given up, which would write the whole of the old tables to the log.
    db.execute("PRAGMA secure_delete = OFF")
    with transaction(db):
        if version_of(db) >= VERSION:
            return
        for table in ("producers", "entries"):
            db.execute(f"ALTER TABLE {table} RENAME TO first_{table}")
        make_tables(db)
        db.execute(
            "INSERT OR IGNORE INTO producers SELECT id, fingerprint, crc_of(CAST(fingerprint AS BLOB)) "
            "FROM first_producers WHERE fingerprint IS NOT NULL"
        )
        db.execute(
            "INSERT OR IGNORE INTO entries "
            "SELECT CAST(key AS BLOB), producer, created, checksum(CAST(key AS BLOB), CAST(value AS BLOB)), value "
            "FROM first_entries WHERE is_sound(CAST(key AS BLOB), crc, CAST(value AS BLOB))"
        )
        for table in ("entries", "producers"):
            db.execute(f"DROP TABLE first_{table}")
    # The store is whole without this; a disk that has no room for it has none to give back.
    with contextlib.suppress(sqlite3.OperationalError):
        give_space_back(db, lock_seconds)
