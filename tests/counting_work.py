"""A real, small work: it counts the words of a shard's lines, and can be told to fail where a file says so."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from capbench.benchmarks.running.units import Unit, UnitReport, WorkSpec
from capbench.errors import AdapterError, DataError, StoreError

FACTORY = "counting_work:CountingWork"


class CountingWork:
    """Counts words of the lines of ``FOLDER/text.txt``; results are ``FOLDER/results/KEY.json``, committed by os.link.

    What befalls a document is in ``FOLDER/fate/NUMBER``: ``raise``, ``kill``, ``once`` (kills the first worker that
    meets it), ``data`` (a DataError), ``place`` (an AdapterError in the first worker that meets it), ``memory``
    (more than a worker may have). ``FOLDER/slow`` holds the seconds that a document takes. Each unit that is
    begun is a line of ``FOLDER/begun``, each that is computed one of ``FOLDER/computed``, each loading of a model one
    of ``FOLDER/loaded``. Where ``FOLDER/warns`` is, each unit warns; where ``FOLDER/whole`` is, ten documents are more
    than fit into memory. Where ``FOLDER/together`` is, no unit begins before so many have opened their work.
    """

    def __init__(self, folder: str, faulty: str = "") -> None:
        self.folder = Path(folder)
        if faulty == "store" or (
            faulty.startswith("store but in ") and not faulty.endswith(f" {os.getpid()}")
        ):
            raise StoreError("the store at s3://nowhere cannot be reached", "Name one that can.")
        if faulty.startswith("dies but in ") and not faulty.endswith(f" {os.getpid()}"):
            os.kill(os.getpid(), signal.SIGKILL)
        (self.folder / "results").mkdir(exist_ok=True)
        self.models: set[str] = set()
        note(self.folder / "opened", str(os.getpid()))

    def is_done(self, unit: Unit) -> bool:
        return self._file(unit.key).exists()

    def release(self, pool: str) -> None:
        self.models.remove(pool)
        note(self.folder / "released", pool)

    def run_unit(self, unit: Unit) -> UnitReport:
        start = time.monotonic()
        together = self.folder / "together"
        while together.exists() and len(notes(self.folder / "opened")) < int(together.read_text()):
            time.sleep(0.01)
        note(self.folder / "begun", unit.key)
        if self.is_done(unit):
            return UnitReport(0.0, found=len(unit.documents))
        if (self.folder / "whole").exists() and len(unit.documents) == 10:
            raise MemoryError
        if unit.pool != "cpu" and unit.pool not in self.models:
            devices = os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
            note(self.folder / "loaded", f"{unit.pool} {devices} {os.environ.get('OMP_NUM_THREADS')}")
            self.models.add(unit.pool)
        if (self.folder / "warns").exists():
            warnings.warn(f"beware of {unit.stage}", stacklevel=1)
        if unit.stage == "sums":
            count = sum(json.loads(self._file(key).read_text())["words"] for key in unit.needs)
        else:
            count = sum(self._count(document) for document in unit.documents)
        note(self.folder / "computed", unit.key)
        self._commit(unit.key, {"words": count, "without": unit.without})
        return UnitReport(time.monotonic() - start, computed=len(unit.documents))

    def _count(self, document: int) -> int:
        meet_fate(self.folder / "fate", document)
        slow = self.folder / "slow"
        end = time.monotonic() + (float(slow.read_text()) if slow.exists() else 0)
        while time.monotonic() < end and slow.exists():
            time.sleep(0.005)
        with (self.folder / "text.txt").open() as lines:
            return next(len(line.split()) for number, line in enumerate(lines) if number == document)

    def _file(self, key: str) -> Path:
        return self.folder / "results" / f"{key}.json"

    def _commit(self, key: str, result: object) -> None:
        draft = self.folder / "results" / f".{key}.{os.getpid()}.{time.monotonic_ns()}"
        draft.write_text(json.dumps(result))
        try:
            os.link(draft, self._file(key))
        except FileExistsError:
            note(self.folder / "came_second", key)
        draft.unlink()


def meet_fate(folder: Path, document: int) -> None:
    """Let happen to this process what the file of a document says."""
    file = folder / str(document)
    fate = file.read_text() if file.exists() else ""
    if fate in ("once", "place"):
        file.unlink()
    if fate == "raise":
        raise ValueError(f"document {document} is impossible")
    if fate == "data":
        raise DataError(f"document {document} is missing", "Put it there.")
    if fate == "place":
        raise AdapterError("this machine's device is broken", "Mend it.")
    if fate in ("kill", "once"):
        os.kill(os.getpid(), signal.SIGKILL)
    if fate == "memory":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, resource.RLIM_INFINITY))
        bytearray(800 << 20)


def note(file: Path, line: str) -> None:
    """Append a line, whole, whoever else does."""
    number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(number, f"{line}\n".encode())
    os.close(number)


def notes(file: Path) -> list[str]:
    """Return the lines that were appended."""
    return file.read_text().splitlines() if file.exists() else []


class Sample:
    """A text, its work and its units, in a folder.

    Args:
        folder: Where.
        documents: Lines of the text.
        shard: Documents of a shard.
        pools: Of the stage ``caption``, shard by shard in turn.
    """

    def __init__(
        self, folder: Path, documents: int = 40, shard: int = 10, pools: Sequence[str] = ("cpu",)
    ) -> None:
        self.folder = folder
        self.spec = WorkSpec(FACTORY, {"folder": str(folder)})
        (folder / "fate").mkdir(parents=True)
        lines = [" ".join(["word"] * (1 + number % 7)) for number in range(documents)]
        (folder / "text.txt").write_text("\n".join(lines))
        self.words = [len(line.split()) for line in lines]
        self.units = list(self._units(documents, shard, pools))

    def _units(self, documents: int, shard: int, pools: Sequence[str]) -> Iterator[Unit]:
        keys = []
        for number, first in enumerate(range(0, documents, shard)):
            rows = (first, min(first + shard, documents))
            pool = pools[number % len(pools)]
            yield Unit(f"caption-{number}", "caption", "counter", number, rows, pool=pool)
            yield Unit(f"score-{number}", "score", "length", number, rows, needs=(f"caption-{number}",))
            keys.append(f"score-{number}")
        yield Unit("sums", "sums", "length", 0, (0, documents), needs=tuple(keys))

    def befalls(self, document: int, fate: str) -> None:
        """Say what happens to a document."""
        (self.folder / "fate" / str(document)).write_text(fate)

    def notes(self, name: str) -> list[str]:
        """Return what the workers noted."""
        return notes(self.folder / name)

    def results(self) -> dict[str, int]:
        """Return the words that each result counts."""
        return {
            file.stem: json.loads(file.read_text())["words"]
            for file in (self.folder / "results").glob("*.json")
        }
