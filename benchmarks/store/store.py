"""The store: one SQLite file that keeps captions, parses, features and metric statistics."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import StoreError
from ...paths import cache_folder
from .damage import delete_damaged, find_damage
from .faults import store_errors
from .opening import open_file
from .schema import VERSION, checksum, is_sound, is_sound_in_any_schema
from .transactions import give_space_back, transaction
from .values import array_bytes, array_of, as_bytes, encoded

if TYPE_CHECKING:
    import numpy as np

_LOCK_SECONDS = 30.0
_KEYS_A_QUERY = 500
# Up to the year 2100; a damaged time may be anything.
_LAST_SECOND = 4_102_444_800


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
    A file that cannot be written is read; what is put is not kept then, which is said once.
    The class fulfils the ``Cache`` contract of metrics.

    Args:
        path: The file; made if it does not exist, for this user alone. One of an older schema is carried over.
        lock_seconds: How long to wait while another process writes.

    Raises:
        StoreError: The file cannot be opened, is damaged, is on a file system of the network, or was written by a
            newer capbench.
    """

    def __init__(self, path: Path, lock_seconds: float = _LOCK_SECONDS) -> None:
        self.path = path
        self.hits = 0
        self.computed = 0
        self._lock = threading.Lock()
        self._lock_seconds = lock_seconds
        with self._errors():
            opened = open_file(path, lock_seconds)
        self._db = opened.db
        # Damaged text need not be UTF-8.
        self._db.text_factory = bytes
        self._version = opened.version
        self._writable = opened.writable

    def get(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
        """Return the values that are known, by input. A damaged value counts as unknown."""
        return {text: json.loads(value) for text, value in self._read(producer, inputs)}

    def put(self, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Keep values by input, in one transaction."""
        self._write(producer, ((text, encoded(value)) for text, value in values.items()))
        self.computed += len(values)

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the arrays that are known, by input. A damaged one counts as unknown."""
        return {text: array_of(value) for text, value in self._read(producer, inputs)}

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays by input, in one transaction."""
        self._write(producer, ((text, array_bytes(array)) for text, array in arrays.items()))
        self.computed += len(arrays)

    def _read(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> list[tuple[str, bytes]]:
        prefix = _canonical(producer)
        keys = {_key(prefix, text): text for text in inputs}
        # A file of the first schema that cannot be carried over.
        sound = is_sound if self._version == VERSION else is_sound_in_any_schema
        found: list[tuple[str, bytes]] = []
        with self._errors(), self._lock:
            for batch in _batches(list(keys), _KEYS_A_QUERY):
                marks = ",".join("?" * len(batch))
                query = f"SELECT key, crc, value FROM entries WHERE key IN ({marks})"  # noqa: S608
                for key, crc, value in self._db.execute(query, batch):
                    if key in keys and sound(key, crc, value):
                        found.append((keys[key], value))
        self.hits += len(found)
        return found

    def _write(self, producer: Mapping[str, Any], values: Iterable[tuple[str, str | bytes]]) -> None:
        if not self._writable:
            _say_that_nothing_is_kept(self.path)
            return
        prefix = _canonical(producer)
        now = int(time.time())
        with self._errors(), self._lock, transaction(self._db):
            number = self._number_of_producer(prefix)
            self._db.executemany(
                "INSERT OR REPLACE INTO entries (key, producer, created, crc, value) VALUES (?, ?, ?, ?, ?)",
                (
                    (key, number, now, checksum(key, as_bytes(value)), value)
                    for key, value in ((_key(prefix, text), value) for text, value in values)
                ),
            )

    def _number_of_producer(self, prefix: str) -> int:
        self._db.execute(
            "INSERT OR IGNORE INTO producers (fingerprint, crc) VALUES (?, ?)",
            (prefix, zlib.crc32(prefix.encode())),
        )
        found = self._db.execute("SELECT id FROM producers WHERE fingerprint = ?", (prefix,)).fetchone()
        if found is None:
            raise sqlite3.DatabaseError("the table of producers is malformed")
        return found[0]

    def stats(self) -> list[ProducerStats]:
        """Return what each producer keeps, the largest first."""
        query = """
            SELECT fingerprint, COUNT(key), TOTAL(LENGTH(CAST(value AS BLOB))),
                MIN(CASE WHEN created BETWEEN 0 AND :last THEN created END),
                MAX(CASE WHEN created BETWEEN 0 AND :last THEN created END)
            FROM producers JOIN entries ON producer = id GROUP BY id ORDER BY 3 DESC
        """
        with self._errors(), self._lock:
            rows = self._db.execute(query, {"last": _LAST_SECOND}).fetchall()
        return [
            ProducerStats(_fingerprint(found), n, int(size), oldest or 0, newest or 0)
            for found, n, size, oldest, newest in rows
        ]

    def prune(self, older_than: float | None = None, containing: str | None = None) -> int:
        """Delete entries and give their space back.

        Args:
            older_than: Only what was made before this time (seconds since 1970).
            containing: Only producers whose fingerprint contains this text.

        Returns:
            How many entries were deleted.

        Raises:
            StoreError: The file cannot be written.
        """
        self._require_writable()
        with self._errors(), self._lock:
            with transaction(self._db):
                deleted = self._db.execute(
                    "DELETE FROM entries WHERE created < ? AND producer IN "
                    "(SELECT id FROM producers WHERE INSTR(fingerprint, ?) > 0)",
                    (older_than if older_than is not None else 2**62, containing or ""),
                ).rowcount
                self._db.execute("DELETE FROM producers WHERE id NOT IN (SELECT producer FROM entries)")
            give_space_back(self._db, self._lock_seconds)
        return deleted

    def verify(self, repair: bool = False) -> list[str]:
        """Return what is damaged: faults of the file, and values that are not what was written.

        Args:
            repair: Delete damaged values, which are then computed anew when they are next needed. A file that has
                faults itself is left as it is: ``salvage`` makes a new one of it.

        Raises:
            StoreError: The file cannot be written, and should be.
        """
        with self._lock:
            damage = find_damage(self._db, self._version, self.path)
            if repair and damage.lines() and not damage.file:
                self._require_writable()
                with self._errors():
                    delete_damaged(self._db, damage)
        return damage.lines()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _require_writable(self) -> None:
        if not self._writable:
            raise StoreError(
                f"store {self.path} cannot be written",
                "Make the file and its folder writable, or name another file with --store.",
            )

    def _errors(self):
        return store_errors(self.path)


def default_store_path() -> Path:
    """Return the store in the user's cache folder."""
    return cache_folder() / "store.sqlite"


@cache
def _say_that_nothing_is_kept(path: Path) -> None:
    logging.getLogger(__name__).warning(
        "store %s cannot be written: what it has is used, and nothing new is kept. "
        "Name another file with --store, or another folder with BENCH_CACHE.",
        path,
    )


def _canonical(producer: Mapping[str, Any]) -> str:
    return json.dumps(producer, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _fingerprint(text: object) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, bytes) else None
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"producer": "damaged"}


def _key(prefix: str, text: str) -> bytes:
    # A lone surrogate is no text, and still tells inputs apart.
    return hashlib.sha256(f"{len(prefix)}:{prefix}{text}".encode("utf-8", "surrogatepass")).digest()


def _batches(values: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
