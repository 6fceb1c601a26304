"""The tables of a store, and what tells a value that was written from one that is damaged."""

from __future__ import annotations

import sqlite3
import zlib

VERSION = 2
# A feature vector of 2 KB fills half of a page of SQLite's own size; of these, seven share one.
PAGE_BYTES = 16_384
# Tables with a rowid: values are written one after the other, and only the index is in the order of the keys.
# Where a row has no rowid, it is in the index itself, and a value longer than a quarter of a page is outside of it.
TABLES = (
    """
    CREATE TABLE IF NOT EXISTS producers (
        id INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL UNIQUE,
        crc INTEGER
    )
    """,
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
KEY_BYTES = 32


def checksum(key: bytes, value: bytes) -> int:
    """Return what is kept with a value: a CRC-32 over its key, too, so that it is no other key's."""
    return zlib.crc32(value, zlib.crc32(key))


def is_sound(key: object, crc: object, value: object) -> bool:
    """Tell whether a row is what was written."""
    return isinstance(key, bytes) and isinstance(value, bytes) and checksum(key, value) == crc


def is_sound_in_any_schema(key: object, crc: object, value: object) -> bool:
    """The same for a row that may be of the first schema, whose checksum was of the value alone."""
    return is_sound(key, crc, value) or (
        isinstance(key, bytes)
        and len(key) == KEY_BYTES
        and isinstance(value, bytes)
        and zlib.crc32(value) == crc
    )


def version_of(db: sqlite3.Connection) -> int:
    """Return the schema that a file says it has; 0 where it has none yet."""
    return db.execute("PRAGMA user_version").fetchone()[0]


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, in the caller's transaction."""
    for table in TABLES:
        db.execute(table)
    db.execute(f"PRAGMA user_version = {VERSION}")
