"""Shards on a Ray cluster: tasks where no model is needed, and a pool of actors for a loaded model."""

import ctypes
import hashlib
import io
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...errors import ExecutorError, UsageError, counted, extra
from .executors import AHEAD, ONE_CORE, Executor, Function, Resources, Results, name_of, portable
from .ray_sweeper import swept

_REACH_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
"""Seconds for a node to answer; without an answer the run does not use it."""
_ROOM_SECONDS = 600.0
"""Seconds in which lost nodes of a cluster may return."""
_LOOK_SECONDS = 5.0
"""Seconds between checks for a node that can take a call."""
_RETRIES = 3
"""Retries by Ray of a call, or an actor, whose worker or node was lost."""
_INSTALLS_HANDLERS = "_ZN3ray6RayLog27InstallFailureSignalHandlerEPKcb"


@dataclass
class RayExecutor(Executor):
    """Maps a function over calls on a cluster, which places them and retries those of lost workers.

    Attributes:
        address: ``auto`` (the cluster of this machine, or that of ``RAY_ADDRESS``), ``HOST:PORT`` of its head, or
            ``local`` (a cluster on this machine, which ends with this process or with :meth:`close`).
    """

    address: str = "auto"
    _stack: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _is_connected: bool = field(default=False, init=False)

    def has_gpus(self) -> bool:
        """Return whether a node has a GPU."""
        self._connect()
        return any(node["GPU"] for node in _nodes())

    def use_folder(self, folder: Path) -> None:
        """Check that each other machine of the cluster sees a file in the folder.

        Raises:
            UsageError: A machine does not see it.
        """
        self._connect()
        mark = folder / f".seen-{uuid.uuid4().hex}"
        mark.touch()
        try:
            blind = sorted(address for address, sees in _answers(str(mark)).items() if sees is False)
        finally:
            mark.unlink()
        if blind:
            raise UsageError(
                f"{counted(len(blind), 'machine')} of the cluster ({', '.join(blind[:5])}) cannot see {folder}, "
                "the folder of the workers' files",
                "Name a folder that all machines see with --run_folder, or a bucket: --store s3://BUCKET/....",
            )

    def close(self) -> None:
        """Disconnect from the cluster; end one that was started for this executor."""
        self._stack.close()
        self._is_connected = False

    def map(self, function: Function, calls: Iterable[Any], resources: Resources = ONE_CORE) -> Results:
        """Yield results in order of completion; see :class:`~.executors.Executor`.

        Raises:
            UsageError: There is no cluster, no node has a worker's resources, or one cannot import capbench.
        """
        self._connect()
        # Ray prints messages about nodes among the results.
        with redirect_stdout(sys.stderr):
            yield from _Mapping(function, calls, resources, self.address).results()

    def _connect(self) -> None:
        """Connect this process, and check that each machine of the cluster can work.

        Raises:
            UsageError: There is no cluster, or a machine lacks what this one has.
        """
        if self._is_connected:
            return
        self._stack.enter_context(connected(self.address))
        self._is_connected = True
        if missing := [answer for answer in _answers("").values() if isinstance(answer, str)]:
            raise UsageError(
                f"a node of the cluster cannot run capbench: {missing[0]}",
                f"Each node needs what this machine has: pip install 'capbench[ray]=={version('capbench')}'.",
            )


class _Mapping:
    """One map. A worker is a slot for tasks, or an actor that keeps its loaded model.

    Args:
        function: The function.
        calls: The arguments of its calls.
        resources: The resources of a worker.
        address: The address of the cluster, for messages.
    """

    def __init__(self, function: Function, calls: Iterable[Any], resources: Resources, address: str) -> None:
        import ray

        self._ray: Any = ray
        content = pickle.dumps(function)
        # Inside a list, Ray passes the reference, not the value, with each call.
        self._sent = hashlib.sha256(content).hexdigest(), [ray.put(content)]
        self._calls = enumerate(calls)
        self._resources = resources
        self._address = address
        self._options: dict[str, Any] = {
            "num_cpus": resources.cpus,
            "num_gpus": resources.gpus,
            "memory": resources.memory,
        }
        self._is_exhausted = False
        self._workers: list[Any] = []
        """Each actor; None for a task."""
        self._idle: list[Any] = []
        self._awaited: dict[Any, tuple[Any, int, Any]] = {}
        """Reference to its worker, number and call; the number is -1 for an actor that is being placed."""
        self._had_room = self._looked = time.monotonic()
        self._said: set[str] = set()

    def results(self) -> Results:
        """Yield the number of each call and its result."""
        self._grow()
        try:
            while self._send() or any(number >= 0 for _, number, _ in self._awaited.values()):
                for reference in self._ready():
                    worker, number, call = self._awaited.pop(reference)
                    result = self._result(reference, call)
                    self._idle.append(worker)
                    if number >= 0:
                        yield number, result
        finally:
            for reference, (worker, _, _) in self._awaited.items():
                if worker is None:
                    self._ray.cancel(reference, force=True)
            self._dismiss(self._workers)

    def _send(self) -> bool:
        """Give each idle worker a call; return whether there may be more calls."""
        while self._idle:
            if (call := next(self._calls, None)) is None:
                # An actor of a lost node may wait for the resources of idle ones.
                self._dismiss(self._idle)
                self._idle.clear()
                self._is_exhausted = True
                break
            worker = self._idle.pop()
            self._awaited[self._start(worker, call[1])] = worker, *call
        return not self._is_exhausted

    def _start(self, worker: Any, call: Any) -> Any:
        if worker is not None:
            return worker.run_call.remote(*self._sent, call)
        return self._ray.remote(run_call).options(max_retries=_RETRIES, **self._options).remote(*self._sent, call)

    def _grow(self) -> None:
        """Start as many workers as there is room for now.

        Raises:
            UsageError: No node has a worker's resources.
        """
        room = _room(self._resources)
        if not room and not self._workers:
            nodes = _nodes()
            largest = max((node["GPU"], node["CPU"]) for node in nodes)
            raise UsageError(
                f"no node of the cluster at {self._address} has the {self._resources} of a worker; the "
                f"largest of {len(nodes)} has {counted(largest[1], 'CPU')} and {counted(largest[0], 'GPU')}",
                "Ask for less in the cluster file, or start a node that has them.",
            )
        if not self._resources.role:
            new = [None] * (AHEAD * room - len(self._workers))
            self._idle += new
        else:
            # A call is retried while its actor may return: an address may fail for a moment before the loss of a
            # node is noticed.
            options = {"max_restarts": _RETRIES, "max_task_retries": -1, **self._options}
            room = min(room, self._resources.workers or room)
            new = [self._ray.remote(Actor).options(**options).remote() for _ in range(room - len(self._workers))]
            self._awaited |= {worker.begin.remote(): (worker, -1, "its beginning") for worker in new}
        self._workers += new

    def _ready(self) -> list[Any]:
        """Wait, and return the finished references.

        Raises:
            ExecutorError: No node could take a call for a long time.
        """
        ready, _ = self._ray.wait(list(self._awaited), timeout=_LOOK_SECONDS)
        if ready:
            ready, _ = self._ray.wait(list(self._awaited), num_returns=len(self._awaited), timeout=0)
        now = time.monotonic()
        if now - self._looked > _LOOK_SECONDS:
            self._looked = now
            if not self._is_exhausted:
                self._grow()
            self._had_room = now if ready or _room(self._resources) else self._had_room
        if now - self._had_room > _ROOM_SECONDS:
            raise ExecutorError(
                f"no node of the cluster had room for a worker ({self._resources}) for {_ROOM_SECONDS:.0f} seconds",
                "Start nodes that have it, and run the same command again: it continues.",
            )
        return ready

    def _result(self, reference: Any, call: Any) -> Any:
        try:
            result, said = self._ray.get(reference) or (None, [])
            # Each line once, even if many workers wrote it.
            sys.stderr.writelines(line for line in dict.fromkeys(said) if line not in self._said)
            self._said.update(said)
            return result
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            # Only the first sentences.
            text = " ".join(str(error).split()).partition(" Some common causes")[0]
            why = text[max(text.find("The actor is dead because"), 0) :]
            raise ExecutorError(
                f"a worker ended {_RETRIES + 1} times while it ran {name_of(call)}: {why[:300]}",
                "Run the same command again: it continues.",
            ) from error

    def _dismiss(self, workers: Iterable[Any]) -> None:
        for worker in workers:
            if worker is not None:
                self._ray.kill(worker)


class Actor:
    """A worker that keeps its function."""

    def begin(self) -> None:
        """Return once it is placed."""

    def run_call(self, key: str, function: list[Any], call: Any) -> tuple[Any, list[str]]:
        """Call a function; see :func:`run_call`."""
        return run_call(key, function, call)


_held: tuple[str, Any] = ("", None)
"""In a worker: its last function, with the key."""


def run_call(key: str, function: list[Any], call: Any) -> tuple[Any, list[str]]:
    """Call a function, which a process fetches once; return its result and its lines on stderr.

    Args:
        key: Key of the function.
        function: Reference to it, in a list.
        call: Its argument.
    """
    global _held
    if _held[0] != key:
        import ray

        _held = key, pickle.loads(ray.get(function[0]))  # noqa: S301 - this command's own driver sent it
    try:
        with redirect_stderr(io.StringIO()) as said:
            result = _held[1](call)
    except Exception as error:
        raise portable(error, call) from error
    return result, said.getvalue().splitlines(keepends=True)


def _nodes() -> list[dict[str, Any]]:
    """Return for each node that is alive its id, its machine's address, its cores, GPUs and bytes."""
    import ray

    return [
        {"id": node["NodeID"], "address": node["NodeManagerAddress"]}
        | {name: node["Resources"].get(name, 0.0) for name in ("CPU", "GPU", "memory")}
        for node in ray.nodes()
        if node["Alive"]
    ]


def _room(resources: Resources) -> int:
    """Return the number of workers that fit in the cluster."""
    takes = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": resources.memory or 0}
    return sum(int(min(node[name] // taken for name, taken in takes.items() if taken)) for node in _nodes())


def _answers(file: str) -> dict[str, str | bool]:
    """Return, by address of each machine of the cluster, whether it sees a file, or what it lacks.

    Takes no cores, so that busy nodes answer. Lost nodes are skipped.
    """
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    @ray.remote(num_cpus=0, max_retries=0)
    def look(file: str, wanted: str) -> str | bool:
        # Inside of a function, so that a node that has no capbench can receive it.
        import importlib.metadata
        import os
        import platform

        try:
            installed = importlib.metadata.version("capbench")
        except importlib.metadata.PackageNotFoundError:
            return f"{platform.node()} has no capbench"
        if installed != wanted:
            return f"{platform.node()} has capbench {installed}"
        return os.path.exists(file)  # noqa: PTH110 - keeps the imports on another machine small

    machines = {node["address"]: node["id"] for node in _nodes() if node["CPU"]}
    asked = {
        address: look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
            file, version("capbench")
        )
        for address, node in machines.items()
    }
    answers: dict[str, str | bool] = {}
    for address, reference in asked.items():
        with suppress(RayError):
            answers[address] = ray.get(reference, timeout=_ANSWER_SECONDS)
    return answers


@contextmanager
def connected(address: str) -> Generator[None]:
    """Connect this process to a cluster; keep an existing connection.

    Raises:
        UsageError: Ray is not installed, or there is no cluster.
    """
    with extra("ray", "the engine 'ray' needs the package ray"):
        import ray
    if ray.is_initialized():
        yield
        return
    _check(address)
    with ExitStack() as stack:
        starting = stack.enter_context(swept()) if address == "local" else nullcontext()
        stack.callback(ray.shutdown)
        own = options_of_own_cluster() if address == "local" else {}
        with starting, _ended_as_before():
            try:
                # Lines of workers arrive with their results, so Ray need not forward the logs of nodes.
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
            except Exception as error:
                # On a machine that is too busy Ray raises a plain Exception.
                raise UsageError(
                    f"no Ray cluster at '{address}': {error}",
                    "'ray start --head' starts one; --address local starts one on this machine for the run.",
                ) from error
        yield


@contextmanager
def _ended_as_before() -> Generator[None]:
    """Keep this process's handling of SIGTERM while Ray connects, which installs handlers in C++ and in Python.

    The command decides what ends a run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    import ray

    handler = signal.getsignal(signal.SIGTERM)
    with suppress(AttributeError, OSError):
        # The C++ handler prints a trace and aborts. It is installed once per process: now, not while Ray connects.
        ctypes.CDLL(ray._raylet.__file__)[_INSTALLS_HANDLERS](b"", False)
    signal.signal(signal.SIGTERM, handler)
    try:
        yield
    except SystemExit:
        # The Python handler then ends the process.
        signal.signal(signal.SIGTERM, handler)
        signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)


def options_of_own_cluster() -> dict[str, Any]:
    """Return the settings of a cluster that ends with the run.

    Ray starts workers at niceness 15, so that the processes that manage a node stay responsive; next to other load they
    get almost no CPU time. Here they have the priority of the run, unless ``RAY_worker_niceness`` is set.
    """
    own = {} if "RAY_worker_niceness" in os.environ else {"_system_config": {"worker_niceness": 0}}
    return {"include_dashboard": False, **own}


def _check(address: str) -> None:
    """Raise if no process listens at an address: Ray itself would wait for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "://" in host:
        raise UsageError(f"'{address}' is not an address of a Ray cluster", "Use auto, local or HOST:PORT.")
    try:
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"no Ray cluster at '{address}': {error}", "'ray start --head' starts one and prints its address."
        ) from error
