"""Faults of values in a YAML file, each with its file and line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ..errors import did_you_mean
from .yaml_files import ParsedFile

GATHERED_TEMPLATES = "doc_to_*"
"""Where the model of a task keeps all keys that begin so; it is no key of a file."""


def faults_of(error: ValidationError, parsed: ParsedFile, model: type[BaseModel], *section: str) -> list[str]:
    """Return each fault once, with its place and, for an unknown key, the nearest known one.

    Args:
        error: What ``model`` found.
        parsed: The file that was validated.
        model: The model.
        section: The keys that lead to what was validated; none for the whole file.
    """
    return list(dict.fromkeys(_explain(fault, parsed, model, section) for fault in error.errors()))


def _explain(fault: Any, parsed: ParsedFile, model: type[BaseModel], section: Sequence[str]) -> str:
    inner = [str(part) for part in fault["loc"] if part != GATHERED_TEMPLATES]
    keys = [*section, *inner]
    place = parsed.where(*keys)
    if fault["type"] == "extra_forbidden":
        known = _nested(model, inner[:-1]).model_fields.items()
        nearest = did_you_mean(keys[-1], [field.alias or name for name, field in known])
        return f"{place}: unknown key '{keys[-1]}'.{nearest}"
    if fault["type"] == "missing":
        field = _nested(model, inner[:-1]).model_fields.get(inner[-1])
        said = " or ".join(f"'{inner[-1]}: {one}'" for one in (field and field.examples) or ())
        return f"{place}: key '{'.'.join(keys)}' is missing{f'; say {said}' if said else ''}"
    name = ".".join(keys)
    message = fault["msg"].removeprefix("Value error, ")
    return f"{place}: {name + ': ' if name else ''}{message}"


def _nested(model: type[BaseModel], keys: Sequence[str]) -> type[BaseModel]:
    """Return the model of the section that nested keys lead to (``["published"]``)."""
    left = iter(keys)
    for key in left:
        annotation = model.model_fields[key].annotation
        if get_origin(annotation) in (dict, list):
            next(left, None)  # a name of the writer's own, or a number
        members = (annotation, *get_args(annotation))  # of "PublishedTable | None", the former
        model = next(m for m in members if isinstance(m, type) and issubclass(m, BaseModel))
    return model
