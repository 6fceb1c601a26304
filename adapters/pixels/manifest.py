"""What files hashed to, in a SQLite file of the user's: what has not changed since is not read again to know it."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...network_file_systems import network_file_system

_PATHS_A_QUERY = 500
_LOCK_SECONDS = 30.0
_TABLE = """
    CREATE TABLE IF NOT EXISTS digests (
        path BLOB PRIMARY KEY, size INTEGER, modified INTEGER, changed INTEGER, digest BLOB, crc INTEGER
    ) WITHOUT ROWID
"""


class FileState(NamedTuple):
    """A file as the system describes it, without a look inside.

    Attributes:
        path: Absolute, as the system spells it.
        size: In bytes.
        modified: When the content changed, as its owner says; nanoseconds since 1970.
        changed: When anything of the file changed, as the system says, which no copy with times of old can forge.
    """

    path: bytes
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: bytes, status: os.stat_result) -> FileState:
        """Return the state that a status tells."""
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Manifest:
    """Keeps the digests of files by their states; several processes may share one file.

    It only ever saves time. Where the file cannot be used (it is damaged, cannot be written, lies on a file system of
    the network), that is said once, and digests are kept for as long as this process lives, outside of its memory.

    Args:
        path: The file; made if it does not exist, for this user alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = _open(path)
        except (sqlite3.Error, OSError) as error:
            self._db = _private()
            _say_that_it_is_not_used(path, str(error))

    def find(self, states: Sequence[FileState]) -> dict[FileState, bytes]:
        """Return the digests of the files that are known in these very states."""
        try:
            return self._find(states)
        except sqlite3.Error as error:
            self._give_up(error)
            return {}

    def keep(self, digests: Mapping[FileState, bytes]) -> None:
        """Keep digests, in one transaction, in place of those of older states."""
        rows = [(*state, digest, _crc(state, digest)) for state, digest in digests.items()]
        try:
            self._keep(rows)
        except sqlite3.Error as error:
            self._give_up(error)
            self._keep(rows)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _find(self, states: Sequence[FileState]) -> dict[FileState, bytes]:
        found: dict[FileState, bytes] = {}
        wanted = set(states)
        for start in range(0, len(states), _PATHS_A_QUERY):
            paths = [state.path for state in states[start : start + _PATHS_A_QUERY]]
            query = f"SELECT * FROM digests WHERE path IN ({','.join('?' * len(paths))})"  # noqa: S608
            for *state, digest, crc in self._db.execute(query, paths):
                known = FileState(*state)
                # What is not as it was written (a bit that flipped on the disk) is not known.
                if known in wanted and isinstance(digest, bytes) and _crc(known, digest) == crc:
                    found[known] = digest
        return found

    def _keep(self, rows: Iterable[tuple[bytes | int, ...]]) -> None:
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?, ?, ?)", rows)

    def _give_up(self, error: sqlite3.Error) -> None:
        self._db.close()
        self._db = _private()
        _say_that_it_is_not_used(self._path, str(error))


def _private() -> sqlite3.Connection:
    """Open a nameless file of this process, which is gone with it."""
    db = sqlite3.connect("", check_same_thread=False)
    db.execute(_TABLE)
    return db


def _open(path: Path) -> sqlite3.Connection:
    if kind := network_file_system(path):
        raise OSError(f"it is on a file system of the network ({kind}), where SQLite's files can be damaged")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    db = sqlite3.connect(path, timeout=_LOCK_SECONDS, check_same_thread=False)
    try:
        _set_wal_mode(db)
        # A machine that loses its power may cost the last digests, no more.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(_TABLE)
        db.execute("SELECT path, size, modified, changed, digest, crc FROM digests LIMIT 1")
    except BaseException:
        db.close()
        raise
    return db


def _set_wal_mode(db: sqlite3.Connection) -> None:
    """Let one process write while others read."""
    # SQLite does not wait for the lock here by itself, and two processes may make the file at once.
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def _crc(state: FileState, digest: bytes) -> int:
    return zlib.crc32(repr((*state, digest)).encode())


@cache
def _say_that_it_is_not_used(path: Path, reason: str) -> None:
    logging.getLogger(__name__).warning(
        "%s, which keeps what images hash to, cannot be used: %s. Each run hashes them anew. "
        "Remove the file, or name another folder with BENCH_CACHE.",
        path,
        reason,
    )
