"""Holds a record against ``run.schema.json``, as far as a reader of records depends on it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

SCHEMA_VERSION = 1
SCHEMA_PATH = Path(__file__).parent / "run.schema.json"

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}


_END_OF_DATES = 253_402_300_800
"""The year 10000, in seconds since 1970."""


def first_fault(record: Any) -> str:
    """Return the first thing in a record that its schema does not allow, with its place; empty if all is well.

    Keys that the schema does not know are no fault: a later capbench may write more. What follows from
    several keys together is looked at, too: each result has its value, and the task is the same throughout.
    """
    return next(_faults(record, _schema(), "run.json"), "") or _inner_fault(record)


@cache
def _schema() -> dict[str, Any]:
    return json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))


def _faults(value: Any, schema: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield faults, by the part of JSON Schema that the record's schema uses."""
    if reference := schema.get("$ref"):
        schema = _schema()
        for step in reference.removeprefix("#/").split("/"):
            schema = schema[step]
    wanted = schema.get("type", [])
    types = [wanted] if isinstance(wanted, str) else wanted
    if types and not any(_is(value, one) for one in types):
        yield f"{place} is no {' or '.join(types)}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{place} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} is none of {', '.join(schema['enum'])}"
    if "anyOf" in schema and all(any(_faults(value, one, place)) for one in schema["anyOf"]):
        yield f"{place} has a value that is not allowed there"
    if isinstance(value, int | float) and value < schema.get("minimum", -math.inf):
        yield f"{place} is below {schema['minimum']}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{place} is not written as it must be"
    if isinstance(value, list):
        elements = cast("list[Any]", value)
        if not schema.get("minItems", 0) <= len(elements) <= schema.get("maxItems", math.inf):
            yield f"{place} has {len(elements)} elements"
        if "items" in schema:
            for number, one in enumerate(elements):
                yield from _faults(one, schema["items"], f"{place}[{number}]")
    if isinstance(value, dict):
        yield from _faults_of_object(cast("dict[str, Any]", value), schema, place)


def _faults_of_object(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> Iterator[str]:
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{place} has no '{key}'"
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for key, one in value.items():
        if any(_faults(key, schema.get("propertyNames", {}), "")):
            yield f"{place} may not have '{key}'"
        matching = [
            inner for pattern, inner in schema.get("patternProperties", {}).items() if re.search(pattern, key)
        ]
        if key in known:
            matching.append(known[key])
        elif not matching and isinstance(others, dict):
            matching.append(others)
        for inner in matching:
            yield from _faults(one, inner, f"{place}.{key}")


def _is(value: Any, name: str) -> bool:
    if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "boolean"):
        return False
    # An integer of 400 digits is no number that can be computed with.
    return name not in ("integer", "number") or -1e300 < value < 1e300


def _inner_fault(record: Mapping[str, Any]) -> str:
    task = record["task"]
    if not re.fullmatch(r"\w[\w.-]*", task):
        return "run.json.task is no name of a task"
    for key in ("results", "configs", "versions", "higher_is_better", "n-samples"):
        if task not in record[key]:
            return f"run.json.{key} has no '{task}'"
    if not 0 <= record["date"] < _END_OF_DATES:
        return "run.json.date is no time"
    values = record["results"][task]
    for key in record["intervals"]:
        if f"{key},none" not in values:
            return f"run.json.results has no value of '{key}'"
    return _config_fault(record["configs"][task]) or _settings_fault(record)


def _config_fault(config: Mapping[str, Any]) -> str:
    place = "run.json.configs"
    scale = config.get("scale", 1.0)
    if not _is(scale, "number") or scale <= 0:
        return f"{place}.scale is no number above 0"
    for key in ("output_type", "description"):
        if not isinstance(config.get(key, ""), str):
            return f"{place}.{key} is no string"
    if not isinstance(config.get("published") or {}, dict):
        return f"{place}.published is no object"
    listed = config.get("metric_list", [])
    if not isinstance(listed, list) or not all(map(_is_metric, cast("list[Any]", listed))):
        return f"{place}.metric_list is no list of metrics"
    return ""


def _is_metric(entry: Any) -> bool:
    if isinstance(entry, dict):
        keys = cast("dict[str, Any]", entry)
        return isinstance(keys.get("metric"), str) and isinstance(keys.get("name") or "", str)
    return isinstance(entry, str)


def _settings_fault(record: Mapping[str, Any]) -> str:
    config, parts = record["config"], record["fingerprint_parts"]
    if config.get("limit") is not None and not _is(config["limit"], "integer"):
        return "run.json.config.limit is no integer"
    if not _is(config.get("level", 0.95), "number"):
        return "run.json.config.level is no number"
    for key in ("encoder", "judge"):
        if not isinstance(config.get(key) or "", str):
            return f"run.json.config.{key} is no string"
    for key in ("task", "metrics"):
        if not isinstance(parts[key], dict):
            return f"run.json.fingerprint_parts.{key} is no object"
    if not all(isinstance(made, dict) for made in parts["metrics"].values()):
        return "run.json.fingerprint_parts.metrics does not say how each was made"
    return ""
