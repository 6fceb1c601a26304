"""Text as every page of capbench has it."""

from __future__ import annotations

import re
from html import escape

_BIDI_CONTROLS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")


def html_text(value: object) -> str:
    """Return a value as text that is safe between tags and in quoted attributes.

    Controls that turn the direction of a text around, so that it reads otherwise than it is written, are shown by
    their numbers: ``[U+202E]``.
    """
    return escape(_BIDI_CONTROLS.sub(lambda found: f"[U+{ord(found[0]):04X}]", str(value)))
