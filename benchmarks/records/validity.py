"""Holds a record against ``run.schema.json``: whatever a reader of records depends on is said there."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple, cast

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
    if deep := _depth_fault(record):
        return deep
    if fault := _check_of_records()(record):
        place = reduce(_below, fault.place, "")
        return f"{place or 'the record'} {fault.words}"
    return _task_fault(record)


class _Fault(NamedTuple):
    """What is wrong, and where."""

    place: tuple[object, ...]
    words: str

    def inside(self, key: object) -> _Fault:
        """Return the fault as it is seen one level higher."""
        return _Fault((key, *self.place), self.words)


Check = Callable[[Any], _Fault | None]
"""Returns the first fault of a JSON value."""


@cache
def _schema() -> dict[str, Any]:
    return json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))


@cache
def _check_of_records() -> Check:
    return _check(_schema())


@cache
def _definition(reference: str) -> Check:
    found = _schema()
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return _check(found)


def _below(place: str, key: object) -> str:
    return f"{place}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _depth_fault(record: Any) -> str:
    level = [record]
    for _ in range(_DEEPEST):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
        ]
    return f"the record is nested deeper than {_DEEPEST} levels" if level else ""


def _check(schema: Mapping[str, Any]) -> Check:
    """Return a check by the :data:`KEYWORDS` of JSON Schema: records are many, so it is put together once."""
    if reference := schema.get("$ref"):
        return lambda value: _definition(reference)(value)
    wanted = schema.get("type", [])
    names = [wanted] if isinstance(wanted, str) else wanted
    types = {one for name in names for one in _TYPES[name]}
    no_type = _Fault((), f"is no {' or '.join(names)}")
    for_all = _for_all(schema)
    numbers, texts = _for_numbers(schema), _for_texts(schema)
    by_type: dict[type, list[Check]] = {
        int: [*for_all, *numbers],
        float: [*for_all, *numbers],
        str: [*for_all, *texts],
        list: [*for_all, _for_lists(schema)],
        dict: [*for_all, _for_objects(schema)],
    }

    def check(value: Any) -> _Fault | None:
        kind = cast("type[Any]", type(value))
        # A number of 400 digits is none that can be computed with, nor is one that overflows where it is scaled.
        if types and (kind not in types or (kind in (int, float) and not -1e100 < value < 1e100)):
            return no_type
        for one in by_type.get(kind, for_all):
            if fault := one(value):
                return fault
        return None

    return check


def _unless(is_right: Callable[[Any], bool], words: str) -> Check:
    fault = _Fault((), words)
    return lambda value: None if is_right(value) else fault


def _for_all(schema: Mapping[str, Any]) -> list[Check]:
    found: list[Check] = []
    if "const" in schema:
        const = schema["const"]
        # In Python True is 1, in JSON it is not.
        is_bool = isinstance(const, bool)
        found.append(
            _unless(lambda value: value == const and isinstance(value, bool) == is_bool, f"is not {const!r}")
        )
    if "enum" in schema:
        enum = schema["enum"]
        found.append(_unless(lambda value: value in enum, f"is none of {', '.join(enum)}"))
    if "anyOf" in schema:
        choices = [_check(one) for one in schema["anyOf"]]
        found.append(
            _unless(
                lambda value: any(one(value) is None for one in choices),
                "has a value that is not allowed there",
            )
        )
    return found


def _for_numbers(schema: Mapping[str, Any]) -> list[Check]:
    def bound(name: str, is_beyond: Callable[[float, float], bool], words: str) -> Check:
        end = schema[name]
        return _unless(lambda value: not is_beyond(value, end), f"is {words} {end}")

    return [bound(*one) for one in _BOUNDS if one[0] in schema]


def _for_texts(schema: Mapping[str, Any]) -> list[Check]:
    least, pattern = schema.get("minLength", 0), re.compile(schema.get("pattern", ""))
    if not least and not pattern.pattern:
        return []
    return [
        _unless(
            lambda value: len(value) >= least and pattern.search(value) is not None,
            "is not written as it must be",
        )
    ]


def _for_lists(schema: Mapping[str, Any]) -> Check:
    least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
    items = _check(schema["items"]) if "items" in schema else None

    def check(value: list[Any]) -> _Fault | None:
        if not least <= len(value) <= most:
            return _Fault((), f"has {len(value)} elements")
        for number, one in enumerate(value) if items else ():
            if items and (fault := items(one)):
                return fault.inside(number)
        return None

    return check


def _for_objects(schema: Mapping[str, Any]) -> Check:
    required = schema.get("required", ())
    least, most = schema.get("minProperties", 0), schema.get("maxProperties", math.inf)
    names = _check(schema["propertyNames"]) if "propertyNames" in schema else None
    patterns = [
        (re.compile(pattern), _check(inner)) for pattern, inner in schema.get("patternProperties", {}).items()
    ]
    known = {key: _check(inner) for key, inner in schema.get("properties", {}).items()}
    other = schema.get("additionalProperties")
    others = _check(cast("dict[str, Any]", other)) if isinstance(other, dict) else None

    def check(value: dict[str, Any]) -> _Fault | None:
        for key in required:
            if key not in value:
                return _Fault((), f"has no '{key}'")
        if not least <= len(value) <= most:
            return _Fault((), f"has {len(value)} keys")
        for key, one in value.items():
            if names and names(key):
                return _Fault((), f"may not have '{key}'")
            checks = [inner for pattern, inner in patterns if pattern.search(key)]
            if key in known:
                checks.append(known[key])
            elif others and not checks:
                checks.append(others)
            for inner in checks:
                if fault := inner(one):
                    return fault.inside(key)
        return None

    return check


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
