"""Measure what scale costs, next to the bars and to what it cost before.

Run by hand::

    python speed/scale.py --rows 10000      # a minute or two
    python speed/scale.py --rows 1000000    # the bars are meant for these
    python speed/scale.py --only processes released
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from scale_runs import PLACES, Runs, printed_seconds
from watching import watched

FOLDER = Path(__file__).parent
BEFORE = FOLDER / "scale_before.yaml"
"""Figures of the commit that is named there, from before runs were carried out in units."""
_TESTS = FOLDER.parent / "tests"
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
        before: Key of the figure of the commit before.
        is_floor: Whether more is better.
    """

    what: str
    value: float
    bar: float
    form: str
    before: str = ""
    is_floor: bool = False

    def line(self, before: dict[str, Any]) -> str:
        """Return the figure, that of before, and the bar."""
        missed = self.value < self.bar if self.is_floor else self.value > self.bar
        known = before.get(self.before)
        said = self.form.format(known) if isinstance(known, int | float) else known or "-"
        # 'every.py' names lines that say so.
        verdict = "over the bar" if missed else "within the bar"
        sign = ">=" if self.is_floor else "<="
        value, bar = map(self.form.format, (self.value, self.bar))
        return f"{self.what:66} {value:>10}  before {said:>12}  {verdict} {sign} {bar}"


def million(runs: Runs) -> Iterator[Figure]:
    """What a million captions cost; from fewer, by the cost of each one more."""
    seconds = runs.at(MILLION, lambda taken: taken.core_seconds)
    name = "a million captions, 5 references, 4 metrics, 1,000 resamples"
    yield Figure(f"{name}{runs.extrapolated}", seconds, 500, "{:.0f} s", "million")


def processes(runs: Runs) -> Iterator[Figure]:
    """How much faster two processes are than one, start and end included."""
    one, two = (runs.taken("run", place, runs.rows).wall_seconds for place in ("none", "local"))
    yield Figure(f"{runs.rows:,} captions, two processes against one", one / two, 1.8, "{:.2f} x", "processes", True)


def released(runs: Runs) -> Iterator[Figure]:
    """How much faster than pycocoevalcap and scipy; so few captions are one shard, and cores share resamples."""
    rows = min(runs.rows, FEW)
    theirs = runs.command("released.py", runs.folder(rows)).wall_seconds
    ours = runs.taken("rated", "default", rows).wall_seconds
    name = f"{rows:,} captions with ratings against pycocoevalcap and scipy"
    yield Figure(name, theirs / ours, 12, "{:.1f} x", "released", True)


def memory(runs: Runs) -> Iterator[Figure]:
    """The greatest peak of a process, wherever the work is done, and how it grows."""
    few = min(FEW, runs.rows // 10)
    for what in ("run", "score"):
        for place in PLACES:
            small, large = (runs.taken(what, place, rows) for rows in (few, runs.rows))
            for who, key in (("driver", "peak_bytes"), ("worker", "worker_bytes")):
                peak, least = getattr(large, key), getattr(small, key)
                if not least:
                    # One process has none; ray starts its own.
                    continue
                name = f"bench {what}, {PLACES[place]}, {who}"
                old = f"{what}" if place == "none" else ""
                yield Figure(f"{name}: peak at {runs.rows:,}", peak / 1e9, 1, "{:.2f} GB", f"{old}_peak")
                yield Figure(f"{name}: against {few:,}", peak / least, 1.2, "{:.2f} x", f"{old}_growth")


def first_caption(runs: Runs) -> Iterator[Figure]:
    """How long a model that is there waits for its first question."""
    for images in (1000, min(runs.rows, 100_000)):
        with tempfile.TemporaryDirectory() as place:
            seconds = printed_seconds(runs.command("first_caption.py", place, images))
        yield Figure(f"first caption asked, {images:,} images", seconds, 2, "{:.2f} s", f"first_{images}")


def leaderboard(runs: Runs) -> Iterator[Figure]:
    """How long the leaderboard of many runs takes."""
    sys.path.insert(0, str(_TESTS))
    from finished_runs import write_many

    count = runs.models * runs.tasks
    with tempfile.TemporaryDirectory() as place:
        write_many(Path(place) / "runs", count, tasks_in_all=runs.tasks)
        build = [sys.executable, "-m", "capbench.cli.main", "leaderboard", "build"]
        taken = watched([*build, "--runs", f"{place}/runs", "--output", f"{place}/leaderboard"])
    yield Figure(f"leaderboard of {count:,} runs", taken.wall_seconds, 30, "{:.0f} s", f"leaderboard_{count}")


def many_models(runs: Runs) -> Iterator[Figure]:
    """How long units of many models take on a cluster of this machine's cores."""
    taken = runs.command("many_models.py", "--models", runs.models, "--tasks", runs.tasks)
    name = f"{runs.models} models x {runs.tasks} tasks through ray, each loaded once a replica"
    yield Figure(name, printed_seconds(taken), 120, "{:.0f} s")


def figures_of_before(rows: int) -> dict[str, Any]:
    """Return the figures of the commit before, those of so many captions among them where they were measured."""
    figures = yaml.safe_load(BEFORE.read_text(encoding="utf-8"))["figures"]
    return {**figures["any"], **figures.get(rows, {})}


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
    before = figures_of_before(options.rows)
    missed = False
    with tempfile.TemporaryDirectory() as place:
        runs = Runs(Path(place), options.rows, options.models, options.tasks)
        for name in options.only:
            try:
                for figure in MEASURES[name](runs):
                    line = figure.line(before)
                    missed = missed or "over the bar" in line
                    print(line, flush=True)
            except subprocess.CalledProcessError as error:
                # What was measured by then is not lost, nor what follows.
                missed = True
                print(f"{name}: over the bar: {error}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
