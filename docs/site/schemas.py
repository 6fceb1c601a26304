"""Reference of all keys of YAML files, from the classes that read them."""

import json
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from docstrings import in_a_cell, items, plain, prose, sections
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from capbench.benchmarks.records.schema import attribute_docstrings
from capbench.tasks.yaml_files import FunctionReference

_SIGNS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "length at least"}
_NAMES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    FunctionReference: "`!function file.name`",
    Any: "anything",
    dict: "mapping",
}


def page_of(model: type[BaseModel], heading: str, seen: set[type[BaseModel]], level: int = 2) -> str:
    """Return the keys of a class under a heading, followed by those of nested classes.

    Args:
        model: The class.
        heading: Its heading; empty for the class's name.
        seen: Classes that are already on the page; updated with this class and nested ones.
        level: Level of the heading.
    """
    seen.add(model)
    lines = [f"{'#' * level} {heading or model.__name__} {{ #{anchor(model)} }}", "", prose(model), ""]
    fields = {name: field for name, field in model.model_fields.items() if not field.alias}
    if fields:
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        lines += [_row(model, name, field) for name, field in fields.items()]
    else:
        lines.append("No keys.")
    if model.model_config.get("extra") == "allow":
        lines += ["", "Additional keys are arguments of the named object."]
    text = "\n".join(lines) + "\n\n"
    for field in fields.values():
        for inner in _models_in(field.annotation):
            if inner not in seen:
                text += page_of(inner, "", seen, level + 1)
    return text


def anchor(model: type) -> str:
    """Return the anchor of a class, with its module, as many protocols have a class ``Settings``."""
    return f"{model.__module__.rpartition('.')[2]}-{model.__qualname__}".lower().replace("_", "-").replace(".", "-")


def _row(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    return f"| `{name}` | {_holds(field)} | {_default(field)} | {in_a_cell(_meaning(model, name))} |"


def _holds(field: FieldInfo) -> str:
    bounds = [
        f"{words} {getattr(bound, key):g}"
        for bound in field.metadata
        for key, words in _SIGNS.items()
        if getattr(bound, key, None) is not None
    ]
    return ", ".join([_type(field.annotation), *bounds])


def _type(annotation: Any) -> str:
    """Return the name of a type for authors of YAML files."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type(argument) for argument in arguments if argument is not NoneType))
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is tuple:
        inner = [_type(argument) for argument in arguments if argument is not Ellipsis]
        return f"list of {inner[0]}" if Ellipsis in arguments else f"list: {', '.join(inner)}"
    if origin is not None and issubclass(origin, Mapping):
        return f"mapping of names to {_type(arguments[1])}"
    if hasattr(annotation, "__metadata__"):
        return _type(annotation.__origin__)
    if hasattr(annotation, "__value__"):
        return _type(annotation.__value__)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{anchor(annotation)})"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    inner = [annotation.__origin__] if hasattr(annotation, "__metadata__") else get_args(annotation)
    for part in inner:
        yield from _models_in(part)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ("", [], {}) or isinstance(value, BaseModel):
        return ""
    return f"`{json.dumps(value, ensure_ascii=False, default=str)}`"


def _meaning(model: type[BaseModel], name: str) -> str:
    """Return the docstring of a key from its class or a base class.

    Raises:
        LookupError: There is no docstring.
    """
    for base in model.__mro__:
        if base in (BaseModel, object) or not issubclass(base, BaseModel):
            continue
        if text := attribute_docstrings(base).get(name) or items(sections(base).get("Attributes", "")).get(name):
            return text + _choices(model, name)
    raise LookupError(f"{model.__module__}.{model.__qualname__}: the key '{name}' has no docstring")


def _choices(model: type[BaseModel], name: str) -> str:
    """Return the meanings of the choices of a protocol's setting."""
    known = getattr(model, "meanings", {}).get(name, "")
    if isinstance(known, str):
        return f" ({known})" if known else ""
    return "".join(f" `{choice}`: {text}." for choice, text in known.items())


def template_keys() -> str:
    """Return the keys ``doc_to_*`` with the protocols that read them."""
    from capbench.benchmarks.protocols import protocols

    readers: dict[str, list[str]] = {}
    for name in protocols:
        for key in protocols[name].reads:
            if key.startswith("doc_to_"):
                needed = key in protocols[name].needs or key in protocols[name].needs_one
                readers.setdefault(key, []).append(f"**{name}**" if needed else name)
    lines = ["| key | read by (in bold: needed, or one of several) |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{key}` | {', '.join(names)} |" for key, names in sorted(readers.items()))])


def alias_keys() -> str:
    """Return the table of keys of an alias."""
    from capbench.adapters.aliases import ModelSpec

    meanings = items(sections(ModelSpec)["Attributes"])
    rows = [f"| `{name}` | {plain(text)} |" for name, text in meanings.items() if name not in _NOT_IN_ALIASES]
    return "\n".join(["| key | meaning |", "|---|---|", *rows])


_NOT_IN_ALIASES = {"name", "arguments", "built"}
"""Fields that are not keys: the name is the parent key, arguments are all other keys, and classes come from code."""
