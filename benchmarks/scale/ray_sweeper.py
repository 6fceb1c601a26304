"""Ends what is left of a cluster of ray that a driver started, once the driver has ended, however that ended.

It is a program of its own, in no group that is ended with the driver: its standard input ends when the driver does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

_MARK = "CAPBENCH_RAY_CLUSTER"
"""In the environment of all processes of a cluster, and of what these start."""
_starting: list[str] = []


@contextmanager
def _marked(mark: str) -> Generator[None]:
    """Mark the processes that are started inside, each of which leads a group: what ends the driver's is not theirs."""
    _hook()
    _starting.append(mark)
    os.environ[_MARK] = mark
    try:
        yield
    finally:
        del os.environ[_MARK]
        _starting.pop()


@cache
def _hook() -> None:
    os.register_at_fork(after_in_child=lambda: os.setpgid(0, 0) if _starting else None)


@contextmanager
def swept() -> Generator[AbstractContextManager[None]]:
    """Give what marks the processes of a cluster while it is started; those that are left in the end are killed."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-I", __file__, mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0):
        yield _marked(mark)


def left(mark: str) -> Iterator[int]:
    """Yield the processes with a mark, on a system that tells."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def _sweep(mark: str) -> None:
    """Wait for the end of the driver, or of its need; kill what has the mark, and what that has started meanwhile."""
    sys.stdin.read()
    while found := list(left(mark)):
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    _sweep(sys.argv[1])
