"""How far a run is: a small JSON file in its folder, which its driver writes and ``bench status`` reads."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...boundary import unlinked
from ...drafts import write_whole
from ...errors import BenchError, DataError
from ...progress import Progress, Reporter
from ...rows import load_json

PROGRESS_FILE = "progress.json"
_WRITE_SECONDS = 1.0
QUIET_SECONDS = 60.0
"""A driver that has written nothing for so long may have been killed, or works on something long."""


@contextmanager
def progress_written(folder: Path, progress: Progress) -> Generator[Progress]:
    """Give reporters that also write how far their steps are, each second at most, and in the end how it ended.

    Args:
        folder: Folder of the run; made if it is not there.
        progress: Gives the reporters that are told, too.
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


def progress_folders(folder: Path) -> list[Path]:
    """Return the folders at and below one that hold how far a run is."""
    return sorted(file.parent for file in folder.rglob(PROGRESS_FILE))


def progress_lines(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return a sentence on the driver of a run, and a row for each of its steps.

    Raises:
        DataError: The folder holds no progress.
    """
    file = folder / PROGRESS_FILE
    if not file.is_file():
        raise DataError(
            f"{folder}: no run has written here how far it is",
            "Name the folder that --run_folder named, or that of a task in it.",
        )
    kept = load_json(unlinked(file))
    quiet = time.time() - kept["updated"]
    driver = f"on {kept['host']}, process {kept['process']}"
    running = f"running {driver}" if quiet < QUIET_SECONDS else f"quiet for {quiet:,.0f} s, {driver}: killed, perhaps"
    return kept["end"] or running, [_row(name, step) for name, step in kept["steps"].items()]


def _row(name: str, step: dict[str, float]) -> dict[str, Any]:
    seconds, new = step["updated"] - step["began"], step["done"] - step["first"]
    rate = new / seconds if seconds and new else None
    left = (step["total"] - step["done"]) / rate if rate else None
    return {
        "step": name,
        "done": int(step["done"]),
        "of": int(step["total"]),
        "a second": None if rate is None else round(rate, 2),
        "left": None if left is None else duration(left),
    }


def duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
