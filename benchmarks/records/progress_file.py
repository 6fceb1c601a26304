"""The progress of a run: a small JSON file in its folder, which its driver writes, for any machine to read."""

import json
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...atomic_files import DRAFT, is_abandoned, write_whole
from ...errors import BenchError
from ...progress import Progress, Reporter
from ...rows import parse_json

PROGRESS_FILE = "progress.json"
_WRITE_SECONDS = 1.0


@contextmanager
def progress_written(folder: Path, progress: Progress, **about: str) -> Generator[Progress]:
    """Yield reporters that also write the progress of steps, at most once per second, and finally the outcome.

    Args:
        folder: Folder of the run; created if missing.
        progress: Returns the reporters that also receive the progress.
        **about: What the file says of the run, besides.
    """
    steps: dict[str, dict[str, float]] = {}
    started, written = time.time(), 0.0

    def write(end: str = "") -> None:
        nonlocal written
        written = time.monotonic()
        by = {"host": socket.gethostname(), "process": os.getpid(), "started": started, "updated": time.time()}
        write_whole(folder / PROGRESS_FILE, json.dumps({**about, **by, "end": end, "steps": steps}, indent=1) + "\n")

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


def in_progress(root: Path) -> list[dict[str, str]]:
    """Return task, model, host, start and latest step of the runs that are being written to a folder."""
    entries: list[dict[str, str]] = []
    for file in sorted(root.glob(f"{DRAFT}*/{PROGRESS_FILE}")):
        # Other programs, and other machines, may write there, too.
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            said: Any = parse_json(file.read_text(encoding="utf-8"))
            texts = {name: str(said[name]) for name in ("task", "model", "host")}
            texts |= {"step": "data", "done": ""}
            texts["began"] = f"{datetime.fromtimestamp(said['started'], UTC):%Y-%m-%d %H:%M}"
            steps: list[Any] = sorted(said["steps"].items(), key=lambda step: step[1]["updated"])
            for name, step in steps[-1:]:
                texts |= {"step": str(name), "done": f"{int(step['done']):,} of {int(step['total']):,}"}
            if not is_abandoned(file.parent):
                entries.append(texts)
    return entries
