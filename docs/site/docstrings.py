"""Docstrings in Google style as Markdown."""

import inspect
import re
import textwrap

SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields")
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.MULTILINE)
_ITEM = re.compile(r"^(\S[^:\n]*):\s+", re.MULTILINE)
_ROLE = re.compile(r":\w+:`([^`]+)`")
_WRITTEN = {"<": "&lt;", "|": "&#124;", "*": r"\*"}
"""Characters with a special meaning in Markdown."""
_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)


def plain(text: str) -> str:
    """Escape a text for Markdown: outside of code, no tags and no column separators."""
    pieces = _CODE.split(_ROLE.sub(r"`\1`", text))
    for place in range(0, len(pieces), 2):
        for sign, written in _WRITTEN.items():
            pieces[place] = pieces[place].replace(sign, written)
    return "".join(pieces)


def in_a_cell(text: str) -> str:
    """Return a text as one line, for a table cell."""
    return " ".join(plain(text).split())


def sections(thing: object) -> dict[str, str]:
    """Return the sections of a docstring by heading; the heading of the first part is ``""``."""
    first, *others = _SECTION.split(inspect.cleandoc(thing.__doc__ or ""))
    named = zip(others[::2], others[1::2], strict=True)
    return {"": first.strip(), **{name: textwrap.dedent(text).strip() for name, text in named}}


def items(section: str) -> dict[str, str]:
    """Return the entries of a section: name to description."""
    _, *parts = _ITEM.split(section)
    return {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def prose(thing: object) -> str:
    """Return the part of a docstring before its sections, as Markdown."""
    return plain(sections(thing)[""])
