"""Shards on a cluster of Slurm: submitit's job arrays."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...atomic_files import own_name
from ...errors import ExecutorError, UsageError, counted
from .executors import ONE_CORE, Executor, Resources, name_of, portable

_LOOK_SECONDS = 1.0
_LATE_SECONDS = 15.0
"""For the file of a job that has ended to be seen from here."""
_VANISHED_SECONDS = 300.0
"""For which the queue knows nothing of a job that has left no result, before it is given up."""
_TIME = "--time=24:00:00"
"""Where no option says how long a job may take."""
_DURATION = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")


@dataclass
class SlurmExecutor(Executor):
    """Maps a function over calls by an array of jobs, each of which takes its share of them.

    It waits for the jobs; where it is killed, they go on, and the same command finds what they have made. A job that
    is preempted, or comes to the end of its time, is queued again by submitit. Within an allocation there is the
    engine ``ray``, by ``ray symmetric-run``.

    Attributes:
        slots: Jobs of an array, where a pool says no number of workers.
        options: Options of sbatch, such as ``--partition=gpu``.
    """

    slots: int = 8
    options: Sequence[str] = ()
    _folder: Path | None = field(default=None, init=False)

    def has_gpus(self) -> bool:
        """Return whether workers have GPUs: the cluster file says so of its pools."""
        return False

    def use_folder(self, folder: Path) -> None:
        """Take the folder of the run, in which jobs find their calls and leave their logs (``slurm/``)."""
        self._folder = folder / "slurm" / own_name()

    def map(
        self, function: Callable[[Any], Any], calls: Iterable[Any], resources: Resources = ONE_CORE
    ) -> Iterator[tuple[int, Any]]:
        """Yield the results of each job when it has ended; all calls are taken up at once.

        Raises:
            UsageError: There is no submitit, Slurm or folder.
            ExecutorError: Jobs died, or vanished.
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
                f"Their logs are in {self._folder}. What is done is kept: the same command submits the rest again.",
            )

    def _ended(self, shares: Sequence[Share], resources: Resources) -> Iterator[tuple[Any, Share, str]]:
        """Yield each job as it ends, with how it did where it left no result; those that are left end with the caller.

        Jobs are cancelled where an error ends the run, or Ctrl-C; not where this process is killed.
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
        try:
            import submitit
        except ImportError as error:
            raise UsageError(
                f"the engine 'slurm' cannot be imported: {error}", 'pip install "capbench[slurm]"'
            ) from error
        if self._folder is None:
            raise UsageError(
                "the engine 'slurm' needs a folder that all nodes see",
                "Name one on a shared file system with --run_folder.",
            )
        if "SLURM_JOB_ID" in os.environ:
            raise UsageError(
                "this is a job of Slurm, and would wait in it for other jobs",
                "In an allocation: srun ray symmetric-run --address HEAD:6379 -- bench ... --engine ray.",
            )
        pairs = (option.removeprefix("--").partition("=") for option in (_TIME, *self.options))
        options: dict[str, str | bool] = {name: value if is_set else True for name, is_set, value in pairs}
        # What lies in it is unpickled, so that nobody else has written there.
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
                "The engine 'slurm' runs where sbatch, squeue and srun do; look at slurm.options of the cluster file.",
            ) from error


@dataclass
class Share:
    """The calls of one job, in its process.

    Attributes:
        function: What is called.
        calls: Number and argument of each call.
    """

    function: Callable[[Any], Any]
    calls: list[tuple[int, Any]]

    def __call__(self) -> tuple[list[tuple[int, Any]], Exception | None]:
        """Return the number of each call with its result, up to the first that fails, and what that raised."""
        values: list[tuple[int, Any]] = []
        for number, call in self.calls:
            try:
                values.append((number, self.function(call)))
            except Exception as error:  # noqa: BLE001 - the driver raises it
                return values, portable(error, call)
        return values, None

    def checkpoint(self) -> Any:
        """Return what a job that is queued again does: the same, which finds what is done."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _minutes(duration: str | bool) -> int:
    """Return the minutes of a duration as sbatch reads it: ``90``, ``1:30:00``, ``2-12``.

    Raises:
        UsageError: It is none.
    """
    if not (found := _DURATION.fullmatch(str(duration))):
        raise UsageError(f"--time={duration} is no duration of sbatch", "Such as --time=04:00:00, or 2-12:00.")
    days, numbers = found["days"], [int(number or 0) for number in found.group("first", "second", "third")]
    if days is not None:
        return int(days) * 1440 + numbers[0] * 60 + numbers[1]
    return numbers[0] * 60 + numbers[1] if found["third"] else numbers[0] or 1
