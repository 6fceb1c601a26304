"""``bench status``: how far a run is that engines carry out, seen from any machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from .options import not_negative

_EPILOG = """\
RUN is the folder that --run_folder named, or that of one task or stage in it. The drivers and slots of the run write
there how far they are, each second; any machine that sees the folder can look, while it runs and after it. Nothing is
started and nothing is changed.

Documents that pass several stages count once in each. The time that is left follows from what units of each stage
took so far. A driver is quiet where it has said nothing for half a minute: it was killed, or its machine is gone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run")
    parser.add_argument(
        "--failures", type=not_negative, default=5, metavar="N", help="attempts that failed to show (5)"
    )


def run(options: argparse.Namespace) -> int:
    """Print how far a run is."""
    from ..engines.run_folder import runs_in

    # Where there is none, the reader says so.
    for number, folder in enumerate(runs_in(options.run) or [options.run]):
        if number:
            print()
        if folder != options.run:
            print(folder)
        _print_status(folder, options.failures)
    return 0


def _print_status(folder: Path, failures: int) -> None:
    from tabulate import tabulate

    from ...errors import counted
    from ..engines.status import read_status
    from .engine_options import duration

    status = read_status(folder)
    for name, state in status.drivers.items():
        print(f"{name}: {state}")
    if not status.drivers:
        print("nobody has begun")
    percent = 100 * status.done // status.units if status.units else 100
    print(f"{status.done:,} of {counted(status.units, 'unit')} done ({percent} %)")
    left = "" if status.left is None or status.done == status.units else f", {duration(status.left)} left"
    print(f"{counted(status.documents, 'document')} computed, {status.rate:,.1f} a second{left}")
    print()
    print(tabulate([(stage, *counts) for stage, counts in status.stages.items()], ["stage", "done", "units"]))
    rows = [
        (one.name, one.units, one.documents, one.rate, one.failures, one.in_hand) for one in status.workers
    ]
    if rows:
        print()
        heads = ["worker", "units", "documents", "a second", "failures", "in hand"]
        print(tabulate(rows, heads, floatfmt=",.1f"))
    for head, lines in (
        ("documents that were left out", status.left_out),
        (
            f"attempts that failed: {len(status.failures)}",
            status.failures[len(status.failures) - failures :],
        ),
    ):
        if lines:
            print(f"\n{head}", *lines, sep="\n  ")
