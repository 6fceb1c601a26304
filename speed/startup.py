"""Time what every user waits for: ``bench --help``, ``bench ls tasks``, beside a Python that does nothing.

Run by hand::

    python speed/startup.py
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

BENCH = str(Path(sys.executable).parent / "bench")
MANY = 200
_TASK = """\
task: mine_{number}
description: One of the tasks of a user.
tag: [mine]
dataset_path: json
dataset_kwargs: {{data_files: rows.jsonl}}
output_type: agreement
doc_to_image: image
doc_to_candidate: caption
doc_to_target: references
doc_to_human: ratings
protocol: {{raters: flatten}}
metric_list: [bleu_4, cider]
statistics: [kendall_b, kendall_c]
metadata: {{version: 1.0}}
"""


def commands(folder: Path) -> dict[str, tuple[list[str], float | None]]:
    """Return what is run, and the bar in seconds that its median is held to.

    Args:
        folder: Where task files are put that a user may have.
    """
    for number in range(MANY):
        (folder / f"mine_{number}.yaml").write_text(_TASK.format(number=number), encoding="utf-8")
    return {
        "bench --help": ([BENCH, "--help"], 0.13),
        "bench ls tasks": ([BENCH, "ls", "tasks"], 0.3),
        f"bench ls tasks, and {MANY} of one's own": ([BENCH, "ls", "tasks", "--include_path", str(folder)], 0.3),
        "python -c pass": ([sys.executable, "-c", "pass"], None),
    }


def seconds(command: list[str]) -> float:
    """Return how long a command takes from start to end."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> int:
    """Print a line a command; exit code 1 if one is over its bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="runs of each command (20)")
    options = parser.parse_args()
    over = False
    with tempfile.TemporaryDirectory() as folder:
        for name, (command, bar) in commands(Path(folder)).items():
            # The first run compiles modules and fills the file cache.
            seconds(command)
            taken = [seconds(command) for _ in range(options.runs)]
            verdict = ""
            if bar is not None:
                over |= median(taken) > bar
                verdict = f", {'over' if median(taken) > bar else 'within'} the bar of {bar:g} s"
            print(f"{name:36}  median {median(taken):.3f} s, min {min(taken):.3f} s{verdict}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
