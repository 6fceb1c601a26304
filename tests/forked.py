"""A forked process of a test, which never goes on with the tests themselves."""

import os
import traceback
from collections.abc import Callable


def start(work: Callable[[], object]) -> int:
    """Have a forked process do some work, and end; return its number."""
    if process := os.fork():
        return process
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        work()
    except BaseException:  # noqa: BLE001 - whatever it is, pytest is not to go on in two processes
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def end_of(process: int) -> int:
    """Wait for a process, and return how it ended: its exit status, or less the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def carried_out(work: Callable[[], object]) -> int:
    """Have a forked process do some work, and return how it ended, as ``end_of``."""
    return end_of(start(work))
