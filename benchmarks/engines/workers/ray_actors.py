"""Actors on a cluster of ray: started where there is room, one unit at a time for each."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from ....errors import UsageError
from ....permissions import permitted
from ...running.units import Unit, WorkSpec
from ..driving import Event, Shape
from ..faults import DIED, Fault
from .ray_worker import actor_class
from .voices import Voices
from .worker import from_values

_LOOK_SECONDS = 5.0
"""Between two looks at which nodes there are."""


class Actors:
    """The workers of the ray engine.

    One unit is in flight for each: which unit ended a worker is never in doubt, and no more than that is lost with it.

    Args:
        spec: How each opens its work.
    """

    queue_orders = False

    def __init__(self, spec: WorkSpec) -> None:
        import ray

        self._ray: Any = ray
        self._class = ray.remote(actor_class())
        self._hello = (spec.to_json(), list(sys.path), permitted().to_json(), version("capbench"))
        self._names = (f"actor {number}" for number in itertools.count(1))
        self._actors: dict[str, tuple[Any, Any]] = {}
        """Each with its placement group, if it has one."""
        self._pending: dict[Any, str] = {}
        """What is awaited of whom."""
        self._opening: set[str] = set()
        self._room = Room()
        self._voices = Voices()

    def hire(self, shape: Shape) -> str | None:
        """Start an actor where the cluster has room for it; see :class:`~..driving.Hands`."""
        name = next(self._names)
        if not self._room.take(name, shape):
            return None
        cpus, gpus, memory = shape
        group, options = self._group(shape) if gpus > 1 else (None, {})
        actor = self._class.options(
            num_cpus=cpus, num_gpus=gpus, memory=memory or None, max_restarts=0, **options
        ).remote()
        self._actors[name] = actor, group
        self._opening.add(name)
        self._pending[actor.open.remote(*self._hello, max(int(cpus), 1))] = name
        return name

    def give(self, worker: str, unit: Unit, release: Sequence[str]) -> None:
        """Let an actor run a unit."""
        actor, _ = self._actors[worker]
        self._pending[actor.run.remote(unit.to_json(), list(release))] = worker

    def events(self, seconds: float) -> list[Event]:
        """Wait for what actors tell."""
        if not self._pending:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._pending), timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        return [self._event(self._pending.pop(one), one) for one in ready]

    def _event(self, worker: str, reference: Any) -> Event:
        try:
            told = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return self._died(worker, Fault(DIED, _why(error)))
        if missing := told.get("missing"):
            raise UsageError(
                f"a node of the cluster cannot work: {missing}",
                f"Each node needs what this machine has: pip install 'capbench[ray]=={self._hello[-1]}'.",
            )
        self._voices.say(told["said"])
        if "refused" in told:
            return self._died(worker, Fault.from_values(told["refused"]))
        if worker in self._opening:
            self._opening.remove(worker)
            return Event(worker, "opened")
        return Event(worker, "answered", from_values(told["answer"]))

    def _died(self, worker: str, fault: Fault) -> Event:
        self.dismiss(worker)
        return Event(worker, "died", fault)

    def dismiss(self, worker: str) -> None:
        """End an actor, what it does with it."""
        actor, group = self._actors.pop(worker)
        self._opening.discard(worker)
        self._room.leave(worker)
        self._ray.kill(actor)
        if group is not None:
            self._ray.util.remove_placement_group(group)

    def close(self) -> None:
        """End all actors, what they do with them."""
        for worker in list(self._actors):
            self.dismiss(worker)

    def _group(self, shape: Shape) -> tuple[Any, dict[str, Any]]:
        """Return GPUs of one machine, set aside together, and how an actor is put on them."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        cpus, gpus, memory = shape
        bundle = {"CPU": cpus, "GPU": gpus, **({"memory": memory} if memory else {})}
        group = self._ray.util.placement_group([bundle], strategy="STRICT_PACK")
        return group, {"scheduling_strategy": PlacementGroupSchedulingStrategy(group)}


class Room:
    """Which workers the nodes of a cluster hold."""

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}
        self._free: dict[str, list[float]] = {}
        self._on: dict[str, str] = {}
        self._looked = -_LOOK_SECONDS

    def take(self, worker: str, shape: Shape) -> bool:
        """Set room aside for a worker; return whether there was any."""
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._look()
        self._shapes[worker] = shape
        if not self._put(worker):
            del self._shapes[worker]
        return worker in self._shapes

    def leave(self, worker: str) -> None:
        """Give back the room of a worker, where its node is still there."""
        shape, node = self._shapes.pop(worker), self._on.pop(worker, None)
        if node is not None:
            self._free[node] = [free + taken for free, taken in zip(self._free[node], shape, strict=True)]

    def _look(self) -> None:
        self._looked = time.monotonic()
        self._free = {node["NodeID"]: list(resources_of(node)) for node in alive_nodes()}
        self._on = {}
        for worker in self._shapes:
            self._put(worker)

    def _put(self, worker: str) -> bool:
        shape = self._shapes[worker]
        for node, free in self._free.items():
            if fits(shape, free):
                self._on[worker] = node
                self._free[node] = [have - taken for have, taken in zip(free, shape, strict=True)]
                return True
        return False


def alive_nodes() -> list[dict[str, Any]]:
    """Return the nodes of the cluster that are alive."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def resources_of(node: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return CPUs, GPUs and bytes of a node."""
    return tuple(node["Resources"].get(name, 0.0) for name in ("CPU", "GPU", "memory"))


def fits(shape: Sequence[float], free: Sequence[float]) -> bool:
    """Return whether a worker finds what it takes."""
    return all(wanted <= have for wanted, have in zip(shape, free, strict=True))


def _why(error: Exception) -> str:
    """Return what ray says of the end of an actor: one sentence of many."""
    text = " ".join(str(error).split())
    if (start := text.find("The actor is dead because")) >= 0:
        text = text[start:]
    return text.partition(" Some common causes")[0][:300]
