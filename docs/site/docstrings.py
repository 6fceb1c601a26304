"""Docstrings in Google style as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap

SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields")
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.MULTILINE)
_ITEM = re.compile(r"^(\S[^:\n]*):\s+", re.MULTILINE)
_ROLE = re.compile(r":\w+:`([^`]+)`")
_WRITTEN = {"<": "&lt;", "|": "&#124;", "*": r"\*"}
"""Signs that are something else in Markdown."""
_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)


def plain(text: str) -> str:
    """Return a text as Markdown that says what it says: outside of code nothing is a tag or a column."""
    pieces = _CODE.split(_ROLE.sub(r"`\1`", text))
    for place in range(0, len(pieces), 2):
        for sign, written in _WRITTEN.items():
            pieces[place] = pieces[place].replace(sign, written)
    return "".join(pieces)


def in_a_cell(text: str) -> str:
    """Return a text as one line of a table."""
    return " ".join(plain(text).split())


def sections(thing: object) -> dict[str, str]:
    """Return the parts of a docstring by their headings; what stands before the first has the heading ``""``."""
    first, *others = _SECTION.split(inspect.cleandoc(thing.__doc__ or ""))
    named = zip(others[::2], others[1::2], strict=True)
    return {"": first.strip(), **{name: textwrap.dedent(text).strip() for name, text in named}}


def items(section: str) -> dict[str, str]:
    """Return what a section says of each of the names in it."""
    _, *found = _ITEM.split(section)
    return {name: " ".join(text.split()) for name, text in zip(found[::2], found[1::2], strict=True)}


def prose(thing: object) -> str:
    """Return what a docstring says before its sections, as Markdown."""
    return plain(sections(thing)[""])
