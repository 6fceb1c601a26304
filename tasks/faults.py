"""Faults of values in a YAML file, each with its file and line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..errors import TaskError, did_you_mean
from .yaml_files import ParsedFile

if TYPE_CHECKING:
    from .schema import TaskConfig

GATHERED_TEMPLATES = "doc_to_*"
"""Where the model of a task keeps all keys that begin so; it is no key of a file."""


class FaultyTaskError(TaskError):
    """A task file has faults.

    Args:
        message: All of them.
        task: The task without the values that are faulty, for looking at what else is wrong.
        parsed: The file.
        faulty: The keys that have a fault, or are missing.
    """

    def __init__(self, message: str, task: TaskConfig, parsed: ParsedFile, faulty: Set[str]) -> None:
        super().__init__(message)
        self.task, self.parsed, self.faulty = task, parsed, faulty


class KeyFaultsError(ValueError):
    """What a validator of a whole model says, of several keys at once.

    Attributes:
        faults: For each its key, and what is wrong.
    """

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(why for _, why in faults))
        self.faults = faults


def faults_of(error: ValidationError, parsed: ParsedFile, model: type[BaseModel], *section: str) -> list[str]:
    """Return each fault once, with its place and, for an unknown key, the nearest known one.

    Args:
        error: What ``model`` found.
        parsed: The file that was validated.
        model: The model.
        section: The keys that lead to what was validated; none for the whole file.
    """
    told = (one for fault in error.errors() for one in _explain(fault, parsed, model, section))
    return list(dict.fromkeys(told))


def _explain(fault: Any, parsed: ParsedFile, model: type[BaseModel], section: Sequence[str]) -> Iterator[str]:
    several = fault.get("ctx", {}).get("error")
    if isinstance(several, KeyFaultsError):
        yield from (f"{parsed.where(*section, key)}: {why}" for key, why in several.faults)
        return
    inner = [str(part) for part in fault["loc"] if part != GATHERED_TEMPLATES]
    keys = [*section, *inner]
    place = parsed.where(*keys)
    if fault["type"] == "extra_forbidden":
        known = _fields(model, inner[:-1]).items()
        nearest = did_you_mean(keys[-1], [field.alias or name for name, field in known])
        yield f"{place}: unknown key '{keys[-1]}'.{nearest}"
    elif fault["type"] == "missing":
        field = _fields(model, inner[:-1]).get(inner[-1])
        said = " or ".join(f"'{inner[-1]}: {one}'" for one in (field and field.examples) or ())
        yield f"{place}: key '{'.'.join(keys)}' is missing{f'; say {said}' if said else ''}"
    else:
        name = ".".join(keys)
        message = fault["msg"].removeprefix("Value error, ")
        yield f"{place}: {name + ': ' if name else ''}{message}"


def _fields(model: type[BaseModel], keys: Sequence[str]) -> dict[str, FieldInfo]:
    """Return the fields of the section that nested keys lead to (``["published"]``); none where it is no model."""
    left = iter(keys)
    for key in left:
        if key not in model.model_fields:
            return {}
        annotation = model.model_fields[key].annotation
        if get_origin(annotation) in (dict, list):
            next(left, None)  # a name of the writer's own, or a number
        members = (annotation, *get_args(annotation))  # of "PublishedTable | None", the former
        nested = [one for one in members if isinstance(one, type) and issubclass(one, BaseModel)]
        if not nested:
            return {}
        model = nested[0]
    return model.model_fields
