"""Reads settings of a model, a metric or decoding from a command line: ``key=value,key=value``, or JSON."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import yaml

from ..errors import UsageError
from ..rows import parse_json

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^']|'')*'")
_CLOSES = {"[": "]", "{": "}"}
_HINT = 'A text with a comma stands in quotes: key="one, two". All can be JSON, too: \'{"key": "one, two"}\'.'

RANDOM = "random"
"""What ``pretrained`` names where weights are not trained but drawn."""


def random_name(name: str, seed: int) -> str:
    """Return what results call a model of random weights: by no name alone, which could be that of a trained one."""
    return f"{name} (random weights, seed {seed})"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """To YAML '2026-01-31' is a date; here it is text."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_scalar)


def parse_arguments(text: str, option: str) -> dict[str, Any]:
    """Parse ``key=value,key=value``, or a JSON object.

    A value is a number, ``true``, ``false``, ``null``, a list (``[a, b]``), a mapping (``{"a": 1}``) or text; what
    stands in quotes is text, and may hold commas.

    Args:
        text: The user's input.
        option: What messages call it.

    Raises:
        UsageError: It is not of that form, or a key is given twice.
    """
    if text.lstrip().startswith("{"):
        try:
            return parse_json(text)
        except ValueError as error:
            raise UsageError(f"{option} {text}: not JSON: {error}") from error
    arguments: dict[str, Any] = {}
    for part in filter(None, map(str.strip, _parts(text))):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not (key and equals):
            raise UsageError(f"{option} {text}: expected key=value, found '{part}'", _HINT)
        if key in arguments:
            raise UsageError(f"{option} {text}: '{key}' is given twice")
        arguments[key] = _read_value(value.strip())
    return arguments


def _parts(text: str) -> Iterator[str]:
    """Yield what commas divide, but for those in quotes or brackets with which a value begins."""
    start = 0
    while start <= len(text):
        end = text.find(",", start)
        equals = text.find("=", start, end if end >= 0 else len(text))
        if equals >= 0:
            end = text.find(",", _closed(text, equals + 1))
        end = end if end >= 0 else len(text)
        yield text[start:end]
        start = end + 1


def _closed(text: str, at: int) -> int:
    """Return where the quotes or brackets that a value begins with are closed; its beginning if they are not."""
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    if quoted := _QUOTED.match(text, begin):
        return quoted.end()
    if closing := _CLOSES.get(text[begin : begin + 1]):
        for end in range(begin, len(text)):
            if text[end] == closing:
                with contextlib.suppress(yaml.YAMLError, ValueError, RecursionError):
                    yaml.load(text[begin : end + 1], _Loader)  # noqa: S506 - a safe loader
                    return end + 1
    return begin


def _read_value(text: str) -> Any:
    if text[:1] in tuple('"[{'):
        with contextlib.suppress(ValueError):
            return parse_json(text)
    try:
        value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
    if isinstance(value, bool) or text in ("null", "~"):
        return value
    if isinstance(value, int | float):
        # To YAML '1_000' is a number, and '16:9' one to the base of 60.
        return text if {"_", ":"} & set(text) else value
    if isinstance(value, dict) and None in value.values():
        # '{prompt}' is a text with a field.
        return text
    # To YAML 'a: b' is a mapping and ' #' begins a comment; here they are text.
    return value if text[:1] in tuple("'\"[{") else text
