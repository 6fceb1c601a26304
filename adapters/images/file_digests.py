"""Digests of files: each file is read once for all callers, in this process, in parallel ones and in later ones."""

from __future__ import annotations

import atexit
import errno
import hashlib
import logging
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...paths import cache_folder, network_file_system

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
        """Return the state from a status."""
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _private() -> sqlite3.Connection:
    """Open a nameless file of this process, which is gone with it."""
    db = sqlite3.connect("", check_same_thread=False)
    db.execute(_TABLE)
    return db


def _open(path: Path) -> sqlite3.Connection:
    if kind := network_file_system(path):
        raise OSError(f"it is on a network file system ({kind}), where SQLite files can be damaged")
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
    # SQLite does not wait for the lock here, and two processes may create the file at once.
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
def _warn_unused(path: Path, reason: str) -> None:
    logging.getLogger(__name__).warning(
        "%s, the cache of file digests, cannot be used: %s. Each run computes them again. "
        "Remove the file, or name another folder with BENCH_CACHE.",
        path,
        reason,
    )


_IN_MEMORY = 1 << 15
"""Digests that are kept in memory: 15 MB."""
_AT_ONCE, _STATES_A_TASK = 4096, 256
_A_TRANSACTION = 512
_SETTLED_NS = 2_000_000_000
"""A file that changed less than this ago may change again without another time: some systems count in seconds."""


class FileDigests:
    """The digests of files by their states, in memory for this process and in a manifest that processes may share.

    The manifest only ever saves time. Where the file cannot be used (it is damaged, cannot be written, lies on a
    network file system), that is logged once, and digests are kept for the life of this process, outside of its memory.

    Args:
        path: The manifest; made if it does not exist, for this user alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._at_hand: dict[FileState, bytes] = {}
        self._unkept: dict[FileState, bytes] = {}
        try:
            self._db = _open(path)
        except (sqlite3.Error, OSError) as error:
            self._db = _private()
            _warn_unused(path, str(error))

    def of(self, paths: Sequence[Path]) -> list[str | OSError]:
        """Return the SHA-256 of each file in hex, or why it cannot be read; several threads read."""
        hashes: list[str | OSError] = []
        with ThreadPoolExecutor(thread_name_prefix="hash") as threads:
            for start in range(0, len(paths), _AT_ONCE):
                hashes += self._of(paths[start : start + _AT_ONCE], threads)
        self.keep()
        return hashes

    def one(self, path: Path) -> str:
        """Return the SHA-256 of a file in hex.

        Raises:
            OSError: It cannot be read.
        """
        state = _state(path)
        if isinstance(state, OSError):
            raise state
        if (digest := self._find([state]).get(state)) is None:
            digest = self._hashed(state)
        if isinstance(digest, OSError):
            raise digest
        return digest.hex()

    def keep(self) -> None:
        """Write new digests into the manifest, in one transaction, in place of those of older states."""
        with self._lock:
            rows = [(*state, digest, _crc(state, digest)) for state, digest in self._unkept.items()]
            if rows:
                try:
                    self._write(rows)
                except sqlite3.Error as error:
                    self._give_up(error)
                    self._write(rows)
            self._unkept.clear()

    def close(self) -> None:
        """Close the manifest; digests that are not written yet are computed again later."""
        with self._lock:
            self._db.close()

    def _write(self, rows: Iterable[tuple[bytes | int, ...]]) -> None:
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?, ?, ?)", rows)

    def _give_up(self, error: sqlite3.Error) -> None:
        self._db.close()
        self._db = _private()
        _warn_unused(self._path, str(error))

    def _of(self, paths: Sequence[Path], threads: ThreadPoolExecutor) -> list[str | OSError]:
        slices = (paths[start : start + _STATES_A_TASK] for start in range(0, len(paths), _STATES_A_TASK))
        states = [state for some in threads.map(lambda some: list(map(_state, some)), slices) for state in some]
        asked = list(dict.fromkeys(state for state in states if isinstance(state, FileState)))
        known: dict[FileState, bytes | OSError] = {**self._find(asked)}
        missing = [state for state in asked if state not in known]
        known |= zip(missing, threads.map(self._hashed, missing), strict=True)
        digests = (state if isinstance(state, OSError) else known[state] for state in states)
        return [digest if isinstance(digest, OSError) else digest.hex() for digest in digests]

    def _find(self, states: Sequence[FileState]) -> dict[FileState, bytes]:
        """Return the digests of the files that are known in these very states."""
        with self._lock:
            known = {
                state: digest for state in states if (digest := self._at_hand.get(state) or self._unkept.get(state))
            }
            if missing := [state for state in states if state not in known]:
                try:
                    kept = dict(self._read(missing))
                except sqlite3.Error as error:
                    self._give_up(error)
                    kept = {}
                self._put_at_hand(kept.items())
                known |= kept
        return known

    def _read(self, states: Sequence[FileState]) -> Iterator[tuple[FileState, bytes]]:
        wanted = set(states)
        for start in range(0, len(states), _PATHS_A_QUERY):
            paths = [state.path for state in states[start : start + _PATHS_A_QUERY]]
            query = f"SELECT * FROM digests WHERE path IN ({','.join('?' * len(paths))})"  # noqa: S608
            for *fields, digest, crc in self._db.execute(query, paths):
                state = FileState(*fields)
                # A row with a wrong checksum (a bit that flipped on the disk) is ignored.
                if state in wanted and isinstance(digest, bytes) and _crc(state, digest) == crc:
                    yield state, digest

    def _hashed(self, state: FileState) -> bytes | OSError:
        """Return a file's digest; it is stored if the file did not change during the read and is not too recent."""
        try:
            with open(state.path, "rb") as content:  # noqa: PTH123 - the system's own spelling
                before = os.fstat(content.fileno())
                digest = hashlib.file_digest(content, "sha256").digest()
                now, after = time.time_ns(), os.fstat(content.fileno())
        except OSError as error:
            return error
        read = FileState.of(state.path, after)
        # Whether a change of the file from now on would show in its times.
        is_settled = all(abs(now - when) >= _SETTLED_NS for when in (read.modified, read.changed))
        if read == FileState.of(state.path, before) and is_settled:
            self._remember(read, digest)
        return digest

    def _remember(self, state: FileState, digest: bytes) -> None:
        with self._lock:
            self._unkept[state] = digest
            self._put_at_hand([(state, digest)])
            full = len(self._unkept) >= _A_TRANSACTION
        if full:
            self.keep()

    def _put_at_hand(self, digests: Iterable[tuple[FileState, bytes]]) -> None:
        self._at_hand.update(digests)
        while len(self._at_hand) > _IN_MEMORY:
            del self._at_hand[next(iter(self._at_hand))]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hex.

    Raises:
        OSError: It cannot be read.
    """
    return _of_this_process().one(path)


def file_digests(paths: Sequence[Path]) -> list[str | OSError]:
    """Return the SHA-256 of each file in hex, or why it cannot be read."""
    return _of_this_process().of(paths) if paths else []


def _state(path: Path) -> FileState | OSError:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked for every image of every metric, so the quicker way
        name = path if path.is_absolute() else os.path.abspath(path)  # noqa: PTH100 - a link's own name
        return FileState.of(os.fsencode(name), status)
    except ValueError as error:
        # A null or a lone surrogate: to the caller a file that is not there.
        name = str(path).encode("utf-8", "backslashreplace").decode()
        return FileNotFoundError(errno.ENOENT, f"is no path: {error}", name)
    except OSError as error:
        return error


_opening = threading.Lock()
_opened: dict[tuple[str | None, int], FileDigests] = {}


def _of_this_process() -> FileDigests:
    """Return the digests that are kept in the user's cache folder; a process that was forked off has its own."""
    key = os.environ.get("BENCH_CACHE"), os.getpid()
    with _opening:
        if key not in _opened:
            for (_, process), digests in _opened.items():
                if process == key[1]:
                    digests.close()
            _opened.clear()
            _opened[key] = FileDigests(cache_folder() / "digests.sqlite")
        return _opened[key]


@atexit.register
def _keep_all() -> None:
    for (_, process), digests in _opened.items():
        if process == os.getpid():
            digests.keep()
