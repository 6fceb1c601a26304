"""``bench status``: the progress of a run, from any machine."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from ..errors import DataError

_EPILOG = """\
RUN is the folder that --run_folder named, or that of one task in it. The driver of a run writes its progress there each
second; any machine that sees the folder can read it, during the run and after it. Nothing is started or changed. A run
is quiet if it has written nothing for a minute: it was killed, or its machine is gone."""
_QUIET_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")


def run(options: argparse.Namespace) -> int:
    """Print the progress of a run."""
    from tabulate import tabulate

    from ..benchmarks.scale.progress_file import PROGRESS_FILE

    files = sorted(options.run.rglob(PROGRESS_FILE))
    if not files:
        raise DataError(
            f"{options.run}: holds no progress file of a run",
            "Name the folder that --run_folder named, or that of a task in it.",
        )
    for number, file in enumerate(files):
        state, rows = state_of(file)
        print(f"{chr(10) if number else ''}{file.parent}: {state}")
        if rows:
            print(tabulate(rows, "keys", missingval=""))
    return 0


def state_of(file: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return a sentence on the driver of a run, and a row for each of its steps.

    Args:
        file: The progress file that the driver writes.
    """
    from ..boundary import unlinked
    from ..rows import load_json

    kept = load_json(unlinked(file))
    quiet = time.time() - kept["updated"]
    driver = f"on {kept['host']}, process {kept['process']}"
    state = f"quiet for {quiet:,.0f} s, {driver}: killed, perhaps" if quiet > _QUIET_SECONDS else f"running {driver}"
    return kept["end"] or state, [_row(name, step) for name, step in kept["steps"].items()]


def _row(name: str, step: dict[str, float]) -> dict[str, Any]:
    seconds, new = step["updated"] - step["began"], step["done"] - step["first"]
    rate = new / seconds if seconds and new else None
    row: dict[str, Any] = {"step": name, "done": int(step["done"]), "of": int(step["total"])}
    if not rate:
        return {**row, "a second": None, "left": None}
    minutes, rest = divmod(round((step["total"] - step["done"]) / rate), 60)
    return {**row, "a second": round(rate, 2), "left": f"{minutes // 60}:{minutes % 60:02}:{rest:02}"}
