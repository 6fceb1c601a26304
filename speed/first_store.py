"""The store's first schema, as capbench wrote it until the second: its tables, and how rows went in and out."""

import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capbench.benchmarks.store.store import _array, _array_bytes, _canonical, _key

_TABLES = """
CREATE TABLE IF NOT EXISTS producers (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS entries (
    key BLOB PRIMARY KEY,
    producer INTEGER NOT NULL REFERENCES producers (id),
    created INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    value NOT NULL
) WITHOUT ROWID;
"""


class FirstStore:
    """A store of the first schema; what it has in common with today's is left out."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_TABLES)
        self._db.execute("PRAGMA user_version = 1")

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays."""
        prefix = _canonical(producer)
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("INSERT OR IGNORE INTO producers (fingerprint) VALUES (?)", (prefix,))
        (number,) = self._db.execute("SELECT id FROM producers WHERE fingerprint = ?", (prefix,)).fetchone()
        values = ((_key(prefix, text), _array_bytes(array)) for text, array in arrays.items())
        self._db.executemany(
            "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)",
            ((key, number, 1_700_000_000, zlib.crc32(value), value) for key, value in values),
        )
        self._db.execute("COMMIT")

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the arrays that are known."""
        keys = {_key(_canonical(producer), text): text for text in inputs}
        found, asked = {}, list(keys)
        for start in range(0, len(asked), 500):
            batch = asked[start : start + 500]
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, crc, CAST(value AS BLOB) FROM entries WHERE key IN ({marks})"  # noqa: S608
            for key, crc, value in self._db.execute(query, batch):
                if zlib.crc32(value) == crc:
                    found[keys[key]] = _array(value)
        return found

    def close(self) -> None:
        """Close the file."""
        self._db.close()
