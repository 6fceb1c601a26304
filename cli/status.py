"""``bench status``: how far a run is, seen from any machine."""

from __future__ import annotations

import argparse
from pathlib import Path

_EPILOG = """\
RUN is the folder that --run_folder named, or that of one task in it. The process that was called writes there how far
it is, each second; any machine that sees the folder can look, while it runs and after it. Nothing is started and
nothing is changed. A run is quiet where it has written nothing for a minute: it was killed, or its machine is gone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")


def run(options: argparse.Namespace) -> int:
    """Print how far a run is."""
    from tabulate import tabulate

    from ..benchmarks.scale.progress_file import progress_folders, progress_lines

    # Where there is none, the reader says so.
    for number, folder in enumerate(progress_folders(options.run) or [options.run]):
        state, rows = progress_lines(folder)
        print(f"{chr(10) if number else ''}{folder}: {state}")
        if rows:
            print(tabulate(rows, "keys", missingval=""))
    return 0
