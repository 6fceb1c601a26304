# pyright: reportMissingImports=false
# A node imports capbench as it finds it, by its name.
"""The actor of the ray engine. It is sent to its node as it is, so that it can say what the node lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def actor_class() -> type:
    """Return the class of the actor; a node needs nothing of capbench to receive it."""

    class RayWorker:
        """A worker on a node of a cluster."""

        def open(
            self, spec: str, path: Sequence[str], permissions: dict[str, Any], version: str, threads: int
        ) -> dict[str, Any]:
            """Open the work, and return ``{}``, or what is ``missing`` on the node, or how it was ``refused``."""
            import os
            import platform
            import sys

            sys.path += [place for place in path if place not in sys.path]
            try:
                from capbench import __version__
                from capbench.benchmarks.engines.faults import Fault
                from capbench.benchmarks.engines.workers import worker
                from capbench.benchmarks.engines.workers.voices import Ear
                from capbench.benchmarks.running.units import Unit, WorkSpec
            except ImportError as error:
                return {"missing": f"{platform.node()}: {error}"}
            if __version__ != version:
                return {"missing": f"{platform.node()} has capbench {__version__}"}
            os.environ.update(worker.thread_limits(threads))
            self._ear = sys.stderr = Ear(sys.stderr)
            self._read, self._to_values = Unit.from_json, worker.to_values
            try:
                self._worker = worker.Worker(WorkSpec.from_json(spec), path, permissions)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told to the driver
                return {"refused": Fault.of(error).to_values(), "said": self._ear.heard()}
            return {"said": self._ear.heard()}

        def run(self, unit: str, release: Sequence[str]) -> dict[str, Any]:
            """Run a unit, and return its answer and what was said."""
            answer = self._worker.answer(self._read(unit), release)
            return {"answer": self._to_values(answer), "said": self._ear.heard()}

    return RayWorker
