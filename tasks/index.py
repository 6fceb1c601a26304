"""Lists tasks, groups and tags by reading YAML only: nothing is executed, nothing heavy imported."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from ..errors import TaskError, UsageError, did_you_mean
from ..permissions import Permissions, permit, plugin_folders
from .yaml_files import ParsedFile, display_path, parse

T = TypeVar("T")

BUILTIN_FOLDER = Path(__file__).parent
DEFAULT_OUTPUT_TYPE = "generate_until"
"""The protocol of a task file that names none, as in lm-eval."""
_GROUP_KEYS = ("group", "task", "description", "score", "metadata")
_MAX_GROUPS = 40
"""Groups of which each holds the next."""


@dataclass(frozen=True)
class GroupScore:
    """A number over results of several tasks of a group: their mean, as more is better.

    Attributes:
        label: Its name in tables.
        mean_of: Task to the name of its result in records; one of which less is better counts as 1 minus it.
    """

    label: str
    mean_of: Mapping[str, str]


@dataclass(frozen=True)
class IndexEntry:
    """A task, or a group of tasks, and the file that declares it."""

    name: str
    kind: Literal["task", "group"]
    path: Path
    output_type: str = ""
    alias: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    score: GroupScore | None = None


@dataclass(frozen=True)
class TaskIndex:
    """All tasks and groups of the folders that were searched.

    Attributes:
        entries: By name.
        faults: Files that could not be read, with the reason. They do not keep others from running.
    """

    entries: dict[str, IndexEntry] = field(default_factory=dict)
    faults: dict[Path, str] = field(default_factory=dict)

    @property
    def tasks(self) -> list[IndexEntry]:
        """The tasks, by name."""
        return sorted((e for e in self.entries.values() if e.kind == "task"), key=lambda e: e.name)

    @property
    def groups(self) -> list[IndexEntry]:
        """The groups, by name."""
        return sorted((e for e in self.entries.values() if e.kind == "group"), key=lambda e: e.name)

    @property
    def tags(self) -> dict[str, list[str]]:
        """Each tag with the names of its tasks."""
        tags: dict[str, list[str]] = {}
        for entry in self.tasks:
            for tag in entry.tags:
                tags.setdefault(tag, []).append(entry.name)
        return dict(sorted(tags.items()))

    def resolve(self, names: Sequence[str]) -> list[IndexEntry]:
        """Return the tasks that names of tasks, groups and tags stand for, each once, in order.

        Raises:
            UsageError: A name is not known; the nearest one is proposed.
        """
        entries: dict[str, IndexEntry] = {}
        for name in names:
            for entry in self._expand(name, (), set()):
                entries[entry.name] = entry
        return list(entries.values())

    def expand_names(self, named: Mapping[str, T]) -> dict[str, T]:
        """Return the values of ``--data`` by task, from tasks, groups and tags; a task's own name wins.

        Raises:
            UsageError: A name is not known.
        """
        expanded: dict[str, T] = {}
        for name, value in named.items():
            try:
                expanded |= {entry.name: value for entry in self.resolve([name])}
            except UsageError as error:
                raise UsageError(f"--data {name}: {error.message}", error.hint) from error
        return expanded | {name: value for name, value in named.items() if name in expanded}

    def _expand(self, name: str, above: tuple[str, ...], seen: set[str]) -> Iterator[IndexEntry]:
        if name in above:
            raise TaskError(f"groups contain each other: {' -> '.join((*above, name))}")
        if len(above) > _MAX_GROUPS:
            raise TaskError(f"group '{above[0]}' holds groups in each other, more than {_MAX_GROUPS} deep")
        if name in seen:
            return
        seen.add(name)
        if name in self.entries:
            entry = self.entries[name]
            if entry.kind == "task":
                yield entry
            for member in entry.members:
                yield from self._expand(member, (*above, name), seen)
        elif name in (tags := self.tags):
            for member in tags[name]:
                yield self.entries[member]
        else:
            faults = "".join(
                f"\n{display_path(path)} could not be read: {fault}" for path, fault in self.faults.items()
            )
            raise UsageError(
                f"unknown task '{name}'.{did_you_mean(name, [*self.entries, *tags])}{faults}",
                "'bench ls tasks' lists what there is; --include_path DIR adds your own.",
            )


_read: dict[Path, tuple[IndexEntry | None, ParsedFile]] = {}
"""Declarations of files that were read; they are immutable, so callers share them."""


def build_index(include_paths: Sequence[str | Path] = ()) -> TaskIndex:
    """Search the built-in tasks, installed packages' tasks and the user's folders.

    A file that this process has read is read again once it, or one that it includes, has changed.

    Raises:
        UsageError: A folder does not exist.
        TaskError: Two files declare the same name.
    """
    index = TaskIndex()
    files: dict[Path, ParsedFile] = {}
    with permit(Permissions.of(include_path=include_paths)):
        for folder in [BUILTIN_FOLDER, *plugin_folders(), *map(Path, include_paths)]:
            folder = folder.expanduser()
            if not folder.is_dir():
                fault = "is a file; name the folder it is in" if folder.is_file() else "there is no such folder"
                raise UsageError(f"--include_path {folder}: {fault}")
            for path in sorted(_yaml_files(folder)):
                try:
                    entry = read_entry(path, files)
                except TaskError as error:
                    index.faults[path] = str(error)
                    continue
                if entry is None:
                    continue
                known = index.entries.get(entry.name)
                if known and known.path.resolve() != path.resolve():
                    raise TaskError(
                        f"{entry.kind} '{entry.name}' is declared twice: in {display_path(known.path)} "
                        f"and in {display_path(path)}",
                        "Rename one of them.",
                    )
                index.entries[entry.name] = entry
    return index


_path = cache(Path)
"""Paths that are compared and hashed for each index anew remember how."""


def _yaml_files(folder: Path) -> Iterator[Path]:
    """Yield the YAML files below a folder that are not hidden."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in (*folders, *files):
            if name.endswith((".yaml", ".yml")) and not name.startswith("."):
                yield _path(place, name)


def read_entry(path: Path, known: dict[Path, ParsedFile] | None = None) -> IndexEntry | None:
    """Return the task or group that a file declares; None for templates, which tasks include, and data cards.

    A file that declares something faulty is read each time.

    Args:
        path: The file.
        known: Files that were read before; see :func:`~.yaml_files.parse`.

    Raises:
        TaskError: The file cannot be read, or declares something faulty.
    """
    if path in _read:
        entry, parsed = _read[path]
        if parsed.is_current:
            return entry
    parsed = parse(path, known)
    entry = _entry_of(path, parsed)
    _read[path] = entry, parsed
    return entry


def _entry_of(path: Path, parsed: ParsedFile) -> IndexEntry | None:
    values = parsed.values
    description = " ".join(str(values.get("description") or "").split())
    if isinstance(name := values.get("group"), str):
        for key in values:
            if key not in _GROUP_KEYS:
                nearest = did_you_mean(str(key), _GROUP_KEYS)
                raise TaskError(f"{parsed.where(str(key))}: unknown key '{key}' of a group.{nearest}")
        if not (members := _names(parsed, "task")):
            raise TaskError(f"{parsed.where('group')}: group '{name}' names no task")
        return IndexEntry(name, "group", path, description=description, members=members, score=_score(parsed))
    if "task" not in values:
        return None
    if not isinstance(name := values["task"], str):
        raise TaskError(f"{parsed.where('task')}: task: expected a name, found {name!r}")
    return IndexEntry(
        name,
        "task",
        path,
        output_type=str(values.get("output_type", DEFAULT_OUTPUT_TYPE)),
        alias=str(values.get("task_alias", name)),
        description=description,
        tags=_names(parsed, "tag"),
    )


def _score(parsed: ParsedFile) -> GroupScore | None:
    value = parsed.values.get("score")
    if value is None:
        return None
    entries = value.get("mean_of") if isinstance(value, dict) and value.keys() == {"label", "mean_of"} else None
    texts = [value["label"], *entries, *entries.values()] if isinstance(entries, dict) and entries else [None]
    if entries is None or not all(isinstance(text, str) for text in texts):
        raise TaskError(f"{parsed.where('score')}: score: expected {{label: NAME, mean_of: {{TASK: RESULT, ...}}}}")
    return GroupScore(value["label"], entries)


def _names(parsed: ParsedFile, key: str) -> tuple[str, ...]:
    value = parsed.values.get(key, [])
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TaskError(f"{parsed.where(key)}: {key}: expected a name or a list of names, found {value!r}")
    return tuple(names)
