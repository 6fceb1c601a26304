"""Executors of shards: the contract, and those of this machine."""

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import ExecutorError, UsageError, counted

Function = Callable[[Any], Any]
"""What workers are called with: it is pickled, and so are its calls and results."""
Results = Iterator[tuple[int, Any]]
"""Results of calls, with the number of each."""
AHEAD = 2
"""Calls that a worker holds: the running one and the next."""
_WORKER_BYTES = 2 << 30
"""Memory of a worker in bytes: libraries with a small model, and a shard."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True)
class Resources:
    """The resources of one worker.

    Attributes:
        gpus: Number of GPUs, all of one machine.
        memory: Reserved bytes; None reserves none.
        cpus: Number of cores.
        role: Role of the model that it loads; empty where it loads none.
        workers: Largest number of workers; None is as many as there is room for.
    """

    gpus: float = 0
    memory: int | None = None
    cpus: float = 1
    role: str = ""
    workers: int | None = None

    def __str__(self) -> str:
        memory = f" and {self.memory / (1 << 30):.1f} GiB" if self.memory else ""
        return f"{counted(self.cpus, 'CPU')}, {counted(self.gpus, 'GPU')}{memory}"


ONE_CORE = Resources()


@dataclass
class Executor(ABC):
    """Maps a function over calls with workers.

    Attributes:
        pools: Resources of a worker by the role of its model, or ``cpu``, as in a cluster file.
    """

    pools: Mapping[str, Resources] = field(default_factory=dict[str, Resources], kw_only=True)

    @abstractmethod
    def map(self, function: Function, calls: Iterable[Any], resources: Resources = ONE_CORE) -> Results:
        """Yield the number of each call with its result, in order of completion.

        Args:
            function: A picklable function. It is sent to each worker once and kept there, so that a model that it loads
                stays loaded.
            calls: The arguments of its calls. Messages use their ``name``, or their ``repr``. A worker holds at most
                two of them, so this may be a generator.
            resources: The resources of a worker; see :meth:`resources_for`.

        Raises:
            ExecutorError: A worker ended; it names the calls that were running.
            Exception: A call raised it; it is passed on unchanged.
        """

    def resources_for(self, role: str = "") -> Resources:
        """Return the resources of a worker.

        Args:
            role: Role of the model that it loads; empty where it loads none.

        Raises:
            UsageError: The cluster file names pools of models, and none of this role.
        """
        if pool := self.pools.get(role or "cpu"):
            return pool
        if role and set(self.pools) - {"cpu"}:
            raise UsageError(
                f"this run needs workers with a model of role '{role}', but the cluster file has no such pool",
                f"Add pool '{role}' to it; its pools are {', '.join(self.pools)}.",
            )
        return Resources(gpus=1 if role and self.has_gpus() else 0, role=role)

    def has_gpus(self) -> bool:
        """Return whether workers can have a GPU."""
        return bool(visible_gpus())

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release the resources that are held between maps."""

    def use_folder(self, folder: Path) -> None:  # noqa: B027 - most need nothing of it
        """Set the folder of the workers' files; called before the first map.

        Raises:
            UsageError: A machine does not see it.
        """


class InProcess(Executor):
    """This process: one call after the other."""

    def map(self, function: Function, calls: Iterable[Any], resources: Resources = ONE_CORE) -> Results:
        """Yield the results in order; see :class:`Executor`."""
        for number, call in enumerate(calls):
            yield number, function(call)


@dataclass
class LocalExecutor(Executor):
    """Worker processes of this machine. They end with this process, even if it is killed.

    A script must start them below ``if __name__ == "__main__"``, as ``multiprocessing`` requires.

    Attributes:
        processes: Their number; None is as many as cores and memory allow, and for those with a model one per GPU.
    """

    processes: int | None = None

    def map(self, function: Function, calls: Iterable[Any], resources: Resources = ONE_CORE) -> Results:
        """Yield results in order of completion; a broken pool is restarted once. See :class:`Executor`."""
        content = pickle.dumps(function)
        environments = self._environments(resources)
        # No fork: it would copy the locks and devices of a process with models or threads.
        can_fork = not resources.role and "torch" not in sys.modules and threading.active_count() == 1
        context = multiprocessing.get_context("fork" if sys.platform == "linux" and can_fork else "spawn")
        numbered, again = enumerate(calls), deque[tuple[int, Any]]()
        in_flight: dict[Future[Any], tuple[int, Any]] = {}
        pool, is_renewed = _Pool(content, environments, context), False
        try:
            while True:
                is_broken = False
                while not is_broken and len(in_flight) < AHEAD * len(environments):
                    if (call := again.popleft() if again else next(numbered, None)) is None:
                        break
                    try:
                        in_flight[pool.submit(_run_call, call[1])] = call
                    except BrokenProcessPool:
                        again.appendleft(call)
                        is_broken = True
                if not in_flight and not is_broken:
                    pool.shutdown()
                    return
                for future in wait(in_flight, return_when=FIRST_COMPLETED).done:
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        is_broken = True
                    else:
                        number, _ = in_flight.pop(future)
                        yield number, result
                if is_broken:
                    again.extendleft(reversed(in_flight.values()))
                    in_flight.clear()
                    how = pool.end_broken()
                    if is_renewed:
                        raise ExecutorError(
                            f"a worker process ended{how} while these were running: "
                            f"{', '.join(name_of(call) for _, call in again)}",
                            "Run the same command again: it continues. If memory ran out, use fewer workers.",
                        )
                    pool, is_renewed = _Pool(content, environments, context), True
        finally:
            pool.end()

    def _environments(self, resources: Resources) -> list[dict[str, str]]:
        """Return the additional environment variables of each worker."""
        gpus, groups = visible_gpus() if resources.gpus else [], list[str]()
        # One per core, fewer if memory is too small.
        number = self.processes or max(1, min(cores(), _available_bytes() // _WORKER_BYTES))
        if gpus:
            size = min(max(int(resources.gpus), 1), len(gpus))
            groups = [",".join(gpus[first : first + size]) for first in range(0, len(gpus) - size + 1, size)]
        if resources.role and (self.processes is None or resources.gpus > 1):
            number = min(number, len(groups) or 1)
        number = min(number, resources.workers or number)
        shared = {**dict.fromkeys(_THREADS, str(max(cores() // number, 1))), "TOKENIZERS_PARALLELISM": "false"}
        gpu_of = [{"CUDA_VISIBLE_DEVICES": groups[worker % len(groups)]} if groups else {} for worker in range(number)]
        return [shared | own for own in gpu_of]


class _Pool(ProcessPoolExecutor):
    """A pool whose workers hold a function."""

    def __init__(self, function: bytes, environments: Sequence[Mapping[str, str]], context: Any) -> None:
        waiting = context.SimpleQueue()
        for environment in environments:
            waiting.put(environment)
        super().__init__(len(environments), context, _begin, (function, waiting))

    def end(self) -> None:
        """End all workers and their running calls."""
        for process in (self._processes or {}).values():
            process.kill()
        self.shutdown(cancel_futures=True)

    def end_broken(self) -> str:
        """End the rest of a pool whose worker ended, and return how that ended."""
        processes = list((self._processes or {}).values())
        self.shutdown(cancel_futures=True)
        codes = [process.exitcode for process in processes]
        # The pool ends the others.
        code = next((code for code in codes if code not in (None, 0, -signal.SIGTERM)), 0) or 0
        if code >= 0:
            return f" with exit code {code}" if code else ""
        killer = signal.Signals(-code)
        return f" by {killer.name}" + (", as it does where memory runs out," if killer == signal.SIGKILL else "")


_function: Any = None
"""In a worker: its function, as bytes until the first call."""


def _begin(function: bytes, environments: Any) -> None:
    """Start a worker."""
    global _function
    # The driver handles Ctrl-C and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_driver, daemon=True).start()
    os.environ.update(environments.get())
    # A shard is many objects without reference cycles: garbage collection would scan them for nothing.
    gc.set_threshold(10_000)
    _function = function


def _end_with_driver() -> None:
    if driver := multiprocessing.parent_process():
        driver.join()
    os._exit(1)


def _run_call(call: Any) -> Any:
    """Call the function of this worker."""
    global _function
    if isinstance(_function, bytes):
        # Unpickled only now: imports use the worker's environment, and their errors belong to a call.
        _function = pickle.loads(_function)  # noqa: S301 - this command's own driver sent it
    try:
        return _function(call)
    except Exception as error:
        raise portable(error, call) from error


def portable(error: Exception, call: Any) -> Exception:
    """Return an error unchanged if it can be pickled, or else one with the same message."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    except Exception:  # noqa: BLE001 - pickling an error of another library may raise anything
        return ExecutorError(f"{name_of(call)}: {type(error).__name__}: {error}")
    return error


def name_of(call: Any) -> str:
    """Return the name of a call in messages."""
    return str(getattr(call, "name", None) or repr(call))[:200]


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them; torch need not be loaded."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [gpu for gpu in named.replace(" ", "").split(",") if gpu not in ("", "-1")]
    return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _available_bytes() -> int:
    """Return the bytes of memory available now, within the limits of this process's control group."""
    limits = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            limits = [int(line.split()[1]) << 10]
    limit, used = (_lines(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current"))
    if limit and used and limit[0] != "max":
        limits.append(int(limit[0]) - int(used[0]))
    return min(limits)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
