"""Shards on a Slurm cluster, by job arrays of submitit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...atomic_files import own_name
from ...errors import ExecutorError, UsageError, counted, extra
from .executors import ONE_CORE, Executor, Function, Resources, Results, name_of, portable

_LOOK_SECONDS = 1.0
_LATE_SECONDS = 15.0
"""Seconds until the file of a finished job is visible here."""
_VANISHED_SECONDS = 300.0
"""Seconds without a job in the queue and without its result, before it is given up."""
_TIME = "--time=24:00:00"
"""The time limit of a job without an option for it."""
_DURATION = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")


@dataclass
class SlurmExecutor(Executor):
    """Maps a function over calls with a job array; each job runs a part of them.

    It waits for the jobs. If it is killed, they continue, and the same command finds their results. submitit requeues
    a job that is preempted or reaches its time limit. Within an allocation use the engine ``ray``, by
    ``ray symmetric-run``.

    Attributes:
        slots: Number of jobs of an array, where a pool has no number of workers.
        options: Options of sbatch, such as ``--partition=gpu``.
    """

    slots: int = 8
    options: Sequence[str] = ()
    _folder: Path | None = field(default=None, init=False)

    def has_gpus(self) -> bool:
        """Return whether a pool of the cluster file has GPUs."""
        return False

    def use_folder(self, folder: Path) -> None:
        """Set the folder of the run, which holds the calls and logs of jobs (``slurm/``)."""
        self._folder = folder / "slurm" / own_name()

    def map(self, function: Function, calls: Iterable[Any], resources: Resources = ONE_CORE) -> Results:
        """Yield the results of each job when it has ended; all calls are submitted at once.

        Raises:
            UsageError: submitit, Slurm or the folder is missing.
            ExecutorError: Jobs died or disappeared.
        """
        numbered = list(enumerate(calls))
        size = min(len(numbered), resources.workers or self.slots)
        shares = [Share(function, numbered[job::size]) for job in range(size)]
        failed: list[tuple[str, Share]] = []
        for job, share, how in self._ended(shares, resources):
            if how:
                failed.append((f"{job.job_id} {how}", share))
                continue
            values, error = job.result()
            yield from values
            if error is not None:
                raise error
        if failed:
            names = [name_of(call) for _, share in failed for _, call in share.calls]
            raise ExecutorError(
                f"{counted(len(failed), 'job')} of {size} left no result ({', '.join(how for how, _ in failed[:5])}), "
                f"for: {', '.join(names[:20])}",
                f"Their logs are in {self._folder}. Run the same command again: it submits the rest.",
            )

    def _ended(self, shares: Sequence[Share], resources: Resources) -> Iterator[tuple[Any, Share, str]]:
        """Yield each job as it ends, with its end state if it left no result.

        Remaining jobs are cancelled if an error or Ctrl-C ends the run; not if this process is killed.
        """
        if not shares:
            return
        left = dict(zip(self._submit(shares, resources), shares, strict=True))
        silent_since: dict[Any, float] = {}
        try:
            while left:
                for job in list(left):
                    is_there, is_over = job.paths.result_pickle.exists(), job.done()
                    state = job.watcher.get_state(job.job_id, mode="cache")
                    how = "" if is_there or not (is_over or state == "UNKNOWN") else state
                    if not how:
                        silent_since.pop(job, None)
                    since = time.monotonic() - silent_since.setdefault(job, time.monotonic()) if how else 0.0
                    if is_there or since > (_LATE_SECONDS if is_over else _VANISHED_SECONDS):
                        yield job, left.pop(job), "has vanished" if how == "UNKNOWN" else how and f"is {how}"
                time.sleep(_LOOK_SECONDS if left else 0)
        finally:
            for job in left:
                job.cancel(check=False)

    def _submit(self, shares: Sequence[Share], resources: Resources) -> list[Any]:
        with extra("slurm", "the engine 'slurm' needs the package submitit"):
            import submitit
        if self._folder is None:
            raise UsageError(
                "the engine 'slurm' needs a folder that all nodes see",
                "Name one on a shared file system with --run_folder.",
            )
        if "SLURM_JOB_ID" in os.environ:
            raise UsageError(
                "this is a Slurm job, which would wait for other jobs",
                "In an allocation: srun ray symmetric-run --address HEAD:6379 -- bench ... --engine ray.",
            )
        pairs = (option.removeprefix("--").partition("=") for option in (_TIME, *self.options))
        options: dict[str, str | bool] = {name: value if is_set else True for name, is_set, value in pairs}
        # Its files are unpickled: only this user may write them.
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        try:
            queue = submitit.SlurmExecutor(self._folder)
            queue.update_parameters(
                job_name="capbench",
                time=_minutes(options["time"]),
                cpus_per_task=max(round(resources.cpus), 1),
                gpus_per_node=round(resources.gpus) or None,
                mem=f"{resources.memory >> 20}M" if resources.memory else None,
                wckey=None,
                additional_parameters=options,
            )
            return queue.submit_array(shares)
        except (OSError, RuntimeError) as error:
            raise UsageError(
                f"jobs cannot be submitted: {error}",
                "The engine 'slurm' needs sbatch, squeue and srun; check slurm.options of the cluster file.",
            ) from error


@dataclass
class Share:
    """The calls of one job, in its process.

    Attributes:
        function: The function.
        calls: Number and argument of each call.
    """

    function: Function
    calls: list[tuple[int, Any]]

    def __call__(self) -> tuple[list[tuple[int, Any]], Exception | None]:
        """Return number and result of each call up to the first failure, and its error."""
        values: list[tuple[int, Any]] = []
        for number, call in self.calls:
            try:
                values.append((number, self.function(call)))
            except Exception as error:  # noqa: BLE001 - the driver raises it
                return values, portable(error, call)
        return values, None

    def checkpoint(self) -> Any:
        """Return the work of a requeued job: the same, which finds existing results."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _minutes(duration: str | bool) -> int:
    """Return the minutes of a duration as sbatch reads it: ``90``, ``1:30:00``, ``2-12``.

    Raises:
        UsageError: It is not a duration.
    """
    if not (match := _DURATION.fullmatch(str(duration))):
        raise UsageError(f"--time={duration} is not a duration of sbatch", "Use 04:00:00 or 2-12:00.")
    days, numbers = match["days"], [int(number or 0) for number in match.group("first", "second", "third")]
    if days is not None:
        return int(days) * 1440 + numbers[0] * 60 + numbers[1]
    return numbers[0] * 60 + numbers[1] if match["third"] else numbers[0] or 1
