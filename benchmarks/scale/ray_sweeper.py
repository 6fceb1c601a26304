"""Ends the rest of a Ray cluster that a driver started, once the driver has ended, even if it was killed.

It is a separate program outside the driver's process group: its standard input ends when the driver does.
"""

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
"""Environment variable of all processes of a cluster and of their children."""
_starting: list[str] = []


@contextmanager
def _marked(mark: str) -> Generator[None]:
    """Mark the processes that are started inside; each leads a process group, separate from the driver's."""
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
    """Yield a context that marks the processes of a starting cluster; those left at the end are killed."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-I", __file__, mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0):
        yield _marked(mark)


def left(mark: str) -> Iterator[int]:
    """Yield the ids of processes with a mark, on systems with ``/proc``."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def _sweep(mark: str) -> None:
    """Wait for the end of the driver, or of the cluster; kill the marked processes and their new children."""
    sys.stdin.read()
    while processes := list(left(mark)):
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    _sweep(sys.argv[1])
