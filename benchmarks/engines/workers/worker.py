"""What a worker does, wherever it is: opens the work once, runs units, tells of faults as values."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ....allocation import seldom_collected
from ....permissions import Permissions, permit
from ...running.units import Unit, UnitReport, WorkSpec
from ..faults import Fault

_POOLS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def thread_limits(threads: int) -> dict[str, str]:
    """Return the environment in which libraries that are imported later start so many threads, and no more."""
    return {**dict.fromkeys(_POOLS, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


class Worker:
    """The work of one process.

    Args:
        spec: How it is opened.
        path: Where modules are looked for, after the process's own places.
        permissions: What files may decide, as the driver's caller allows it; see ``Permissions.to_json``.
    """

    @seldom_collected()
    def __init__(
        self, spec: WorkSpec, path: Sequence[str] = (), permissions: Mapping[str, Any] | None = None
    ) -> None:
        sys.path += [place for place in path if place not in sys.path]
        self._permissions = Permissions() if permissions is None else Permissions.from_json(permissions)
        with permit(self._permissions):
            self.work = spec.open()

    @seldom_collected()
    def answer(self, unit: Unit, release: Sequence[str]) -> UnitReport | Fault:
        """Run a unit, and return its report or its fault.

        Args:
            unit: What to run.
            release: Pools whose models are let go before.
        """
        try:
            for pool in release:
                self.work.release(pool)
            with permit(self._permissions):
                return self.work.run_unit(unit)
        except Exception as error:  # noqa: BLE001 - whatever a unit raises is told to the driver
            return Fault.of(error)


def to_values(answer: UnitReport | Fault) -> dict[str, Any]:
    """Return an answer as values of JSON."""
    return {"fault": answer.to_values()} if isinstance(answer, Fault) else {"report": vars(answer)}


def from_values(values: Mapping[str, Any]) -> UnitReport | Fault:
    """Return the answer that values of JSON hold."""
    return Fault.from_values(values["fault"]) if "fault" in values else UnitReport(**values["report"])


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
