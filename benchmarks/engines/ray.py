"""The engine of a cluster of ray: an existing one, or one of this machine's cores."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from ...errors import UsageError, counted
from ..running.units import Unit, WorkSpec
from .contract import CPU, Advance, Outcome, Pool, pool_of, unheard
from .driving import Driver
from .run_folder import Journal, write_run
from .schedule import Schedule
from .workers.ray_actors import Actors, alive_nodes, fits, resources_of
from .workers.ray_machines import require_shared
from .workers.ray_sweeper import swept

_REACH_SECONDS = 5.0
_INSTALLS_HANDLERS = "_ZN3ray6RayLog27InstallFailureSignalHandlerEPKcb"


class RayEngine:
    """Carries out units on a cluster of ray.

    Workers are actors; one serves pool after pool of its shape, so that a model costs no new process.

    Args:
        address: ``auto`` (the cluster that this machine is a node of, or that ``RAY_ADDRESS`` names), ``HOST:PORT`` of
            its head, or ``local`` (one of this machine's cores, which ends with the run).
        pools: What workers take. One that is not named takes a core, and a GPU where it needs a model and the cluster
            has any.
    """

    def __init__(self, address: str = "auto", pools: Sequence[Pool] = ()) -> None:
        self.address = address
        self.pools = {pool.name: pool for pool in pools}

    def carry_out(
        self,
        spec: WorkSpec,
        units: Iterable[Unit],
        *,
        report: Callable[[Advance], object] = unheard,
        folder: Path | None = None,
    ) -> Outcome:
        """Carry out units; see :class:`~.contract.Engine`.

        Raises:
            UsageError: There is no cluster, it has not what a pool asks for, a node cannot import capbench, or a
                machine does not see the folder in which workers meet.
        """
        work = spec.open()
        with connected(self.address):
            pools = PoolsOfCluster(self.pools, self.address)
            schedule = Schedule.of(units)
            for unit in schedule.units.values():
                # What no node can take is refused before anything starts, where all units are there.
                pools[unit.pool]
            if spec.folder is not None:
                require_shared(Path(spec.folder))
            if folder:
                write_run(folder, spec, ())
            actors = Actors(spec)
            try:
                journal = Journal(folder, "ray", has_units=True)
                return Driver(schedule, actors, pools, work, report, journal).drive()
            finally:
                actors.close()


class PoolsOfCluster(dict[str, Pool]):
    """Pools on a cluster, each looked at when it is asked for the first time: units may come one by one.

    Args:
        named: Those that a user named, by name.
        address: The cluster, which this process is connected to.
    """

    def __init__(self, named: Mapping[str, Pool], address: str) -> None:
        self._named = named
        self._address = address

    def __missing__(self, name: str) -> Pool:
        """Return the pool of a name.

        Raises:
            UsageError: No node has what a worker of it takes.
        """
        nodes = [resources_of(node) for node in alive_nodes()]
        gpus = 1 if any(has for _, has, _ in nodes) and name != CPU else 0
        pool = pool_of(name, self._named, Pool(name, gpus=gpus))
        if not any(fits(pool.shape, node) for node in nodes):
            largest = max((has, cores) for cores, has, _ in nodes)
            raise UsageError(
                f"a worker of pool '{name}' takes {pool.in_words}, and no node of the cluster at {self._address} has "
                f"them: the largest of {len(nodes)} has {counted(largest[1], 'CPU')} and {counted(largest[0], 'GPU')}",
                "Ask for less in the cluster file, or start a node that has them.",
            )
        self[name] = pool
        return pool


@contextmanager
def connected(address: str) -> Generator[None]:
    """Connect this process to a cluster; one that it is connected to already is kept.

    Raises:
        UsageError: There is no ray, or no cluster there.
    """
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"the engine 'ray' cannot be imported: {error}", 'pip install "capbench[ray]"'
        ) from error
    if ray.is_initialized():
        yield
        return
    _check(address)
    with ExitStack() as stack:
        starting = stack.enter_context(swept()) if address == "local" else nullcontext()
        stack.callback(ray.shutdown)
        with starting, _ended_as_before():
            _connect(address)
        # What a cluster says of its nodes, ray prints among the results.
        stack.enter_context(redirect_stdout(sys.stderr))
        yield


def _connect(address: str) -> None:
    import ray

    try:
        # Workers' words come with their answers, so that ray need not repeat those of every node.
        own = options_of_own_cluster() if address == "local" else {}
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)  # pyright: ignore
    except Exception as error:
        # Of a machine that is too busy it says no more than that it is an Exception.
        raise UsageError(
            f"no cluster of ray can be had at '{address}': {error}",
            "'ray start --head' starts one; --address local makes one of this machine for the run.",
        ) from error


@contextmanager
def _ended_as_before() -> Generator[None]:
    """Let SIGTERM end this process as before while ray connects, which has handlers of its own, in C++ and in Python.

    What ends a run is the command's to say.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    import ray

    handler = signal.getsignal(signal.SIGTERM)
    with suppress(AttributeError, OSError):
        # The one in C++ prints a trace and aborts. It is installed once a process: now, and not while ray connects.
        ctypes.CDLL(ray._raylet.__file__)[_INSTALLS_HANDLERS](b"", False)  # pyright: ignore
    signal.signal(signal.SIGTERM, handler)
    try:
        yield
    except SystemExit:
        # So the one in Python ends it.
        signal.signal(signal.SIGTERM, handler)
        signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)


def options_of_own_cluster() -> dict[str, Any]:
    """Return how a cluster is started that ends with the run.

    Ray starts workers at niceness 15, so that what manages a node answers beside them; with anything else at work on
    the machine they get next to nothing of a core. Here they are as important as the run, which can be started by
    ``nice`` itself; ``RAY_worker_niceness`` says otherwise.
    """
    options: dict[str, Any] = {"include_dashboard": False}
    if "RAY_worker_niceness" not in os.environ:
        options["_system_config"] = {"worker_niceness": 0}
    return options


def _check(address: str) -> None:
    """Raise where nobody listens at an address: ray itself would wait for it for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "://" in host:
        raise UsageError(f"'{address}' is no address of a cluster of ray", "It is auto, local or HOST:PORT.")
    try:
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"no cluster of ray can be had at '{address}': {error}",
            "'ray start --head' prints the address of the one that it starts.",
        ) from error
