"""Data cards: where a data set comes from, under which terms, and which files are expected."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from ..access import Request, requests_of
from ..boundary import HINT, OUTSIDE, Boundary
from ..downloads import FileSource
from ..errors import TaskError
from ..paths import is_file
from ..permissions import Permissions, is_installed, permitted
from .schema import Strict, TaskConfig, faults_of
from .yaml_files import PACKAGE_ROOT, ParsedFile, display_path, parse


class SourceFile(Strict):
    """A file that a reader expects in the data set's folder."""

    path: str
    """Below the data set's folder; a file or a folder."""
    what: str
    """What a line, row or member of the file holds."""
    required: bool = True
    """Whether nothing works without it."""


class DataSource(FileSource):
    """A data card."""

    folder: str = ""
    """Name of the data set's folder under ``CAPBENCH_DATA`` and under the cache."""
    generated: bool = False
    """The reader makes the data, whole, whenever it is loaded: there is no folder, and nothing to get."""
    homepage: str = ""
    """Where others get it. Your own data has none, and needs no ``licence``, ``terms``, ``citation`` or ``how``."""
    redistribution: Literal["full", "scores"] = "scores"
    """What of a run over this data may be passed on: all of its captions and ratings, or scores alone."""
    pictures: bool = False
    """Whether small copies of the photographs may be passed on, too."""
    citation: str = ""
    """What to cite."""
    files: list[SourceFile] = Field(default_factory=list)
    """What the folder of the data set holds."""
    how: str = ""
    """How a user gets the files, in sentences."""
    defects: list[str] = Field(default_factory=list)
    """What is known to be wrong with the data or with what it measures, a sentence each; a number with its source."""

    @model_validator(mode="after")
    def _complete(self) -> DataSource:
        needed = [] if self.generated else ["folder", "files"]
        if self.downloads:
            needed.append("homepage")
        if self.homepage or self.downloads:
            needed += ["licence", "terms", "citation", "how"]
        if missing := [name for name in needed if not getattr(self, name)]:
            own = "; data of your own has no 'homepage', and needs 'title', 'folder' and 'files' alone"
            raise ValueError(f"has no {', '.join(map(repr, missing))}{own if self.homepage else ''}")
        if self.generated and (self.folder or self.files or self.downloads):
            raise ValueError("data that is generated has no 'folder', 'files' or 'downloads'")
        if self.folder and (not (parts := PurePosixPath(self.folder).parts) or {"..", "/", "~"} & set(parts)):
            raise ValueError(f"folder '{self.folder}' is not the name of a folder below $CAPBENCH_DATA")
        return self


def requests_of_card(task: TaskConfig, task_path: Path) -> list[Request]:
    """Return which addresses a task's data card would have called for a download; none of one that is installed.

    Raises:
        TaskError: As of :func:`load_source`.
    """
    parsed = _card_of(task, task_path)
    asked = requests_of(parsed.values, parsed.path, parsed.where) if parsed else []
    return [source for source in asked if source.kind == "addresses"]


def _card_of(task: TaskConfig, task_path: Path) -> ParsedFile | None:
    if task.data_source is None:
        return None
    # An inherited key may come from another folder; cards of the package are found from any place.
    for folder in (task_path.parent, *(PACKAGE_ROOT / "tasks").iterdir()):
        if is_file(path := folder / task.data_source):
            break
    else:
        raise TaskError(f"{display_path(task_path)}: data_source '{task.data_source}' is not in {task_path.parent}")
    if not (Boundary.around(task_path).holds(path) or is_installed(path)):
        raise TaskError(f"{display_path(task_path)}: data_source: {task.data_source} {OUTSIDE}", HINT)
    return parse(path)


_cards: dict[tuple[str, Path, Permissions], tuple[ParsedFile, DataSource]] = {}
"""Cards that were read, by the task that names them and by what that might read then."""


def load_source(task: TaskConfig, task_path: Path) -> DataSource | None:
    """Return the data card of a task, or None if it names none; one that was read is read again once it has changed.

    Raises:
        TaskError: The card violates its schema.
    """
    key = task.data_source or "", task_path, permitted()
    if (known := _cards.get(key)) and known[0].is_current:
        return known[1]
    if (parsed := _card_of(task, task_path)) is None:
        return None
    try:
        source = DataSource.model_validate(parsed.values)
    except ValidationError as error:
        raise TaskError("\n".join(faults_of(error, parsed, DataSource))) from error
    _cards[key] = parsed, source
    return source
