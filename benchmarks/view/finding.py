"""Finds the runs to show: searches folders for each list, and reads records again only if they changed."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path

from ...errors import BenchError, DataError, UsageError
from ...tasks.index import TaskIndex, build_index
from ...tasks.locate import DataLocations
from ...tasks.schema import load_task
from ..comparing.finished_runs import settings_text
from ..inputs.task_images import NoPicture, Picture, TaskImages, picture_of
from ..leaderboard.board import BoardRun
from ..leaderboard.html.run import stored_picture
from ..records.files import RECORD_FILE
from ..records.progress_file import in_progress
from ..records.reading import find_records, read_record
from ..records.record import Record
from ..tables.pages.rendering import page_name
from .samples import RunSamples

_SAMPLES_KEPT = 4


@dataclass(frozen=True)
class ShownRun(BoardRun):
    """A run with pages; its key is its name in URLs."""

    @property
    def model(self) -> str:
        """The model or its substitute, with decoding settings from the command line."""
        decoding = settings_text(self.record.settings.decoding)
        return super().model + (f" [{decoding}]" if decoding else "")

    @property
    def name(self) -> str:
        """The model with its decoding settings, and the start time of the run."""
        return f"{self.model}, {self.began}"


@dataclass
class Runs:
    """Finds runs in folders. Thread-safe.

    Attributes:
        places: Folders of runs, or folders that contain some.
    """

    places: Sequence[Path]
    _by_key: dict[str, ShownRun] = field(default_factory=dict)

    def all(self) -> tuple[list[ShownRun], list[tuple[str, str]]]:
        """Return the current runs, newest first within each task, and (folder, error) of unreadable ones."""
        files, errors = find_records(self.places)
        faults = [("", error.in_one_line) for error in errors]
        runs: dict[str, ShownRun] = {}
        taken: set[str] = set()
        for file in files:
            state = _state(file)
            try:
                # In URLs a run is called by the last three folders of its path.
                folder = file.parent.resolve()
                key = page_name("/".join(folder.parts[-3:]), taken, str(folder))
                runs[key] = ShownRun(key, file.parent, _record(file, *state))
            except BenchError as error:
                faults.append((str(file.parent), error.in_one_line.removeprefix(f"{file}: ")))
        self._by_key = runs
        by_task = sorted(runs.values(), key=lambda run: run.record.date, reverse=True)
        return sorted(by_task, key=lambda run: (run.record.alias, run.record.task)), faults

    def single(self, option: str) -> ShownRun:
        """Return the run, where there is one.

        Args:
            option: What needs it, for the message.

        Raises:
            UsageError: There are several; none of them is read.
            DataError: It cannot be read.
        """
        files, _ = find_records(self.places)
        if len(files) != 1:
            raise UsageError(
                f"{option} takes one run, and {', '.join(map(str, self.places))} has {len(files):,}",
                "Name the folder of one of them; 'bench leaderboard build' makes pages of all.",
            )
        runs, faults = self.all()
        if faults:
            raise DataError(": ".join(filter(None, faults[0])))
        return runs[0]

    def get(self, key: str) -> ShownRun | None:
        """Return a run by its name in URLs; None if there is none."""
        run = self._by_key.get(key)
        if run is None or not (run.folder / RECORD_FILE).is_file():
            self.all()
        return self._by_key.get(key)

    def in_progress(self) -> list[dict[str, str]]:
        """Return what is known of runs that are being written to the folders."""
        return [entry for place in self.places for entry in in_progress(place)]

    def samples(self, run: ShownRun) -> RunSamples:
        """Return the samples of a run.

        Raises:
            DataError: The run has no samples, or the file was changed.
        """
        return _samples(run.folder, *_state(run.folder / RECORD_FILE))


def _state(file: Path) -> tuple[int, int]:
    """Return what changes with a file: its time in nanoseconds, and its size."""
    return file.stat().st_mtime_ns, file.stat().st_size


@cache
def _record(file: Path, _changed: int, _size: int) -> Record:
    record = read_record(file)
    record.protocol  # noqa: B018 - raises if unknown
    return record


@lru_cache(_SAMPLES_KEPT)
def _samples(folder: Path, changed: int, size: int) -> RunSamples:
    return RunSamples(folder, _record(folder / RECORD_FILE, changed, size))


@dataclass
class Pictures:
    """Finds the images of samples. Thread-safe.

    Attributes:
        locations: Locations of data sets.
        include_path: Folders with additional task files.
    """

    locations: DataLocations
    include_path: Sequence[str | Path] = ()

    def __post_init__(self) -> None:
        self._of_task = cache(self._read_task)

    @cached_property
    def index(self) -> TaskIndex:
        """The installed tasks."""
        return build_index(self.include_path)

    def may_have(self, run: ShownRun, sample: str) -> bool:
        """Return whether a sample may have an image on this machine, without searching for it."""
        images = self._of_task(run.record.task)
        return sample in run.record.pictures or (images is not None and images.may_have)

    def read(self, run: ShownRun, sample: str, image: str | None) -> Picture | NoPicture:
        """Return the image of a sample, or why there is none.

        Paths from records, samples and tasks cannot lead outside of the folders of the run and of the images.

        Args:
            run: The run.
            sample: Its id.
            image: The image's name in the sample.
        """
        images = self._of_task(run.record.task)
        remedy = f"Task '{run.record.task}' is not installed, or its file has faults; --include_path names its folder."
        picture = images.read(sample, image) if images else NoPicture("is not known", remedy)
        return picture if isinstance(picture, Picture) else picture_of(stored_picture(run, sample)) or picture

    def _read_task(self, task: str) -> TaskImages | None:
        """Return the images of a task; None if the task is not installed or its data is missing."""
        entry = self.index.entries.get(task)
        with suppress(BenchError, OSError):
            return TaskImages(load_task(entry.path)[0], entry.path, self.locations) if entry else None
        return None


def comparable(run: ShownRun, runs: Sequence[ShownRun]) -> list[ShownRun]:
    """Return the other runs of the same task and version, without copies of it, and of each other only the first.

    Empty if ``bench compare`` cannot compare its protocol. A copy is of the same model, with the same common results.
    """
    record, different = run.record, list[ShownRun]()
    of_model = {record.model_name: [record]}
    for other in runs:
        same = record.protocol.comparable and (other.record.task, other.record.version) == (record.task, record.version)
        alike = of_model.setdefault(other.record.model_name, [])
        if same and not any(_copies(other.record, known) for known in alike):
            alike.append(other.record)
            different.append(other)
    return different


def _copies(first: Record, second: Record) -> bool:
    if first.protocol.subject == "metric":
        return first.fingerprint == second.fingerprint
    if first.parts.model != second.parts.model:
        return False
    common = first.results.keys() & second.results.keys()
    return all(first.results[key].value == second.results[key].value for key in common)
