"""Kill runs at random moments, run them again, and hold what is there then against an undisturbed run.

A run is killed by SIGKILL or SIGTERM, half of the times at any moment, half between its first write and its last. The
same command then runs again, with the same store and output folder. Counted are the values that differ from those of
the undisturbed run, and what is left behind: files and folders that the undisturbed run does not leave (in the output,
the cache, the home and the temporary folder), processes, and damage of the store. Run by hand::

    python speed/kills.py
    python speed/kills.py --kills 300 --seed 7 --kinds text,leaderboard
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import capbench
from capbench.benchmarks.store.store import Store
from capbench.errors import BenchError

ROOT = Path(__file__).parents[1]
STORE = "store.sqlite"
_RUN = "run --output_path runs --store store.sqlite --bootstrap 50"
_TEXT = f"{_RUN} --model iiw-p5b --task iiw_400"
KINDS = {
    "text": f"{_TEXT} --metrics bleu_4,cider,rouge_l,meteor,length",
    "tables": f"{_TEXT} --metrics meteor",
    "encoder": f"{_RUN} --model shapes-clip --task shapes_expert --limit 240 --batch_size 4",
    "captioner": f"{_RUN} --model shapes-llava --encoder shapes-clip --task shapes_clip_f1 --limit 8 --batch_size 1",
    "leaderboard": "leaderboard build --runs runs --output board",
}
"""What is killed, as arguments of ``bench``. ``tables`` makes METEOR's tables first, which ``text`` has."""
_OUTPUT_OF_RUN = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}(\.\d+)?")


@dataclass
class Undisturbed:
    """A run that nobody kills.

    Attributes:
        place: Its folder.
        first_write: Seconds until something was written.
        last_write: Seconds until all was written.
        end: Seconds until it ended.
        values: Each value that it gives, by its place.
    """

    place: Path
    first_write: float
    last_write: float
    end: float
    values: dict[str, Any]


@dataclass
class Outcome:
    """What became of a killed run.

    Attributes:
        kill: The signal.
        hit: ``before`` anything was written, ``during`` the writing, or ``after`` the end.
        values: How many values were compared.
        differing: Those that differ.
        left: What was left behind.
        faults: What went wrong otherwise.
    """

    kill: signal.Signals
    hit: str
    values: int = 0
    differing: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Bench:
    """Runs ``bench`` in a folder that holds all that it may write to: output, store, cache, home, temporary files."""

    def __init__(self, place: Path, command: str) -> None:
        self.place = place
        self.command = [sys.executable, "-m", "capbench.cli.main", *command.split()]
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_"))},
            "BENCH_CACHE": str(place / "cache"),
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        for folder in ("cache", "home", "tmp"):
            (place / folder).mkdir(parents=True, exist_ok=True)

    def start(self) -> subprocess.Popen[str]:
        """Start it."""
        return subprocess.Popen(
            self.command,
            cwd=self.place,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self) -> list[str]:
        """Return the processes that it started and that still live, as ``number: command``."""
        mark = f"TMPDIR={self.place / 'tmp'}".encode()
        left = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    left.append(f"process {process.name}: {words:.80}")
            except OSError:
                continue  # it ended, or is another user's
        return left


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row a kind of run; return 1 if a value differs or something is left behind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, metavar="N", help="kills in all (60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of signals and moments (0)")
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="NAME,...", help=f"({','.join(KINDS)})")
    parser.add_argument("--at_once", type=int, default=2, metavar="N", help="runs at a time (2)")
    options = parser.parse_args(argv)
    kinds = options.kinds.split(",")
    faults = []
    with tempfile.TemporaryDirectory(prefix="capbench-kills-") as folder, ThreadPoolExecutor(options.at_once) as pool:
        make_templates(Path(folder), kinds)
        print(
            f"{'kind':12} {'run':>6} {'kills':>6} {'KILL':>5} {'TERM':>5} {'before':>7} {'during':>7} {'after':>6} "
            f"{'values':>8} {'differ':>7} {'left behind':>12}",
            flush=True,
        )
        for number, kind in enumerate(kinds):
            clean = undisturbed(Path(folder), kind)
            count = len(range(number, options.kills, len(kinds)))
            outcomes = list(
                pool.map(
                    lambda n, kind=kind, clean=clean: killed(Path(folder), kind, clean, n, options.seed), range(count)
                )
            )
            print(row(kind, clean, outcomes), flush=True)
            faults += [
                f"{kind}, kill {n} ({outcome.kill.name}, {outcome.hit}): {line}"
                for n, outcome in enumerate(outcomes)
                for line in (*outcome.differing[:5], *outcome.left, *outcome.faults)
            ]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def row(kind: str, clean: Undisturbed, outcomes: Sequence[Outcome]) -> str:
    """Return what is printed of a kind of run."""
    kills, hits = (Counter(getattr(outcome, field) for outcome in outcomes) for field in ("kill", "hit"))
    return (
        f"{kind:12} {clean.end:5.1f}s {len(outcomes):6} {kills[signal.SIGKILL]:5} {kills[signal.SIGTERM]:5} "
        f"{hits['before']:7} {hits['during']:7} {hits['after']:6} {sum(outcome.values for outcome in outcomes):8,} "
        f"{sum(len(outcome.differing) for outcome in outcomes):7} {sum(len(outcome.left) for outcome in outcomes):12}"
    )


def make_templates(folder: Path, kinds: Sequence[str]) -> None:
    """Make what runs find when they begin: METEOR's tables, and a leaderboard of more runs."""
    templates = folder / "templates"
    for name in kinds:
        (templates / name).mkdir(parents=True)
    if "text" in kinds:
        first = Bench(folder / "first", KINDS["tables"])
        finish(first)
        (templates / "text" / "cache").mkdir()
        (templates / "text" / "cache" / "meteor").symlink_to(first.place / "cache" / "meteor")
    if "leaderboard" in kinds:
        kept, runs = ROOT / "results" / "runs", templates / "leaderboard" / "runs"
        finish(Bench(templates / "leaderboard", f"leaderboard build --runs {kept} --output board"))
        for task in ("composite", "pascal50s"):
            shutil.copytree(kept / task, runs / task)


def finish(bench: Bench) -> str:
    """Run to the end, and return what was said.

    Raises:
        RuntimeError: It failed.
    """
    process = bench.start()
    said, _ = process.communicate(timeout=600)
    if process.returncode != 0 or "Traceback" in said:
        raise RuntimeError(f"exit code {process.returncode}: {said[-2000:]}")
    return said


def beginning(folder: Path, kind: str, name: str) -> Bench:
    """Return a run in a new folder, not yet begun."""
    place = folder / f"{kind}-{name}"
    shutil.copytree(folder / "templates" / kind, place, symlinks=True)
    return Bench(place, KINDS[kind])


def undisturbed(folder: Path, kind: str) -> Undisturbed:
    """Run a kind to its end."""
    bench = beginning(folder, kind, "undisturbed")
    at_first = shallow(bench.place)
    start = time.time()
    process = bench.start()
    wait_for_a_write(bench.place, at_first, process)
    first_write = time.time() - start
    said, _ = process.communicate(timeout=600)
    end = time.time() - start
    last_write = max(path.stat().st_mtime for path in bench.place.rglob("*")) - start
    if process.returncode != 0:
        raise RuntimeError(f"{kind}: exit code {process.returncode}: {said[-2000:]}")
    return Undisturbed(bench.place, first_write, last_write, end, values_of(bench.place)[0])


def shallow(place: Path) -> set[Path]:
    """Return what shows that something is written, at little cost."""
    return {*place.iterdir(), *(place / "board").glob("*")}


def wait_for_a_write(place: Path, at_first: set[Path], process: subprocess.Popen[str]) -> None:
    """Return when the first file or folder is made, or the process ends."""
    while shallow(place) == at_first and process.poll() is None:
        time.sleep(0.002)


def killed(folder: Path, kind: str, clean: Undisturbed, number: int, seed: int) -> Outcome:
    """Kill a run, run it again, and say what differs."""
    rng = random.Random(f"{seed} {kind} {number}")  # noqa: S311
    bench = beginning(folder, kind, str(number))
    before = files_of(bench.place)
    at_first = shallow(bench.place)
    kill = rng.choice([signal.SIGKILL, signal.SIGTERM])
    moment = rng.random()
    process = bench.start()
    has_written = bool(number % 2)
    if has_written:
        wait_for_a_write(bench.place, at_first, process)
        time.sleep(moment * (clean.last_write - clean.first_write))
    else:
        time.sleep(moment * clean.end * 1.05)
    ended = process.poll() is not None
    process.send_signal(kill)
    said, _ = process.communicate(timeout=600)
    has_written |= files_of(bench.place) != before
    hit = "after" if ended else "during" if has_written else "before"
    outcome = Outcome(kill, hit)
    if "Traceback" in said:
        outcome.faults.append(f"traceback at the end: {said[-600:]}")
    compare(outcome, clean, bench.place, before, finished=False)
    try:
        finish(bench)
    except RuntimeError as error:
        outcome.faults.append(f"run again: {error}")
        return outcome
    compare(outcome, clean, bench.place, before, finished=True)
    outcome.left += sorted(names_of(bench.place) - names_of(clean.place))
    outcome.left += bench.processes()
    if (bench.place / STORE).exists():
        with Store(bench.place / STORE, replace_damaged=False) as store:
            outcome.faults += store.verify()
    shutil.rmtree(bench.place)
    return outcome


def compare(outcome: Outcome, clean: Undisturbed, place: Path, before: dict[str, str], *, finished: bool) -> None:
    """Hold what is there against the undisturbed run; before the second run, what is there must be whole.

    Args:
        outcome: Told of values and of those that differ.
        clean: The undisturbed run.
        place: Where the run was killed.
        before: The files that the run found, by name.
        finished: Whether the run was run again.
    """
    try:
        every = values_of(place)
    except BenchError as error:
        outcome.faults.append(f"half written: {error}")
        return
    if finished and not every:
        outcome.differing.append("there is no result")
    for values in every:
        outcome.values += len(values) if finished else 0
        for name in sorted(values.keys() | clean.values.keys()):
            value, wanted = values.get(name), clean.values.get(name)
            # Of a leaderboard half way, each page is the old one or the new one.
            if value != wanted and (finished or value != before.get(name)):
                outcome.differing.append(f"{name}: {value!r:.80}, not {wanted!r:.80}")


def values_of(place: Path) -> list[dict[str, Any]]:
    """Return the values of each finished run, or of the leaderboard, by their place.

    Raises:
        BenchError: A record or its samples cannot be read.
    """
    if (place / "board").exists():
        files = files_of(place)
        return [{name: files[name] for name in files if name.startswith("board/") and "/." not in name}]
    every = []
    for record in sorted((place / "runs").rglob("run.json")):
        if any(part.startswith(".") for part in record.relative_to(place).parts):
            continue
        for run in capbench.load_run(record.parent).tasks:
            task = run.record.task
            values: dict[str, Any] = {
                f"{task} {result.metric} {result.statistic} {result.category} {field}": value
                for result in run.results
                for field, value in (("value", result.value), ("n", result.n), ("interval", result.interval))
            }
            for column, cells in run.samples.to_pydict().items():
                values |= {f"{task} {column} {number}": cell for number, cell in enumerate(cells)}
            every.append(values)
    return every


def files_of(place: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a folder, by name."""
    return {
        path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in place.rglob("*")
        if path.is_file()
    }


def names_of(place: Path) -> set[str]:
    """Return the files and folders below a folder; those of runs without the time in their name."""
    return {_OUTPUT_OF_RUN.sub("RUN", path.relative_to(place).as_posix()) for path in place.rglob("*")}


if __name__ == "__main__":
    sys.exit(main())
