"""The store: one SQLite file that keeps captions, parses, features and metric statistics."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..tasks.locate import cache_folder

if TYPE_CHECKING:
    import numpy as np

_SCHEMA_VERSION = 1
_LOCK_SECONDS = 30.0
_KEYS_A_QUERY = 500
_SCHEMA = """
CREATE TABLE IF NOT EXISTS producers (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS entries (
    key BLOB PRIMARY KEY,
    producer INTEGER NOT NULL REFERENCES producers (id),
    created INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    value NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class ProducerStats:
    """How much of the store one producer fills."""

    fingerprint: dict[str, Any]
    entries: int
    value_bytes: int
    oldest: float
    newest: float


class Store:
    """Keeps JSON values and arrays by producer and input; two processes may share one file.

    The key is the SHA-256 of the producer's fingerprint and the input, so anything that can change a
    value makes another key. ``put`` is one transaction: a killed process loses no finished batch.
    The class fulfils the ``Cache`` contract of metrics.

    Args:
        path: The file; made if it does not exist.
        lock_seconds: How long to wait while another process writes.

    Raises:
        StoreError: The file cannot be opened, is damaged, or was written by a newer capbench.
    """

    def __init__(self, path: Path, lock_seconds: float = _LOCK_SECONDS) -> None:
        self.path = path
        self.hits = 0
        self.computed = 0
        self._lock = threading.Lock()
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                path, timeout=lock_seconds, isolation_level=None, check_same_thread=False
            )
            self._set_wal_mode(lock_seconds)
            self._db.execute("PRAGMA synchronous = NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version > _SCHEMA_VERSION:
                raise StoreError(
                    f"store {path} was written by a newer capbench (schema {version})",
                    "Update capbench, or name another file with --store.",
                )
            # Only a new file is written to: whoever opens the store need not wait for one who writes.
            if version < _SCHEMA_VERSION:
                self._db.executescript(_SCHEMA)
                self._db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    def get(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
        """Return the values that are known, by input. A damaged value counts as unknown."""
        return {text: json.loads(value) for text, value in self._read(producer, inputs)}

    def put(self, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Keep values by input, in one transaction."""
        self._write(producer, ((text, _encoded(value)) for text, value in values.items()))
        self.computed += len(values)

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the arrays that are known, by input. A damaged one counts as unknown."""
        return {text: _array(value) for text, value in self._read(producer, inputs)}

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays by input, in one transaction."""
        self._write(producer, ((text, _array_bytes(array)) for text, array in arrays.items()))
        self.computed += len(arrays)

    def _read(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> list[tuple[str, bytes]]:
        prefix = _canonical(producer)
        keys = {_key(prefix, text): text for text in inputs}
        found: list[tuple[str, bytes]] = []
        with self._errors(), self._lock:
            for batch in _batches(list(keys), _KEYS_A_QUERY):
                marks = ",".join("?" * len(batch))
                # As bytes: a damaged value need not be UTF-8.
                query = f"SELECT key, crc, CAST(value AS BLOB) FROM entries WHERE key IN ({marks})"  # noqa: S608
                for key, crc, value in self._db.execute(query, batch):
                    if zlib.crc32(value) == crc:
                        found.append((keys[key], value))
        self.hits += len(found)
        return found

    def _write(self, producer: Mapping[str, Any], values: Iterable[tuple[str, str | bytes]]) -> None:
        prefix = _canonical(producer)
        now = int(time.time())
        with self._errors(), self._lock, self._transaction():
            self._db.execute("INSERT OR IGNORE INTO producers (fingerprint) VALUES (?)", (prefix,))
            (number,) = self._db.execute(
                "SELECT id FROM producers WHERE fingerprint = ?", (prefix,)
            ).fetchone()
            self._db.executemany(
                "INSERT OR REPLACE INTO entries (key, producer, created, crc, value) VALUES (?, ?, ?, ?, ?)",
                (
                    (_key(prefix, text), number, now, zlib.crc32(_as_bytes(value)), value)
                    for text, value in values
                ),
            )

    def stats(self) -> list[ProducerStats]:
        """Return what each producer keeps, the largest first."""
        query = """
            SELECT fingerprint, COUNT(key), TOTAL(LENGTH(CAST(value AS BLOB))), MIN(created), MAX(created)
            FROM producers JOIN entries ON producer = id GROUP BY id ORDER BY 3 DESC
        """
        with self._errors(), self._lock:
            rows = self._db.execute(query).fetchall()
        return [
            ProducerStats(json.loads(f), n, int(size), oldest, newest) for f, n, size, oldest, newest in rows
        ]

    def prune(self, older_than: float | None = None, containing: str | None = None) -> int:
        """Delete entries and give their space back.

        Args:
            older_than: Only what was made before this time (seconds since 1970).
            containing: Only producers whose fingerprint contains this text.

        Returns:
            How many entries were deleted.
        """
        with self._errors(), self._lock:
            with self._transaction():
                deleted = self._db.execute(
                    "DELETE FROM entries WHERE created < ? AND producer IN "
                    "(SELECT id FROM producers WHERE INSTR(fingerprint, ?) > 0)",
                    (older_than if older_than is not None else 2**62, containing or ""),
                ).rowcount
                self._db.execute("DELETE FROM producers WHERE id NOT IN (SELECT producer FROM entries)")
            self._db.execute("VACUUM")
            # In WAL mode the file itself shrinks when the log is written back.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return deleted

    def verify(self, repair: bool = False) -> list[str]:
        """Return what is damaged: faults of the file, and values that are not what was written.

        Args:
            repair: Delete damaged values, which are then computed anew when they are next needed.
        """
        with self._errors(), self._lock:
            faults = [row[0] for row in self._db.execute("PRAGMA integrity_check") if row[0] != "ok"]
            damaged = [
                key
                for key, crc, value in self._db.execute("SELECT key, crc, CAST(value AS BLOB) FROM entries")
                if zlib.crc32(value) != crc
            ]
            if repair and damaged:
                with self._transaction():
                    self._db.executemany("DELETE FROM entries WHERE key = ?", [(key,) for key in damaged])
        return faults + [f"entry {key.hex()[:16]} is not what was written" for key in damaged]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _set_wal_mode(self, lock_seconds: float) -> None:
        # SQLite does not wait for the lock here by itself, and two processes may make the file at once.
        give_up = time.monotonic() + lock_seconds
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > give_up:
                    raise
            time.sleep(0.01)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # SQLite has already rolled back by itself when the disk is full.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                hint = "Another process holds it. Wait for it, or name another file with --store."
            elif "full" in text or "disk I/O" in text:
                hint = "Free disk space, 'bench store prune', or name a file on another disk with --store."
            elif "malformed" in text or "not a database" in text:
                hint = "Move the file away and start again; what it kept will be computed anew."
            else:
                hint = "Name another file with --store, or another folder with BENCH_CACHE."
            raise StoreError(f"store {self.path}: {text}", hint) from error


def default_store_path() -> Path:
    """Return the store in the user's cache folder."""
    return cache_folder() / "store.sqlite"


def _canonical(producer: Mapping[str, Any]) -> str:
    return json.dumps(producer, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _key(prefix: str, text: str) -> bytes:
    # A lone surrogate is no text, and still tells inputs apart.
    return hashlib.sha256(f"{len(prefix)}:{prefix}{text}".encode("utf-8", "surrogatepass")).digest()


def _encoded(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # SQLite's text cannot hold a lone surrogate; its escape in JSON can.
        return json.dumps(value)
    return text


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _array_bytes(array: np.ndarray) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def _array(value: bytes) -> np.ndarray:
    import numpy as np

    end = 10 + int.from_bytes(value[8:10], "little")
    shape, dtype = _array_header(value[:end])
    return np.frombuffer(value, dtype, offset=end).reshape(shape).copy()


@lru_cache(maxsize=256)
def _array_header(header: bytes) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and dtype; thousands of arrays have one header, whose reading takes longer than theirs."""
    import numpy as np

    file = io.BytesIO(header)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype


def _batches(values: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
