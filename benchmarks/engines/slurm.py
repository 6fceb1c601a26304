"""The engine of a queue: job scripts for Slurm, whose slots share the units of a run by files."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ...drafts import write_whole
from ...errors import UsageError
from ...permissions import permitted
from ..running.units import Unit, WorkSpec
from .advance import Clock
from .contract import Advance, Outcome, Pool, pool_of, unheard
from .run_folder import CLAIMS, SLOTS, STOPPED, read_run, sum_of, write_run
from .slots import SharedSchedule

SUBMIT = "submit.sh"


class SlurmEngine:
    """Writes what a queue carries out; asked again when the queue is through, it returns the outcome.

    Args:
        pools: What slots take: an array of jobs for each shape, with a job for each replica.
        slots: Jobs of an array, where a pool says no number of replicas.
        options: Options of sbatch for each.
        finish: Command that a last job runs when all slots are through.
    """

    def __init__(
        self,
        pools: Sequence[Pool] = (),
        slots: int = 8,
        options: Sequence[str] = (),
        finish: Sequence[str] = (),
    ) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self.slots = slots
        self.options = list(options)
        self.finish = list(finish)

    def carry_out(
        self,
        spec: WorkSpec,
        units: Iterable[Unit],
        *,
        report: Callable[[Advance], object] = unheard,
        folder: Path | None = None,
    ) -> Outcome:
        """Return what is done, and write what is not for the queue; see :class:`~.contract.Engine`.

        Units that are not done are counted as ``waiting``: ``FOLDER/submit.sh`` submits them. Slots that are at work
        are not disturbed.

        Raises:
            UsageError: There is no folder.
        """
        if folder is None:
            raise UsageError(
                "the engine 'slurm' needs a folder that all nodes see",
                "Name one on a shared file system: it is how the slots find the units.",
            )
        units = list(units)
        work = spec.open()
        if not (folder / CLAIMS).is_dir() or not _is_same(folder, spec, units):
            write_run(folder, spec, units)
            (folder / CLAIMS).mkdir()
        (folder / STOPPED).unlink(missing_ok=True)
        schedule = SharedSchedule(units, folder, None)
        while not schedule.sift(work, 1.0):
            report(Clock(schedule).advance(1))
        outcome = schedule.in_order()
        outcome.waiting = len(units) - len(outcome.units)
        if outcome.waiting:
            self._write_scripts(folder.resolve(), units)
        return outcome

    def _write_scripts(self, folder: Path, units: Sequence[Unit]) -> None:
        names = sorted({unit.pool for unit in units})
        arrays: dict[tuple[float, float, int], list[Pool]] = {}
        for pool in (pool_of(name, self.pools, Pool(name)) for name in names):
            arrays.setdefault(pool.shape, []).append(pool)
        counts = Counter(unit.pool for unit in units)
        # More would have nothing to do, and hold what they were given until the others are through.
        sizes = [
            min(sum(pool.replicas or self.slots for pool in pools), sum(counts[pool.name] for pool in pools))
            for pools in arrays.values()
        ]
        submits = ["ids="]
        first = 0
        for number, (pools, size) in enumerate(zip(arrays.values(), sizes, strict=True)):
            file = folder / f"slots-{number}.sbatch"
            write_whole(file, self._array(folder, pools, first, size, sum(sizes)))
            submits.append(f"ids=$ids:$(sbatch --parsable {shlex.quote(str(file))})")
            first += size
        if self.finish:
            file = folder / "finish.sbatch"
            write_whole(file, self._job(folder, "finish", []) + f"exec {shlex.join(self.finish)}\n")
            # Each slot ends well only if every unit that it takes is done.
            submits.append(f'sbatch --dependency="afterok$ids" {shlex.quote(str(file))}')
        write_whole(folder / SUBMIT, "#!/bin/bash\nset -eu\n" + "\n".join(submits) + "\n")

    def _array(self, folder: Path, pools: Sequence[Pool], first: int, size: int, slots: int) -> str:
        """Return the script of slots of one shape."""
        shape = pools[0]
        asked = [f"--array=0-{size - 1}", f"--cpus-per-task={max(round(shape.cpus), 1)}", "--requeue"]
        if shape.gpus:
            asked.append(f"--gpus-per-node={round(shape.gpus)}")
        if shape.memory:
            asked.append(f"--mem={shape.memory >> 20}M")
        command = shlex.join(
            [
                sys.executable,
                "-m",
                "capbench.benchmarks.cli.main",
                "work",
                str(folder),
                "--sum",
                sum_of(folder),
                *permitted().to_options(),
            ]
        )
        names = ",".join(pool.name for pool in pools)
        return (
            self._job(folder, "%a", asked)
            + f'exec {command} --slot "$(({first} + SLURM_ARRAY_TASK_ID))" --of {slots} --pools {shlex.quote(names)}\n'
        )

    def _job(self, folder: Path, log: str, asked: Sequence[str]) -> str:
        """Return the head of a job's script."""
        options = ["--job-name=capbench", f"--output={folder}/{SLOTS}-{log}.log", "--open-mode=append"]
        lines = "".join(f"#SBATCH {shlex.quote(one)}\n" for one in (*options, *asked, *self.options))
        return f"#!/bin/bash\n{lines}set -eu\ncd {shlex.quote(str(Path.cwd()))}\n"


def _is_same(folder: Path, spec: WorkSpec, units: list[Unit]) -> bool:
    there, known = read_run(folder)
    return there.to_json() == spec.to_json() and known == units
