"""The engine of this machine: this process, or several that it starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ..running.units import Unit, WorkSpec
from .contract import CPU, Advance, Outcome, Pool, pool_of, unheard
from .driving import Driver, Event, Shape
from .run_folder import Journal, write_run
from .schedule import Schedule
from .workers.processes import Processes
from .workers.worker import Worker, cores

_PROCESS_BYTES = 2 << 30
"""What a worker may need: libraries with a small model, and a shard."""


class LocalEngine:
    """Carries out units on this machine.

    Args:
        processes: 1: in this process, one unit after the other, and no other is started. More: so many worker
            processes, each with its share of the cores. None: as many as use this machine well.
        pools: On how many of them the model of a pool is loaded (``replicas``); on 1 unless that is said.
        has_models: Whether a unit may need a model.
    """

    def __init__(
        self, processes: int | None = 1, pools: Sequence[Pool] = (), has_models: bool = True
    ) -> None:
        self.processes = processes
        self.has_models = has_models
        self.pools = {pool.name: pool for pool in pools}

    def carry_out(
        self,
        spec: WorkSpec,
        units: Iterable[Unit],
        *,
        report: Callable[[Advance], object] = unheard,
        folder: Path | None = None,
    ) -> Outcome:
        """Carry out units; see :class:`~.contract.Engine`."""
        if folder:
            write_run(folder, spec, ())
        schedule = Schedule.of(units)
        pools = PoolsHere(self.pools)
        here = Worker(spec)
        has_models = not schedule.units or any(unit.pool != CPU for unit in schedule.units.values())
        number = self.processes or default_processes(
            has_gpu_model=has_models and self.has_models and _has_gpu()
        )
        hands = InProcess(here) if number == 1 else Processes(spec, number, max(cores() // number, 1))
        try:
            return Driver(
                schedule, hands, pools, here.work, report, Journal(folder, "local", has_units=True)
            ).drive()
        finally:
            hands.close()


class PoolsHere(dict[str, Pool]):
    """Pools on this machine: whatever they take of a cluster, here each runs in any of the processes.

    Args:
        named: Those that a user named, by name.
    """

    def __init__(self, named: Mapping[str, Pool]) -> None:
        self._named = named

    def __missing__(self, name: str) -> Pool:
        """Return the pool of a name that is asked for the first time."""
        self[name] = pool = Pool(name, pool_of(name, self._named, Pool(name)).replicas or 1)
        return pool


class InProcess:
    """The one worker that is this process itself."""

    queue_orders = False

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._told: list[Event] = []
        self._is_hired = False

    def hire(self, shape: Shape) -> str | None:
        """Say that this process is there, the first time."""
        if self._is_hired:
            return None
        self._is_hired = True
        self._told.append(Event("this process", "opened"))
        return "this process"

    def give(self, worker: str, unit: Unit, release: Sequence[str]) -> None:
        """Run a unit now."""
        self._told.append(Event(worker, "answered", self._worker.answer(unit, release)))

    def events(self, seconds: float) -> list[Event]:
        """Return what was done."""
        told, self._told = self._told, []
        return told

    def dismiss(self, worker: str) -> None:
        """Do nothing: this process goes on."""

    def close(self) -> None:
        """Do nothing: this process goes on."""


def default_processes(*, has_gpu_model: bool = False) -> int:
    """Return how many processes use this machine well.

    One a core that this process may use; fewer where memory would not hold them, at 2 GiB each of what is available;
    1 where a model runs on a GPU, which one process keeps busy.

    Args:
        has_gpu_model: Whether a unit needs a model that runs on a GPU.
    """
    if has_gpu_model:
        return 1
    return max(1, min(cores(), _available_bytes() // _PROCESS_BYTES))


def _has_gpu() -> bool:
    """Return whether the system knows a GPU; to ask torch would cost its import."""
    return any(Path("/proc/driver/nvidia/gpus").glob("*")) or Path("/dev/kfd").exists()


def _available_bytes() -> int:
    """Return how much memory is available now, to this process's control group, too."""
    found = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            found = [int(line.split()[1]) << 10]
    limit, used = (_lines(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current"))
    if limit and used and limit[0] != "max":
        found.append(int(limit[0]) - int(used[0]))
    return min(found)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
