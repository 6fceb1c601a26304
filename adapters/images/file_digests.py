"""Digests of files: a process reads each file once, however many callers ask; models that a file stands for."""

import errno
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

_Thing = TypeVar("_Thing")
_IN_MEMORY = 1 << 17
"""Digests that are kept: 60 MB."""
_A_TASK = 16
_SETTLED_NS = 2_000_000_000
"""A file that changed less than this ago may change again without another time: some systems count in seconds."""


class FileState(NamedTuple):
    """A file as the system describes it, without a look inside.

    Attributes:
        path: Absolute, as the system spells it.
        size: In bytes.
        modified: When the content changed, as its owner says; nanoseconds since 1970.
        changed: When anything of the file changed, as the system says, which no copy with times of old can forge.
    """

    path: str
    size: int
    modified: int
    changed: int


class _UnsettledError(Exception):
    """The file changed just now, or while it was read: its digest is not kept."""


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hex.

    Raises:
        OSError: It cannot be read.
    """
    try:
        name = str(path) if path.is_absolute() else os.path.abspath(path)  # noqa: PTH100 - a link's own name
        # The quicker way: asked for every image of every metric.
        return _kept(_state(name, os.stat(path)))  # noqa: PTH116
    except _UnsettledError as unsettled:
        return unsettled.args[0]
    except ValueError as error:
        # A null or a lone surrogate: to the caller a file that is not there.
        name = str(path).encode("utf-8", "backslashreplace").decode()
        raise FileNotFoundError(errno.ENOENT, f"is no path: {error}", name) from error


def digests_of(things: Sequence[_Thing], digest: Callable[[_Thing], str]) -> list[str | OSError]:
    """Return the digest of each of many things, or why it cannot be read; several threads read."""

    def digested(some: Sequence[_Thing]) -> list[str | OSError]:
        digests: list[str | OSError] = []
        for thing in some:
            try:
                digests.append(digest(thing))
            except OSError as error:
                digests.append(error)
        return digests

    tasks = [things[start : start + _A_TASK] for start in range(0, len(things), _A_TASK)]
    with ThreadPoolExecutor(thread_name_prefix="hash") as threads:
        return [digest for digests in threads.map(digested, tasks) for digest in digests]


def _state(name: str, status: os.stat_result) -> FileState:
    return FileState(name, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(_IN_MEMORY)
def _kept(state: FileState) -> str:
    with open(state.path, "rb") as content:  # noqa: PTH123 - the system's own spelling
        before = os.fstat(content.fileno())
        digest = hashlib.file_digest(content, "sha256").hexdigest()
        now, after = time.time_ns(), os.fstat(content.fileno())
    # Whether a change of the file from now on would show in its times.
    is_settled = all(abs(now - when) >= _SETTLED_NS for when in (state.modified, state.changed))
    if is_settled and state == _state(state.path, before) == _state(state.path, after):
        return digest
    raise _UnsettledError(digest)


class RecordedFile:
    """A model whose answers a file holds.

    Args:
        path: The file.
        name: How results call it; the file's name unless given.
    """

    adapter: ClassVar[str]
    """Name of the adapter."""

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.path = Path(path).expanduser()
        self.name = name or self.path.stem

    def fingerprint(self) -> dict[str, Any]:
        """Return the hash of the file; two copies of one file are one model."""
        return {"adapter": self.adapter, "sha256": self._digest}

    @cached_property
    def _digest(self) -> str:
        return file_digest(self.path)
