"""The progress of a run: a small JSON file in its folder, which its driver writes, for any machine to read."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ...atomic_files import write_whole
from ...errors import BenchError
from ...progress import Progress, Reporter

PROGRESS_FILE = "progress.json"
_WRITE_SECONDS = 1.0


@contextmanager
def progress_written(folder: Path, progress: Progress) -> Generator[Progress]:
    """Yield reporters that also write the progress of steps, at most once per second, and finally the outcome.

    Args:
        folder: Folder of the run; created if missing.
        progress: Returns the reporters that also receive the progress.
    """
    steps: dict[str, dict[str, float]] = {}
    started, written = time.time(), 0.0

    def write(end: str = "") -> None:
        nonlocal written
        written = time.monotonic()
        about = {"host": socket.gethostname(), "process": os.getpid(), "started": started, "updated": time.time()}
        write_whole(folder / PROGRESS_FILE, json.dumps({**about, "end": end, "steps": steps}, indent=1) + "\n")

    def start(step: str) -> Reporter:
        report = progress(step)

        def report_and_write(done: int, total: int) -> None:
            known = steps.setdefault(step, {"began": time.time(), "first": done})
            known |= {"done": done, "total": total, "updated": time.time()}
            report(done, total)
            if time.monotonic() - written >= _WRITE_SECONDS:
                write()

        return report_and_write

    folder.mkdir(parents=True, exist_ok=True)
    write()
    end = "interrupted"
    try:
        yield start
        end = "done"
    except BenchError as error:
        end = error.in_one_line
        raise
    finally:
        write(end)
