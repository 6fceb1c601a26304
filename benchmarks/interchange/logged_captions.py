"""What other harnesses write of captions, one form for all: a row, and the aggregates beside it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import Any

LONGEST_NAME = 1000
"""Longer texts in an image column are encoded pixels, not names."""


@dataclass(frozen=True)
class LoggedRow:
    """A caption as another harness wrote it down.

    Attributes:
        place: ``file:line`` or the like.
        caption: The caption.
        fields: What tells which document it is of: field to value.
        references: The references, where the file has them.
        metrics: The harness's own values of this caption.
        remark: What was chosen among several, in words; empty as a rule.
    """

    place: str
    caption: str
    fields: Mapping[str, Any]
    references: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    remark: str = ""


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the texts of a list, of one text, or of a Python list printed as text; empty if there are none.

    Harnesses print lists of references with ``str``; only literals are read back, nothing is evaluated.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            listed = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            listed = value
        value = listed if isinstance(listed, list) else value
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        return ()
    return tuple(text for text in value if text.strip())


def name_of(value: Any) -> str | int | None:
    """Return a value as the name of a document, or None if it is none: too long, a fraction, a list.

    An absolute path, which says nothing on another machine, gives the name of its file.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        name = PureWindowsPath(value).name if re.match(r"/|[A-Za-z]:\\", value) else value
        return name if name.strip() and len(value) <= LONGEST_NAME else None
    return value if isinstance(value, int) else None


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number that float64 holds, true and false among them."""
    try:
        return isinstance(value, bool | int | float) and math.isfinite(value)
    except OverflowError:
        return False
