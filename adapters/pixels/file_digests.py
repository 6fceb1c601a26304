"""Digests of files: each is read once for all who ask, in this process, beside it and after it."""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...paths import cache_folder
from .manifest import FileState, Manifest

_IN_MEMORY = 1 << 15
"""Digests that are at hand without a look into the manifest: 15 MB."""
_AT_ONCE, _STATES_A_TASK = 4096, 256
_A_TRANSACTION = 512
_SETTLED_NS = 2_000_000_000
"""A file that changed less than this ago may change again without another time: some systems count in seconds."""


class FileDigests:
    """The digests of files, at hand in this process and kept in a manifest for others.

    Args:
        manifest: What keeps them.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._lock = threading.Lock()
        self._at_hand: dict[FileState, bytes] = {}
        self._unkept: dict[FileState, bytes] = {}

    def of(self, paths: Sequence[Path]) -> list[str | OSError]:
        """Return the SHA-256 of each file in hex, or why it cannot be read; several threads read."""
        found: list[str | OSError] = []
        with ThreadPoolExecutor(thread_name_prefix="hash") as threads:
            for start in range(0, len(paths), _AT_ONCE):
                found += self._of(paths[start : start + _AT_ONCE], threads)
        self.keep()
        return found

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
        """Write into the manifest what is not there yet."""
        with self._lock:
            if self._unkept:
                self._manifest.keep(self._unkept)
                self._unkept.clear()

    def close(self) -> None:
        """Close the manifest; what is not written yet is hashed again another time."""
        with self._lock:
            self._manifest.close()

    def _of(self, paths: Sequence[Path], threads: ThreadPoolExecutor) -> list[str | OSError]:
        slices = (paths[start : start + _STATES_A_TASK] for start in range(0, len(paths), _STATES_A_TASK))
        states = [state for some in threads.map(_states, slices) for state in some]
        asked = list(dict.fromkeys(state for state in states if isinstance(state, FileState)))
        known: dict[FileState, bytes | OSError] = {**self._find(asked)}
        missing = [state for state in asked if state not in known]
        known |= zip(missing, threads.map(self._hashed, missing), strict=True)
        digests = (state if isinstance(state, OSError) else known[state] for state in states)
        return [one if isinstance(one, OSError) else one.hex() for one in digests]

    def _find(self, states: Sequence[FileState]) -> dict[FileState, bytes]:
        with self._lock:
            found = {
                state: digest
                for state in states
                if (digest := self._at_hand.get(state) or self._unkept.get(state))
            }
            if len(found) < len(states):
                kept = self._manifest.find([state for state in states if state not in found])
                self._put_at_hand(kept.items())
                found |= kept
        return found

    def _hashed(self, state: FileState) -> bytes | OSError:
        """Return what a file hashes to now, kept if it has not changed meanwhile and is not about to."""
        try:
            with open(state.path, "rb") as content:  # noqa: PTH123 - the system's own spelling
                before = os.fstat(content.fileno())
                digest = hashlib.file_digest(content, "sha256").digest()
                now, after = time.time_ns(), os.fstat(content.fileno())
        except OSError as error:
            return error
        read = FileState.of(state.path, after)
        if read == FileState.of(state.path, before) and _is_settled(read, now):
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


def _states(paths: Sequence[Path]) -> list[FileState | OSError]:
    return list(map(_state, paths))


def _is_settled(state: FileState, now: int) -> bool:
    """Return whether a change of the file from now on would show in its times."""
    return all(abs(now - when) >= _SETTLED_NS for when in (state.modified, state.changed))


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
            _opened[key] = FileDigests(Manifest(cache_folder() / "digests.sqlite"))
        return _opened[key]


@atexit.register
def _keep_all() -> None:
    for (_, process), digests in _opened.items():
        if process == os.getpid():
            digests.keep()
