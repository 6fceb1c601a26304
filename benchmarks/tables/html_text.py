"""Text as every page of capbench has it."""

from __future__ import annotations

import re
from html import escape

_BIDI_CONTROLS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")


def readable(value: object) -> str:
    """Return a value as text, in which controls that turn the direction of a text around are shown by their numbers.

    So no text reads otherwise than it is written: ``[U+202E]``.
    """
    return _BIDI_CONTROLS.sub(lambda found: f"[U+{ord(found[0]):04X}]", str(value))


def html_text(value: object) -> str:
    """Return a value as text that is safe between tags and in quoted attributes, and :func:`readable`."""
    return escape(readable(value))
