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
from contextlib import contextmanager, suppress
from pathlib import Path

_MARK = "CAPBENCH_RAY_CLUSTER"
"""In the environment of all processes of a cluster, and of what these start."""
_starting: list[str] = []


class Starting:
    """Marks the processes that are started inside, each of which leads a group: what ends the driver's is not theirs.

    Attributes:
        mark: By which they are known.
    """

    _is_hooked = False

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __enter__(self) -> None:
        if not Starting._is_hooked:
            Starting._is_hooked = True
            os.register_at_fork(after_in_child=_lead_a_group)
        _starting.append(self.mark)
        os.environ[_MARK] = self.mark

    def __exit__(self, *_: object) -> None:
        del os.environ[_MARK]
        _starting.pop()


def _lead_a_group() -> None:
    if _starting:
        os.setpgid(0, 0)


@contextmanager
def swept() -> Generator[Starting]:
    """Give what marks the processes of a cluster while it is started; those that are left in the end are killed."""
    starting = Starting(uuid.uuid4().hex)
    command = [sys.executable, "-I", __file__, starting.mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0):
        yield starting


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
