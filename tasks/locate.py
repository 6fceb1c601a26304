"""Finds where the local copy of a task's data is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..boundary import Boundary
from ..downloads import Files
from ..errors import DataError, UsageError
from ..hub import repository_folder
from ..paths import cache_folder
from ..permissions import Permissions
from .schema import TaskConfig
from .sources import DataSource
from .yaml_files import display_path


def prepared_data() -> Path:
    """Return where the library ``datasets`` keeps what it prepared of hub data sets."""
    from huggingface_hub import constants

    loaded = sys.modules.get("datasets.config")
    named = os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME, "datasets")
    return Path(getattr(loaded, "HF_DATASETS_CACHE", named))


@dataclass(frozen=True)
class DataLocations:
    """Where local copies of data sets may be.

    Attributes:
        named: Task name to the path given by ``--data TASK=PATH``.
        root: Folder with one folder a data set (``CAPBENCH_DATA``).
        allowed: Additional folders that tasks may read, given by ``--allow_outside``.
    """

    named: Mapping[str, Path] = field(default_factory=dict)
    root: Path | None = None
    allowed: tuple[Path, ...] = ()

    @classmethod
    def from_environment(
        cls, named: Mapping[str, Path] | None = None, allow_outside: Sequence[str | Path] = ()
    ) -> DataLocations:
        """Return the locations that the environment, ``--data`` and ``--allow_outside`` give.

        Raises:
            UsageError: A folder that is to be allowed does not exist.
        """
        root = os.environ.get("CAPBENCH_DATA")
        return cls(named or {}, Path(root).expanduser() if root else None, Permissions.of(allow_outside).folders)

    def boundary(self, task: TaskConfig, path: Path, source: DataSource | None) -> Boundary:
        """Return which files a task may read.

        Args:
            task: The task.
            path: Its YAML file.
            source: Its data card, if it has one.

        Raises:
            DataError: ``--data`` names a path that does not exist.
        """
        located = self._copy(task, source)
        data = [located] if located else []
        if not data and task.custom_dataset is None and not task.is_local:
            # Where the hub's libraries keep what they fetched.
            places = (prepared_data(), repository_folder(str(task.dataset_path), "dataset"))
            data = [folder for folder in places if folder.is_dir()]
        return Boundary.of(path, *data, *self.allowed)

    def find(self, task: TaskConfig, path: Path, source: DataSource | None) -> Path | None:
        """Return the file or folder of a task's data, or None if there is no local copy, or can be none.

        What ``--data`` names comes first, then the folder of the data card, then what the task names for its reader.

        Args:
            task: The task.
            path: Its YAML file.
            source: Its data card, if it has one.

        Raises:
            DataError: A path that is named does not exist.
        """
        if (copy := self._copy(task, source)) is not None:
            return copy
        if task.custom_dataset is None or task.dataset_path is None or (source is not None and source.generated):
            return None
        local = path.parent / Path(task.dataset_path).expanduser()
        if not local.exists():
            raise DataError(
                f"{display_path(path)}: dataset_path '{task.dataset_path}': there is no such file or folder in "
                f"{path.parent}",
                f"A reader is given it as its path; --data {task.task}=PATH names another.",
            )
        return local

    def _copy(self, task: TaskConfig, source: DataSource | None) -> Path | None:
        """Return the copy that the user named, or put where the data card's is looked for."""
        if (path := self.named.get(task.task)) is not None:
            if not path.exists():
                raise DataError(f"--data {task.task}={path}: there is no such file or folder")
            return path
        if source is None or source.generated:
            return None
        for folder in self.candidates(source):
            # What a download that broke off leaves behind is no data.
            names = folder.iterdir() if folder.is_dir() else ()
            if any(not path.name.startswith(".") and path.suffix != ".part" for path in names):
                return folder
        return None

    def resource(self, source: DataSource) -> Files:
        """Return the files of a data card for ``bench fetch``, which go into the folder that is searched first."""
        return Files(source, self.candidates(source)[0])

    def candidates(self, source: DataSource) -> list[Path]:
        """Return the folders that are searched for a data set, first one first."""
        roots = [self.root] if self.root else []
        return [root / source.folder for root in (*roots, cache_folder() / "data")]


def parse_data_options(options: list[str]) -> dict[str, Path]:
    """Return the paths of ``--data TASK=PATH`` options by task.

    Raises:
        UsageError: An option is not of that form.
    """
    named = {}
    for option in options:
        task, equals, path = option.partition("=")
        if not (task and equals and path):
            raise UsageError(f"--data {option}: expected TASK=PATH")
        if task in named:
            raise UsageError(f"--data {option}: --data {task}={named[task]} was given before")
        named[task] = Path(path).expanduser()
    return named
