"""Measure what scale costs, next to the bars.

Run by hand::

    python speed/scale.py --rows 10000      # a minute or two
    python speed/scale.py --rows 1000000    # the bars are meant for these
    python speed/scale.py --only processes released
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import coco
from scale_runs import PLACES, Runs, printed_seconds
from watching import watched

_TESTS = Path(__file__).parents[1] / "tests"
FEW = 10_000
MILLION = 1_000_000


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        what: What was measured.
        value: The figure.
        bar: What it may be at most; at least, where ``is_floor``.
        form: How it is printed, ``{:.1f} s``.
        is_floor: Whether more is better.
    """

    what: str
    value: float
    bar: float
    form: str
    is_floor: bool = False

    @property
    def line(self) -> str:
        """The figure, and the bar."""
        missed = self.value < self.bar if self.is_floor else self.value > self.bar
        # 'every.py' names lines that say so.
        verdict = "over the bar" if missed else "within the bar"
        sign = ">=" if self.is_floor else "<="
        value, bar = map(self.form.format, (self.value, self.bar))
        return f"{self.what:66} {value:>10}  {verdict} {sign} {bar}"


def million(runs: Runs) -> Iterator[Figure]:
    """What a million captions cost; from fewer, by the cost of each one more."""
    seconds = runs.at(MILLION, lambda taken: taken.core_seconds)
    name = "a million captions, 5 references, 4 metrics, 1,000 resamples"
    yield Figure(f"{name}{runs.extrapolated}", seconds, 500, "{:.0f} s")


def processes(runs: Runs) -> Iterator[Figure]:
    """How much faster two processes are than one, start and end included."""
    one, two = (runs.taken("run", place, runs.rows).wall_seconds for place in ("none", "local"))
    yield Figure(f"{runs.rows:,} captions, two processes against one", one / two, 1.8, "{:.2f} x", True)


def released(runs: Runs) -> Iterator[Figure]:
    """How much faster ``bench score`` is, as it is typed, than the script with pycocoevalcap, from start to end."""
    rows = min(runs.rows, coco.SHARD)
    theirs = runs.command("released.py", runs.folder(rows))
    with tempfile.TemporaryDirectory(dir=runs.root) as place:
        score = [sys.executable, "-m", "capbench.cli.main", "score", runs.folder(rows) / "rows.jsonl"]
        metrics = "bleu_1,bleu_4,cider,rouge_l,meteor"
        ours = watched([*score, "--metrics", metrics, "--store", f"{place}/store.sqlite"])
    name = f"{rows:,} captions, 5 references, 5 metrics against pycocoevalcap"
    yield Figure(name, theirs.wall_seconds / ours.wall_seconds, 8, "{:.1f} x", True)
    yield Figure(f"{name}, core-seconds", theirs.core_seconds / ours.core_seconds, 7, "{:.1f} x", True)


def memory(runs: Runs) -> Iterator[Figure]:
    """The greatest peak of a process, wherever the work is done."""
    for what in ("run", "score"):
        for place in PLACES:
            taken = runs.taken(what, place, runs.rows)
            for who, peak in (("driver", taken.peak_bytes), ("worker", taken.worker_bytes)):
                # One process has no worker.
                if peak:
                    name = f"bench {what}, {PLACES[place]}, {who}: peak at {runs.rows:,}"
                    yield Figure(name, peak / 1e9, 1.5, "{:.2f} GB")


def first_caption(runs: Runs) -> Iterator[Figure]:
    """How long a model that is there waits for its first question."""
    for images in (1000, min(runs.rows, 100_000)):
        with tempfile.TemporaryDirectory() as place:
            seconds = printed_seconds(runs.command("first_caption.py", place, images))
        yield Figure(f"first caption asked, {images:,} images", seconds, 2, "{:.2f} s")


def leaderboard(runs: Runs) -> Iterator[Figure]:
    """How long the leaderboard of many runs takes."""
    sys.path.insert(0, str(_TESTS))
    from finished_runs import write_many

    count = runs.models * runs.tasks
    with tempfile.TemporaryDirectory() as place:
        write_many(Path(place) / "runs", count, tasks_in_all=runs.tasks)
        build = [sys.executable, "-m", "capbench.cli.main", "leaderboard", "build"]
        taken = watched([*build, "--runs", f"{place}/runs", "--output", f"{place}/leaderboard"])
    yield Figure(f"leaderboard of {count:,} runs", taken.wall_seconds, 30, "{:.0f} s")


def many_models(runs: Runs) -> Iterator[Figure]:
    """How long units of many models take on a cluster of this machine's cores."""
    taken = runs.command("many_models.py", "--models", runs.models, "--tasks", runs.tasks)
    name = f"{runs.models} models x {runs.tasks} tasks through ray, each loaded once a replica"
    yield Figure(name, printed_seconds(taken), 120, "{:.0f} s")


MEASURES = {
    one.__name__: one for one in (million, processes, released, memory, first_caption, leaderboard, many_models)
}


def main() -> int:
    """Print the figures; exit code 1 if one is over its bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, metavar="N", help="captions (100,000)")
    parser.add_argument("--models", type=int, default=200, metavar="N", help="of leaderboard and cluster (200)")
    parser.add_argument("--tasks", type=int, default=40, metavar="N", help="likewise (40)")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES), metavar="NAME")
    options = parser.parse_args()
    if options.rows < FEW:
        parser.error(f"--rows {options.rows}: fewer than {FEW:,} say nothing of how costs grow")
    missed = False
    with tempfile.TemporaryDirectory() as place:
        runs = Runs(Path(place), options.rows, options.models, options.tasks)
        for name in options.only:
            try:
                for figure in MEASURES[name](runs):
                    line = figure.line
                    missed = missed or "over the bar" in line
                    print(line, flush=True)
            except subprocess.CalledProcessError as error:
                # What was measured by then is not lost, nor what follows.
                missed = True
                print(f"{name}: over the bar: {error}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
