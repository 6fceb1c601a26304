"""Runs a command and says what it took: its processes, their children, and what a cluster started for it."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_EVERY = 0.1
"""Seconds between two looks at the memory of processes; each tells its own peak, so only the last moment is missed."""


@dataclass(frozen=True)
class Taken:
    """What a command took.

    Attributes:
        core_seconds: Of the process and all that it waited for.
        wall_seconds: From start to end.
        peak_bytes: The most resident memory that the process had at a time.
        worker_bytes: The most that one of its descendants had; 0 where there were none.
        read_bytes: Read through files by the process.
        written_bytes: Written likewise.
        output: What it printed.
    """

    core_seconds: float
    wall_seconds: float
    peak_bytes: int
    worker_bytes: int
    read_bytes: int
    written_bytes: int
    output: str


def watched(command: Sequence[str | Path]) -> Taken:
    """Run a command to its end.

    Raises:
        subprocess.CalledProcessError: It failed; what it wrote to standard error is shown as it comes.
    """
    own, others, flow = 0, 0, (0, 0)
    start, before = time.perf_counter(), os.times()
    with subprocess.Popen([str(one) for one in command], stdout=subprocess.PIPE, text=True) as process:
        one = psutil.Process(process.pid)
        while process.poll() is None:
            own = max(own, _peak(process.pid))
            others = max([others, *(_peak(number) for number in _descendants(process.pid))])
            flow = _flow(one) or flow
            time.sleep(_EVERY)
        output = process.stdout.read() if process.stdout else ""
    wall, after = time.perf_counter() - start, os.times()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, output)
    core = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(core, wall, own, others, *flow, output)


def _descendants(number: int) -> list[int]:
    """Return the processes below a process; to look for them among all would take a share of a core."""
    found: list[int] = []
    for place in Path(f"/proc/{number}/task").glob("*/children"):
        try:
            own = [int(child) for child in place.read_text().split()]
        except OSError:
            continue
        found += [*own, *(below for child in own for below in _descendants(child))]
    return found


def _peak(number: int) -> int:
    """Return the peak of the resident memory of a process; 0 where it is gone."""
    try:
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)


def _flow(process: psutil.Process) -> tuple[int, int] | None:
    try:
        counted = process.io_counters()
    except psutil.Error:
        return None
    return counted.read_chars, counted.write_chars
