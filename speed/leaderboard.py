"""Time ``bench leaderboard build`` on records of runs that never were: 20 tasks, all protocols.

Run by hand, in the repository::

    python speed/leaderboard.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR = 20.0
"""Seconds that 1,000 runs may take."""

_TESTS = Path(__file__).parents[1] / "tests"


def main() -> int:
    """Print the time; exit code 1 if it is over the bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000, metavar="N", help="number of runs (1000)")
    parser.add_argument(
        "--documents", type=int, default=500, metavar="N", help="documents of a captioner's run (500)"
    )
    options = parser.parse_args()
    sys.path.insert(0, str(_TESTS))
    from finished_runs import write_many

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_many(folder / "runs", options.runs, options.documents)
        start = time.perf_counter()
        command = [sys.executable, "-m", "capbench.benchmarks.cli.main", "leaderboard", "build"]
        subprocess.run(
            [*command, "--runs", str(folder / "runs"), "--output", str(folder / "leaderboard")], check=True
        )
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in (folder / "leaderboard").rglob("*") if path.is_file())
    verdict = "over" if seconds > BAR else "within"
    print(
        f"{options.runs:,} runs: {seconds:.1f} s, {verdict} the bar of {BAR:.0f} s, {size / 1e6:.1f} MB written"
    )
    return int(seconds > BAR)


if __name__ == "__main__":
    sys.exit(main())
