"""Holds a record against ``run.schema.json``: whatever a reader of records depends on is said there."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

SCHEMA_VERSION = 1
SCHEMA_PATH = Path(__file__).parent / "run.schema.json"
KEYWORDS = frozenset(
    {"$ref", "type", "const", "enum", "anyOf", "minLength", "pattern", "items", "minItems", "maxItems"}
    | {"required", "properties", "patternProperties", "propertyNames", "additionalProperties"}
    | {"minProperties", "maxProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)  # fmt: skip
"""What of JSON Schema is understood here. The library of that name takes six times as long, and records are many."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
_BOUNDS: tuple[tuple[str, Callable[[float, float], bool], str], ...] = (
    ("minimum", operator.lt, "below"),
    ("maximum", operator.gt, "above"),
    ("exclusiveMinimum", operator.le, "not above"),
    ("exclusiveMaximum", operator.ge, "not below"),
)
_DEEPEST = 50
"""Levels of objects and arrays; what a model or a metric says of itself has a handful."""


def first_fault(record: Any) -> str:
    """Return the first thing in a record that its schema does not allow; empty if all is well.

    A fault begins with the place, as JSON pointer (RFC 6901). Keys that the schema does not know are no fault: a
    later capbench may write more. What follows from several keys together is looked at, too: each result has its
    value, and the task is the same throughout.
    """
    return _depth_fault(record) or next(_faults(record, _schema(), ""), "") or _task_fault(record)


@cache
def _schema() -> dict[str, Any]:
    return json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))


@cache
def _definition(reference: str) -> dict[str, Any]:
    found = _schema()
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def _below(place: str, key: object) -> str:
    return f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _named(place: str) -> str:
    return place or "the record"


def _depth_fault(record: Any) -> str:
    level = [record]
    for _ in range(_DEEPEST):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
        ]
    return f"the record is nested deeper than {_DEEPEST} levels" if level else ""


def _faults(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield faults, by the :data:`KEYWORDS` of JSON Schema."""
    if reference := schema.get("$ref"):
        schema = _definition(reference)
    wanted = schema.get("type", [])
    types = [wanted] if isinstance(wanted, str) else wanted
    if types and not any(_is(value, one) for one in types):
        yield f"{_named(place)} is no {' or '.join(types)}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{_named(place)} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{_named(place)} is none of {', '.join(schema['enum'])}"
    if "anyOf" in schema and all(any(_faults(value, one, place)) for one in schema["anyOf"]):
        yield f"{_named(place)} has a value that is not allowed there"
    if isinstance(value, int | float):
        for name, is_beyond, words in _BOUNDS:
            if name in schema and is_beyond(value, schema[name]):
                yield f"{_named(place)} is {words} {schema[name]}"
    if isinstance(value, str) and not (
        len(value) >= schema.get("minLength", 0) and re.search(schema.get("pattern", ""), value)
    ):
        yield f"{_named(place)} is not written as it must be"
    if isinstance(value, list):
        elements = cast("list[Any]", value)
        if not schema.get("minItems", 0) <= len(elements) <= schema.get("maxItems", len(elements)):
            yield f"{_named(place)} has {len(elements)} elements"
        if "items" in schema:
            for number, one in enumerate(elements):
                yield from _faults(one, schema["items"], _below(place, number))
    if isinstance(value, dict):
        yield from _faults_of_object(cast("dict[str, Any]", value), schema, place)


def _faults_of_object(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> Iterator[str]:
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{_named(place)} has no '{key}'"
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        yield f"{_named(place)} has {len(value)} keys"
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, one in value.items():
        if "propertyNames" in schema and any(_faults(key, schema["propertyNames"], "")):
            yield f"{_named(place)} may not have '{key}'"
        matching = [
            inner for pattern, inner in schema.get("patternProperties", {}).items() if re.search(pattern, key)
        ]
        if key in known:
            matching.append(known[key])
        elif not matching and isinstance(others, dict):
            matching.append(others)
        for inner in matching:
            yield from _faults(one, inner, _below(place, key))


def _is(value: Any, name: str) -> bool:
    if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "boolean"):
        return False
    # A number of 400 digits is none that can be computed with, nor is one that overflows where it is scaled.
    return name not in ("integer", "number") or -1e100 < value < 1e100


def _task_fault(record: Mapping[str, Any]) -> str:
    task = record["task"]
    for key in ("results", "configs", "versions", "higher_is_better", "n-samples"):
        if task not in record[key]:
            return f"/{key} has no '{task}'"
    values = record["results"][task]
    for key, of_result in record["intervals"].items():
        if f"{key},none" not in values:
            return f"{_below('/results', task)} has no value of '{key}'"
        metric, statistic = of_result["metric"], of_result["statistic"]
        if key != metric and key != (named := f"{metric}.{statistic}") and not key.startswith(f"{named}."):
            return f"{_below('/intervals', key)} is of metric '{metric}' and statistic '{statistic}'"
    return ""
