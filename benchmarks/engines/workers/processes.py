"""Worker processes of this machine: each opens the work once, and ends with its driver, however that ends."""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from ....permissions import permitted
from ...running.units import Unit, WorkSpec
from ..driving import Event, Shape
from ..faults import DIED, Fault
from .voices import Voices
from .worker import from_values, thread_limits

_GRACE_SECONDS = 2.0
"""For a worker to end by itself, once there is nothing more for it."""
_LAST_WORDS = 5
"""Lines of what a worker that died said last."""


class Processes:
    """Up to so many worker processes.

    Args:
        spec: How each opens its work.
        number: How many.
        threads: Of the libraries in each of them.
    """

    queue_orders = True

    def __init__(self, spec: WorkSpec, number: int, threads: int) -> None:
        self._number = number
        self._hello = json.dumps(
            {"spec": spec.to_json(), "path": sys.path, "permissions": permitted().to_json()}
        )
        self._environment = {
            **os.environ,
            **thread_limits(threads),
            # capbench itself must be found before a message can say where.
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self._names = (f"process {number}" for number in itertools.count(1))
        self._alive: dict[str, subprocess.Popen[str]] = {}
        self._told: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._voices = Voices()

    def hire(self, shape: Shape) -> str | None:
        """Start a worker; see :class:`~..driving.Hands`."""
        if len(self._alive) == self._number:
            return None
        name = next(self._names)
        process = subprocess.Popen(
            # Its folder is no place of modules (-P): sys.path of this process says what is.
            [sys.executable, "-P", "-m", "capbench.benchmarks.engines.workers.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            process_group=0,  # Ctrl-C is the driver's: it ends its workers itself
            env=self._environment,
        )
        self._alive[name] = process
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()
        self._say(name, self._hello)
        return name

    def give(self, worker: str, unit: Unit, release: Sequence[str]) -> None:
        """Let a worker run a unit."""
        self._say(worker, json.dumps({"unit": unit.to_json(), "release": list(release)}))

    def events(self, seconds: float) -> list[Event]:
        """Wait for what workers tell."""
        events = []
        with suppress(queue.Empty):
            events.append(self._told.get(timeout=seconds) if seconds else self._told.get_nowait())
            while True:
                events.append(self._told.get_nowait())
        # What a worker tells that was ended from here is of no interest.
        heard = [event for event in events if event.worker in self._alive]
        for event in heard:
            if event.what == "died":
                del self._alive[event.worker]
        return heard

    def dismiss(self, worker: str) -> None:
        """End a worker that is idle."""
        self._end([self._alive.pop(worker)])

    def close(self) -> None:
        """End all workers, what they do with them."""
        alive, self._alive = list(self._alive.values()), {}
        self._end(alive)

    def _say(self, worker: str, line: str) -> None:
        stdin = self._alive[worker].stdin
        with suppress(BrokenPipeError):  # It died; who listens to it tells.
            print(line, file=stdin, flush=True)

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        """Tell what a worker tells, and that it ended."""
        last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        voice = threading.Thread(target=self._pass_on, args=(process, last_words), daemon=True)
        voice.start()
        refusal = None
        for line in process.stdout or ():
            values = json.loads(line)
            if "opened" in values:
                self._told.put(Event(name, "opened"))
            elif "refused" in values:
                refusal = Fault.from_values(values["refused"])
            else:
                self._told.put(Event(name, "answered", from_values(values)))
        code = process.wait()
        # What it started may still have its stderr.
        voice.join(_GRACE_SECONDS)
        self._told.put(Event(name, "died", refusal or Fault(DIED, _end_of(code), trace="".join(last_words))))

    def _pass_on(self, process: subprocess.Popen[str], last_words: deque[str]) -> None:
        for line in process.stderr or ():
            last_words.append(line)
            self._voices.say([line])

    def _end(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        for process in processes:
            with suppress(BrokenPipeError):  # It died.
                (process.stdin or sys.stdin).close()
        for process in processes:
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _end_of(code: int) -> str:
    """Return what the exit code of a process means."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    killer = signal.Signals(-code)
    reason = ", as it does where memory runs out" if killer == signal.SIGKILL else ""
    return f"its process was ended by {killer.name}{reason}"
