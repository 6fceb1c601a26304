"""The runs that are shown: found anew whenever all of them are listed, read when their files have changed."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import BenchError, DataError
from ..comparing.decoding import in_words
from ..records.reading import find_records, read_record
from ..records.record import Record
from .samples import RunSamples

_SAMPLES_KEPT = 4
_LONGEST_KEY = 120


@dataclass(frozen=True)
class ShownRun:
    """A run that can be looked at.

    Attributes:
        key: What addresses call it.
        folder: Its folder.
        record: Its record.
    """

    key: str
    folder: Path
    record: Record

    @property
    def model(self) -> str:
        """The model, or what stands for it, with the decoding settings that the user gave."""
        given = in_words(self.record.settings.decoding)
        return f"{self.record.model_name or 'no model'}{f' [{given}]' if given else ''}"

    @property
    def name(self) -> str:
        """The model, as it decoded, and when the run began."""
        return f"{self.model}, {self.record.started:%Y-%m-%d %H:%M}"


@dataclass(frozen=True)
class Unreadable:
    """A run that cannot be shown.

    Attributes:
        place: Its folder.
        reason: Why.
    """

    place: str
    reason: str


@dataclass
class Runs:
    """The runs below some folders. Threads may share it.

    Attributes:
        places: Folders of runs, or folders below which runs lie.
    """

    places: Sequence[Path]
    _read: dict[Path, tuple[tuple[int, int], Record | DataError]] = field(default_factory=dict)
    _by_key: dict[str, ShownRun] = field(default_factory=dict)
    _samples: OrderedDict[Path, tuple[Record, RunSamples]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def all(self) -> tuple[list[ShownRun], list[Unreadable]]:
        """Return the runs that are there now, the newest of each task first, and what cannot be read."""
        files, errors = find_records(self.places)
        faults = [Unreadable("", error.in_one_line) for error in errors]
        runs: dict[str, ShownRun] = {}
        for file in files:
            found = self._record(file)
            if isinstance(found, Record):
                key = _key(file.parent, runs)
                runs[key] = ShownRun(key, file.parent, found)
            else:
                faults.append(Unreadable(str(file.parent), found.in_one_line.removeprefix(f"{file}: ")))
        self._by_key = runs
        by_task = sorted(runs.values(), key=lambda run: run.record.date, reverse=True)
        return sorted(by_task, key=lambda run: (run.record.alias, run.record.task)), faults

    def get(self, key: str) -> ShownRun | None:
        """Return the run that addresses call so; None where there is none."""
        if key not in self._by_key:
            self.all()
        return self._by_key.get(key)

    def samples(self, run: ShownRun) -> RunSamples:
        """Return the samples of a run.

        Raises:
            DataError: It has none, or others than it wrote.
        """
        with self._lock:
            known = self._samples.pop(run.folder, None)
            if known is None or known[0] is not run.record:
                known = run.record, RunSamples(run.folder, run.record)
            self._samples[run.folder] = known
            while len(self._samples) > _SAMPLES_KEPT:
                self._samples.popitem(last=False)
            return known[1]

    def _record(self, file: Path) -> Record | DataError:
        try:
            state = file.stat()
        except OSError as error:
            return DataError(f"{file}: cannot be read: {error.strerror}")
        stamp = state.st_mtime_ns, state.st_size
        known = self._read.get(file)
        if known is None or known[0] != stamp:
            try:
                record: Record | DataError = read_record(file)
                record.protocol  # noqa: B018 - its numbers need it
            except BenchError as error:
                record = error if isinstance(error, DataError) else DataError(error.message, error.hint)
            known = self._read[file] = stamp, record
        return known[1]


def _key(folder: Path, taken: dict[str, ShownRun]) -> str:
    """Return what addresses call a run: the last three folders of its path, as far as an address can hold them."""
    parts = folder.resolve().parts[-3:]
    name = "--".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip(".-") for part in parts if part != "/")
    if name in taken or len(name) > _LONGEST_KEY or not name:
        digest = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        name = f"{name[:_LONGEST_KEY]}-{digest}"
    return name
