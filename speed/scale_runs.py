"""The runs that ``scale.py`` measures, each carried out once, in a process of its own."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import coco
from watching import Taken, watched

PLACES = {"none": "one process", "local": "two processes", "ray": "ray"}
"""Where the work is done."""
_HERE = Path(__file__).parent


@dataclass
class Runs:
    """Runs over so many captions.

    Attributes:
        root: A folder for captions and what is made of them.
        rows: Captions of the greatest run.
        models: Models of leaderboard and cluster.
        tasks: Tasks of these.
    """

    root: Path
    rows: int
    models: int
    tasks: int
    _taken: dict[tuple[str, ...], Taken] = field(default_factory=dict)

    def folder(self, rows: int) -> Path:
        """Return a folder with so many captions."""
        folder = self.root / str(rows)
        if not folder.exists():
            folder.mkdir(parents=True)
            coco.write(folder, rows)
        return folder

    def taken(self, what: str, place: str, rows: int, *more: str) -> Taken:
        """Return what a run took; nothing of it was known before."""
        key = (what, place, str(rows), *more)
        if key not in self._taken:
            with tempfile.TemporaryDirectory(dir=self.root) as folder:
                arguments = ["--engine", place, "--store", f"{folder}/store.sqlite", "--output", f"{folder}/runs"]
                self._taken[key] = self.command("one_run.py", what, self.folder(rows), *arguments, *more)
        return self._taken[key]

    def command(self, script: str, *arguments: object) -> Taken:
        """Run a script of this folder."""
        return watched([sys.executable, _HERE / script, *map(str, arguments)])

    def at(self, rows: int, figure: Callable[[Taken], float]) -> float:
        """Return a figure of a run of four metrics; beyond what is measured, by what each caption more adds."""
        most = min(rows, self.rows)
        large = figure(self.taken("run", "none", most))
        if most == rows:
            return large
        few = most // 10
        return large + (rows - most) * (large - figure(self.taken("run", "none", few))) / (most - few)

    @property
    def extrapolated(self) -> str:
        """Says from how many captions a figure of a million was worked out."""
        return f" (from {self.rows:,})" if self.rows < coco.MILLION else ""


def printed_seconds(taken: Taken) -> float:
    """Return the number that is a script's last line."""
    return float(taken.output.strip().splitlines()[-1])
