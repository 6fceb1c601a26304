"""The folder of a run that is carried out: what is to be done, and what its drivers say of it.

::

    RUN/spec.json        how a worker opens its work
    RUN/units.jsonl      the units, a line each
    RUN/status.json      how far the driver is, written whole each second
    RUN/done.jsonl       a line for each unit that is done
    RUN/failures.jsonl   a line for each attempt that failed
    RUN/slots/N/         the last three, of each slot of a queue
    RUN/claims/KEY.1     who has a unit in hand, of these; .2 is who took it over
    RUN/stopped.json     the error that ends all slots

Any engine writes it; :mod:`.status` reads it, on any machine that sees the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ...boundary import unlinked
from ...drafts import write_whole
from ...errors import UsageError
from ..running.units import Unit, WorkSpec
from .contract import Advance, LeftOut, UnitOutcome
from .schedule import Schedule

SPEC, UNITS, STATUS, DONE, FAILURES, SLOTS, CLAIMS, STOPPED = (
    "spec.json", "units.jsonl", "status.json", "done.jsonl", "failures.jsonl", "slots", "claims", "stopped.json",
)  # fmt: skip


def write_run(folder: Path, spec: WorkSpec, units: Iterable[Unit]) -> None:
    """Write what is to be done, and remove what was said of an earlier go at it.

    Raises:
        UsageError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (STATUS, DONE, FAILURES, STOPPED):
            (folder / name).unlink(missing_ok=True)
        for name in (SLOTS, CLAIMS):
            shutil.rmtree(folder / name, ignore_errors=True)
        write_whole(folder / SPEC, spec.to_json() + "\n")
        write_whole(folder / UNITS, "".join(f"{unit.to_json()}\n" for unit in units))
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written: {error.strerror}",
            "Name a folder with --run_folder that this user may write, and that all workers see.",
        ) from error


def sum_of(folder: Path) -> str:
    """Return a SHA-256 of how the work of a run is opened."""
    return hashlib.sha256((folder / SPEC).read_bytes()).hexdigest()


def runs_in(folder: Path) -> list[Path]:
    """Return the folder of a run itself; or those of its stages, and its tasks' stages, where it holds these."""
    if (folder / SPEC).exists():
        return [folder]
    return sorted(spec.parent for depth in ("*", "*/*") for spec in folder.glob(f"{depth}/{SPEC}"))


def read_run(folder: Path) -> tuple[WorkSpec, list[Unit]]:
    """Return what is to be done.

    Raises:
        UsageError: The folder is none of a run.
    """
    try:
        spec = WorkSpec.from_json(unlinked(folder / SPEC).read_text(encoding="utf-8"))
        lines = unlinked(folder / UNITS).read_text(encoding="utf-8").splitlines(keepends=True)
        return spec, [Unit.from_json(line) for line in lines if line.endswith("\n")]
    except OSError as error:
        stages = ", ".join(map(str, runs_in(folder)))
        raise UsageError(
            f"{folder}: is no folder of a run: {error.filename}: {error.strerror}",
            f"Name one of the stages in it: {stages}."
            if stages and not (folder / SPEC).exists()
            else "It is the one that an engine was given, with spec.json and units.jsonl in it.",
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{folder}: is no folder of a run that this capbench wrote: {error}") from error


@dataclass
class Journal:
    """What a driver writes of its schedule as it goes on; nothing, without a folder.

    Attributes:
        folder: Where.
        engine: Its name, for people.
        has_units: Whether it writes the units, too, as they come; else they are there (:func:`write_run`).
    """

    folder: Path | None
    engine: str
    has_units: bool = False
    _units: int = 0
    _done: int = 0
    _failures: int = 0
    _started: float = field(default_factory=time.time)

    def write(self, schedule: Schedule, advance: Advance, in_hand: Mapping[str, Unit], end: str = "") -> None:
        """Write what is new.

        Args:
            schedule: What is done, and what failed.
            advance: How far it is.
            in_hand: The units that run now, by worker.
            end: How the run ended: ``done``, or the error that ended it; empty while it goes on.
        """
        if self.folder is None:
            return
        if self.has_units:
            units = islice(schedule.units.values(), self._units, None)
            append(self.folder / UNITS, [vars(unit) for unit in units])
            self._units = len(schedule.units)
        outcomes = schedule.outcome.units
        left_out = {one.unit.key: one for one in schedule.outcome.left_out}
        done = [
            _done_line(asked, one, left_out.get(asked))
            for asked, one in islice(outcomes.items(), self._done, None)
            if asked not in schedule.learned
        ]
        failures = [
            {
                "unit": vars(task.unit), "asked": task.asked, "probe": task.search is not None, "worker": worker,
                "fault": fault.to_values(),
            }
            for task, worker, fault in islice(schedule.failures, self._failures, None)
        ]  # fmt: skip
        self._done, self._failures = len(outcomes), len(schedule.failures)
        append(self.folder / DONE, done)
        append(self.folder / FAILURES, failures)
        status = {
            "engine": self.engine, "host": socket.gethostname(), "process": os.getpid(), "started": self._started,
            "updated": time.time(), "end": end, **vars(advance), "stages": schedule.stages,
            "documents_left": schedule.documents_left.total(),
            "in_hand": {worker: str(unit) for worker, unit in in_hand.items()},
        }  # fmt: skip
        write_whole(self.folder / STATUS, json.dumps(status))


def append(file: Path, lines: list[Any]) -> None:
    """Append values to a file as lines of JSON; what a kill left of a line before is none of them."""
    if lines:
        with file.open("a+b") as stream:
            is_torn = stream.tell() and stream.seek(-1, os.SEEK_END) and stream.read() != b"\n"
            text = "".join(f"{json.dumps(one)}\n" for one in lines)
            stream.write((f"\n{text}" if is_torn else text).encode())


def _done_line(asked: str, one: UnitOutcome, left_out: LeftOut | None) -> dict[str, Any]:
    return {
        "asked": asked,
        "unit": vars(one.unit),
        "worker": one.worker,
        "attempts": one.attempts,
        "report": one.report and vars(one.report),
        "left_out": left_out and {"documents": left_out.documents, "fault": left_out.fault.to_values()},
    }


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """Yield what the lines of a file hold; one that is being written is not there yet, no more than the file."""
    try:
        text = unlinked(file).read_bytes()
    except FileNotFoundError:
        return
    yield from whole_lines(text)


def whole_lines(text: bytes) -> Iterator[dict[str, Any]]:
    """Yield what whole lines hold; of what a kill left of others nothing can be learned."""
    for line in text.splitlines(keepends=True):
        if line.endswith(b"\n"):
            with suppress(ValueError):
                if isinstance(values := json.loads(line), dict):
                    yield values


def writers_of(folder: Path) -> list[Path]:
    """Return the folders in which a driver or a slot writes."""
    return [folder, *sorted((folder / SLOTS).glob("*/"))]
