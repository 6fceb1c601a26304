"""The store, a cache of captions, parses, features and metric statistics in one SQLite file; what ``--store`` names."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ...errors import StoreError, UsageError, did_you_mean
from ...paths import cache_folder
from .sqlite_file import BEGIN, DamagedStoreError, SqliteFile

if TYPE_CHECKING:
    import numpy as np

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
BUCKETS = {
    "s3": "'capbench[s3]'",
    "s3a": "'capbench[s3]'",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "memory": "",
}
"""The package for each scheme; its library must support conditional writes of a file."""
CREDENTIALS = (
    "Credentials come from the environment: AWS_PROFILE or AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, "
    "AZURE_STORAGE_..., or the machine's role. They must allow listing, reading and writing."
)
_KEYS_A_QUERY = 500
# Up to the year 2100; a damaged time may be anything.
_LAST_SECOND = 4_102_444_800


@dataclass(frozen=True)
class ProducerStats:
    """The use of the store by one producer."""

    fingerprint: dict[str, Any]
    entries: int
    value_bytes: int
    newest: float


class Store:
    """Caches JSON values and arrays by producer and input; several processes may share one file.

    The key is the SHA-256 of the producer's fingerprint and the input, so anything that can change a
    value makes another key. ``put`` is one transaction: a killed process loses no finished batch.
    An entry with a wrong checksum counts as unknown, and the next ``put`` replaces it.
    A file that is damaged, or of an older schema, is moved and replaced by an empty one, with a log message.
    A read-only file is used without new entries, with one warning.
    The class implements the ``Cache`` contract of metrics.

    Args:
        path: The file; created if missing, for this user only.
        replace_damaged: Whether a damaged file is moved and replaced; else it is an error.
        late: Whether the file is opened at the first use.

    Raises:
        StoreError: The file cannot be opened, is damaged and cannot be replaced, is on a network file system, or was
            written by a newer capbench.
    """

    def __init__(self, path: Path, *, replace_damaged: bool = True, late: bool = False) -> None:
        self.path = path
        self.hits = self.computed = 0
        self._replace_damaged = replace_damaged
        if not late:
            self._file = SqliteFile(path, replace_damaged=replace_damaged)

    @cached_property
    def _file(self) -> SqliteFile:
        return SqliteFile(self.path, replace_damaged=self._replace_damaged)

    def get(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
        """Return the cached values by input. A damaged value counts as unknown."""
        return {text: json.loads(value) for text, value in self._read(producer, inputs)}

    def put(self, producer: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Cache values by input, in one transaction."""
        self._write(producer, values, _json_text)

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the cached arrays by input. A damaged one counts as unknown."""
        return {text: _array(value) for text, value in self._read(producer, inputs)}

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Cache arrays by input, in one transaction."""
        self._write(producer, arrays, _array_bytes)

    def _read(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> list[tuple[str, bytes]]:
        prefix = _canonical(producer)
        keys = {_key(prefix, text): text for text in inputs}
        wanted = list(keys)

        def select(db: sqlite3.Connection) -> list[tuple[str, bytes]]:
            known = []
            for start in range(0, len(wanted), _KEYS_A_QUERY):
                batch = wanted[start : start + _KEYS_A_QUERY]
                marks = ",".join("?" * len(batch))
                query = f"SELECT key, crc, value FROM entries WHERE key IN ({marks})"  # noqa: S608
                for key, crc, value in db.execute(query, batch):
                    if key in keys and _is_sound(key, crc, value):
                        known.append((keys[key], value))
            return known

        known = self._file.run(select)
        self.hits += len(known)
        return known

    def _write(
        self, producer: Mapping[str, Any], values: Mapping[str, Any], encode: Callable[[Any], str | bytes]
    ) -> None:
        self.computed += len(values)
        if not self._file.writable:
            _say_that_nothing_is_kept(self.path)
            return
        prefix = _canonical(producer)
        now = int(time.time())

        def rows(number: int) -> Iterator[tuple[bytes, int, int, int, str | bytes]]:
            for text, value in values.items():
                key, encoded = _key(prefix, text), encode(value)
                crc = _checksum(key, encoded.encode() if isinstance(encoded, str) else encoded)
                yield key, number, now, crc, encoded

        def insert(db: sqlite3.Connection) -> None:
            with db:
                db.execute(BEGIN)
                number = self._number_of_producer(db, prefix)
                db.executemany(
                    "INSERT OR REPLACE INTO entries (key, producer, created, crc, value) VALUES (?, ?, ?, ?, ?)",
                    rows(number),
                )

        self._file.run(insert)

    def _number_of_producer(self, db: sqlite3.Connection, fingerprint: str) -> int:
        db.execute(
            "INSERT OR IGNORE INTO producers (fingerprint, crc) VALUES (?, ?)",
            (fingerprint, zlib.crc32(fingerprint.encode())),
        )
        row = db.execute("SELECT id FROM producers WHERE fingerprint = ?", (fingerprint,)).fetchone()
        if row is None:
            raise DamagedStoreError(f"store {self.path}: the table of producers is malformed")
        return row[0]

    def stats(self) -> list[ProducerStats]:
        """Return the use of each producer, the largest first."""
        query = """
            SELECT fingerprint, producers.crc, COUNT(key), TOTAL(LENGTH(CAST(value AS BLOB))),
                MAX(CASE WHEN created BETWEEN 0 AND :last THEN created END)
            FROM producers JOIN entries ON producer = id GROUP BY id ORDER BY 4 DESC
        """
        rows = self._file.run(lambda db: db.execute(query, {"last": _LAST_SECOND}).fetchall())
        return [
            ProducerStats(_fingerprint(text, crc), n, int(size), newest or 0) for text, crc, n, size, newest in rows
        ]

    def prune(self, older_than: float | None = None, containing: str | None = None) -> int:
        """Delete entries and free their space.

        Args:
            older_than: Only entries from before this time (seconds since 1970).
            containing: Only producers whose fingerprint contains this text.

        Returns:
            The number of deleted entries.

        Raises:
            StoreError: The file cannot be written.
        """
        if not self._file.writable:
            raise StoreError(
                f"store {self.path} cannot be written",
                "Make the file and its folder writable, or name another file with --store.",
            )

        def delete(db: sqlite3.Connection) -> int:
            deleted = db.execute(
                "DELETE FROM entries WHERE (:before IS NULL OR created < :before) AND (:text IS NULL "
                "OR producer IN (SELECT id FROM producers WHERE INSTR(fingerprint, :text) > 0))",
                {"before": older_than, "text": containing},
            ).rowcount
            db.execute("DELETE FROM producers WHERE id NOT IN (SELECT producer FROM entries)")
            db.execute("VACUUM")
            # In WAL mode the file shrinks when the log is written back.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return deleted

        return self._file.run(delete)

    def verify(self) -> list[str]:
        """Return the faults that SQLite finds, and the number of entries with a wrong checksum."""

        def check(db: sqlite3.Connection) -> list[str]:
            faults = [line.decode("utf-8", "replace") for (line,) in db.execute("PRAGMA integrity_check")]
            # Without the index, which may refer to missing rows.
            rows = db.execute("SELECT key, crc, value FROM entries NOT INDEXED")
            wrong = sum(not _is_sound(*row) for row in rows)
            return [line for line in faults if line != "ok"] + (
                [f"entries with a wrong checksum: {wrong:,}"] if wrong else []
            )

        return self._file.run(check)

    def close(self, *_: object) -> None:
        """Close the file."""
        if "_file" in vars(self):
            self._file.close()

    def __enter__(self) -> Store:
        return self

    __exit__ = close


def default_store_path() -> Path:
    """Return the store in the user's cache folder."""
    return cache_folder() / "store.sqlite"


class StoreNames(NamedTuple):
    """The locations of cached results."""

    file: Path
    """The SQLite file of this machine."""
    objects: str | None
    """Address of shard results that machines share, valid on every machine; None where they share none."""


def parse_store(text: str | None) -> StoreNames:
    """Parse ``--store``.

    Args:
        text: A file; or, for shared results, a folder with a final ``/`` or a URL. The file is then the user's
            store, as without the option.

    Raises:
        UsageError: It is a folder without a final ``/``, or a URL that is invalid or holds credentials.
    """
    if text is None:
        return StoreNames(default_store_path(), None)
    if is_address(text) or text.endswith("/"):
        address = text if is_address(text) else Path(text).absolute().as_uri()
        return StoreNames(default_store_path(), checked_address(address))
    if Path(text).is_dir():
        raise UsageError(
            f"--store {text}: is a folder",
            f"Use '--store {text}/' to share results between machines, or name a file in it.",
        )
    return StoreNames(Path(text), None)


def is_address(text: str) -> bool:
    """Return whether a text has a scheme."""
    return _SCHEME.match(text) is not None


def checked_address(text: str) -> str:
    """Return an address as it is printed and recorded, without a final slash.

    Raises:
        UsageError: It is invalid or holds credentials; the message does not show them.
    """
    match = _SCHEME.match(text)
    scheme, parts = match[1].lower() if match else "", urlsplit(text)
    user, _, host = parts.netloc.rpartition("@")
    shown = f"{scheme}://{host}{parts.path}"
    # abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX
    if parts.query or parts.fragment or ":" in user or (user and not scheme.startswith("abfs")):
        raise UsageError(f"{shown}: an address must not hold credentials or '?'; they are not shown", CREDENTIALS)
    if scheme not in (*BUCKETS, "file"):
        raise UsageError(
            f"{shown}: scheme '{scheme}://' is not supported for results.{did_you_mean(scheme, (*BUCKETS, 'file'))}",
            "Name a folder that the machines share, or a bucket: s3://, gs:// or abfs://.",
        )
    if not (parts.path.strip("/") if scheme == "file" else parts.netloc):
        raise UsageError(
            f"{text}: the address has no folder or bucket", f"Write file:///FOLDER or {scheme}://BUCKET/PREFIX."
        )
    return f"{scheme}://{parts.netloc if scheme != 'file' else ''}{parts.path.rstrip('/')}"


@cache
def _say_that_nothing_is_kept(path: Path) -> None:
    logging.getLogger(__name__).warning(
        "store %s is read-only: cached results are used, and new ones are not cached. "
        "Name another file with --store, or another folder with BENCH_CACHE.",
        path,
    )


def _canonical(producer: Mapping[str, Any]) -> str:
    return json.dumps(producer, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _fingerprint(text: object, crc: object) -> dict[str, Any]:
    if isinstance(text, bytes) and zlib.crc32(text) == crc:
        return json.loads(text)
    return {"producer": "damaged"}


def _key(prefix: str, text: str) -> bytes:
    # A lone surrogate is invalid UTF-8, but distinguishes inputs.
    return hashlib.sha256(f"{len(prefix)}:{prefix}{text}".encode("utf-8", "surrogatepass")).digest()


def _checksum(key: bytes, value: bytes) -> int:
    """Return the checksum of a value: a CRC-32 that includes its key."""
    return zlib.crc32(value, zlib.crc32(key))


def _is_sound(key: object, crc: object, value: object) -> bool:
    return isinstance(key, bytes) and isinstance(value, bytes) and _checksum(key, value) == crc


def _json_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # SQLite's text cannot hold a lone surrogate; its escape in JSON can.
        return json.dumps(value)
    return text


def _array_bytes(array: np.ndarray) -> bytes:
    """Return an array in NumPy's format (``.npy``, version 1.0)."""
    import numpy as np

    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def _array(value: bytes) -> np.ndarray:
    """Return the array of ``_array_bytes``; it belongs to the caller."""
    import numpy as np

    end = 10 + int.from_bytes(value[8:10], "little")
    shape, dtype = _array_header(value[:end])
    return np.frombuffer(value, dtype, offset=end).reshape(shape).copy()


@lru_cache(maxsize=256)
def _array_header(header: bytes) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and dtype; cached, as thousands of arrays share a header, which is slow to parse."""
    import numpy as np

    file = io.BytesIO(header)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype
