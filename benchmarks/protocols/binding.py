"""Binds a task, or a run of it, to its protocol: checks the keys and settings that only the protocol knows."""

from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...errors import DataError, TaskError, UsageError, did_you_mean
from ...permissions import Permissions, permitted
from ...tasks.schema import FaultyTaskError, TaskConfig, faults_of, load_task
from ...tasks.yaml_files import ParsedFile
from . import names_where, protocols
from .contract import Protocol

_NOT_FOR_ALL = ("generation_kwargs", "image_folder", "metric_list", "statistics", "video_folder", "video_frames")
"""Keys other than ``doc_to_*`` that only some protocols read."""


_bound: dict[tuple[Path, Permissions], tuple[TaskConfig, ParsedFile, Protocol[Any]]] = {}
"""Bound tasks by path and permissions; the values are immutable."""


def load_bound(path: Path) -> tuple[TaskConfig, ParsedFile, Protocol[Any]]:
    """Read a task file and bind its protocol; a file is read again only after a change.

    Raises:
        TaskError: All faults of the file, including those that only its protocol knows.
    """
    key = path, permitted()
    if (known := _bound.get(key)) and known[1].is_current and protocols[known[0].output_type] is type(known[2]):
        return known
    try:
        task, parsed = load_task(path)
    except FaultyTaskError as error:
        try:
            bind(error.task, error.parsed, error.faulty)
        except TaskError as of_protocol:
            raise TaskError(f"{error.message}\n{of_protocol.message}", of_protocol.hint) from error
        raise
    _bound[key] = task, parsed, bind(task, parsed)
    return _bound[key]


def bind(task: TaskConfig, parsed: ParsedFile, faulty: Set[str] = frozenset()) -> Protocol[Any]:
    """Return the protocol of a task, with the settings of its section ``protocol``.

    Args:
        task: The task.
        parsed: Its file, for the location of faults.
        faulty: Keys that the task lacks because their values in the file are faulty.

    Raises:
        TaskError: The protocol is unknown; or all faults: unread, missing and unknown keys and settings.
    """
    try:
        chosen = protocols[task.output_type]
    except UsageError as error:
        raise TaskError(f"{parsed.where('output_type')}: {error.message}", error.hint) from error
    reads, fields, faults = chosen.reads, chosen.Settings.model_fields, list[str]()
    # Empty values count as missing.
    own = [key for key, value in task.templates.items() if value]
    own += [key for key in _NOT_FOR_ALL if getattr(task, key)]
    for key in (key for key in own if key not in reads):
        if readers := names_where(lambda protocol, key=key: key in protocol.reads):
            faults.append(f"{parsed.where(key)}: {key}: {_not_read(task, readers)}")
        else:
            faults.append(f"{parsed.where(key)}: unknown key '{key}'.{did_you_mean(key, reads)}")
    for key in (key for key in own if key in reads and key.startswith("doc_to_")):
        several, listed = task.templates[key], None
        if isinstance(several, list) and key not in chosen.lists:
            listed = [*map(str, several)]
        elif isinstance(several, dict) and key not in chosen.mappings:
            listed = {name: str(value) for name, value in several.items()}
        if listed is not None:
            faults.append(f"{parsed.where(key)}: {key}: expected a column, a template or a !function, found {listed}")
    choices = dict(task.protocol)
    for key in (key for key in task.protocol if key not in fields):
        if readers := names_where(lambda protocol, key=key: key in protocol.Settings.model_fields):
            faults.append(f"{parsed.where('protocol', key)}: protocol.{key}: {_not_read(task, readers)}")
            del choices[key]
    present = {*own, *faulty}
    protocol = None
    try:
        protocol = chosen(chosen.Settings.model_validate(choices))
    except ValidationError as error:
        faults += faults_of(error, parsed, chosen.Settings, "protocol")
    if protocol and not faults and (idle := protocol.unread(present)):
        faults = [
            f"{parsed.where(key)}: {key}: has no effect with the task's other keys" for key in reads if key in idle
        ]
    # The needed keys may depend on a setting.
    needed = chosen.needs if protocol is None or "protocol" in faulty else protocol.needed(present)
    faults += _missing(task, parsed, chosen, present, needed)
    if faults or protocol is None:
        raise TaskError("\n".join(faults))
    return protocol


def bind_recorded(task: str, name: str, choices: Mapping[str, Any]) -> Protocol[Any]:
    """Return the protocol of a finished run.

    Args:
        task: Name of the task, for messages.
        name: Name of the protocol.
        choices: The settings of the run.

    Raises:
        DataError: The protocol is not installed, or does not know a setting.
    """
    if name not in protocols:
        raise DataError(f"task '{task}': protocol '{name}' is not installed", "Install the package that provides it.")
    try:
        protocol = protocols[name]
        return protocol(protocol.Settings.model_validate(choices))
    except UsageError as error:
        raise DataError(f"task '{task}': {error.message}", error.hint) from error
    except ValidationError as error:
        fault = error.errors()[0]
        choice = ".".join(map(str, fault["loc"]))
        raise DataError(
            f"task '{task}': protocol '{name}' has no setting {choice} = {fault['input']!r:.80}",
            "The run may be from a later version: update the package of the protocol.",
        ) from error


def _missing(
    task: TaskConfig, parsed: ParsedFile, chosen: type[Protocol[Any]], present: Set[str], needed: Set[str]
) -> Iterator[str]:
    """Yield a fault for missing keys, and for keys that exclude each other."""
    rivals = [key for key in chosen.needs_one if key in present]
    lacking = {key: key for key in needed - present}
    if chosen.needs_one and not rivals:
        lacking[chosen.needs_one[0]] = " or ".join(chosen.needs_one)
    if lacking:
        named = ", ".join(lacking[key] for key in chosen.reads if key in lacking)
        yield f"{parsed.where()}: output_type '{task.output_type}' needs {named}"
    if len(rivals) > 1:
        yield f"{parsed.where(rivals[-1])}: {rivals[-1]}: means the same as {rivals[0]}; give one of them"


def _not_read(task: TaskConfig, readers: list[str]) -> str:
    return f"protocol '{task.output_type}' does not read it, but {', '.join(readers)}"
