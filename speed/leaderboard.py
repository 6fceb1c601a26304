"""Time ``bench leaderboard build`` on records of runs that never were: 200 models, 40 tasks, all protocols.

Run by hand, in the repository::

    python speed/leaderboard.py
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR, MEMORY_BAR = 30.0, 1000
"""Seconds that 8,000 runs may take on two cores, and megabytes."""

_TESTS = Path(__file__).parents[1] / "tests"


def main() -> int:
    """Print the time; exit code 1 if it is over the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8000, metavar="N", help="number of runs (8000)")
    parser.add_argument("--tasks", type=int, default=40, metavar="N", help="number of tasks (40)")
    parser.add_argument("--documents", type=int, default=500, metavar="N", help="documents of a captioner's run (500)")
    options = parser.parse_args()
    sys.path.insert(0, str(_TESTS))
    from finished_runs import write_many

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_many(folder / "runs", options.runs, options.documents, options.tasks)
        start = time.perf_counter()
        command = [sys.executable, "-m", "capbench.cli.main", "leaderboard", "build"]
        subprocess.run([*command, "--runs", str(folder / "runs"), "--output", str(folder / "leaderboard")], check=True)
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in (folder / "leaderboard").rglob("*") if path.is_file())
        page = (folder / "leaderboard" / "index.html").stat().st_size
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory, core_seconds = used.ru_maxrss / 1000, used.ru_utime + used.ru_stime
    over = seconds > BAR or memory > MEMORY_BAR
    print(
        f"{options.runs:,} runs of {options.tasks} tasks: {seconds:.1f} s ({core_seconds:.1f} core-seconds), "
        f"{memory:.0f} MB, {'over' if over else 'within'} the bar of {BAR:.0f} s and {MEMORY_BAR} MB; "
        f"first page {page / 1e6:.1f} MB, {size / 1e6:.0f} MB written"
    )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
