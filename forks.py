"""Work that is shared with processes forked from this one: they know what it knows, and import nothing anew."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

T = TypeVar("T")


_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def shared_by(most: int | None) -> Generator[None]:
    """Let no more than so many processes share what is done meanwhile; None for as many as are worth it."""
    before = _most.set(most)
    try:
        yield
    finally:
        _most.reset(before)


def cores_to_share() -> int:
    """Return how many processes may share work of this one: one a core, and 1 where something else runs in it.

    A thread that is not forked may hold what the forked process waits for. :func:`shared_by` sets a limit.
    """
    alone = threading.active_count() == 1 and multiprocessing.parent_process() is None
    cores = len(os.sched_getaffinity(0)) if alone and can_be_forked() else 1
    return min(cores, _most.get() or cores)


def can_be_forked() -> bool:
    """Return whether this system forks, and this process may have children."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


class Fork(Generic[T]):
    """A forked process that makes something.

    Args:
        make: Makes it; what it gives can be pickled.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._here, there = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=self._run, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def _run(self, there: Connection) -> None:
        # What its parent does at a signal is the parent's: this process is ended, and has nothing to say of it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # Only its parent reads: where that is gone, nothing can be sent, and it ends.
        self._here.close()
        try:
            there.send(self._make())
        except Exception:  # noqa: BLE001 - who started it makes it anew, and has the same error where it can be seen
            os._exit(1)

    def made(self) -> T | None:
        """Return what it made; None if it did not live to send it."""
        try:
            return self._here.recv()
        except EOFError:
            return None

    def end(self) -> None:
        """End the process, whatever it was at."""
        self._here.close()
        self._process.terminate()
        self._process.join()
