"""Reads the elements of large JSON arrays one by one, in memory for a few of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..rows import refuse_constant, unique_keys

_CHUNK = 1 << 20
_LONGEST = 1 << 26
"""Characters of one element beyond which the file is taken for damaged."""


def elements(path: Path) -> Iterator[Any]:
    """Yield the elements of a file that holds one JSON array.

    Args:
        path: The file. ``[`` is its first character, spaces aside.

    Raises:
        DataError: Missing, not UTF-8, or not a JSON array; elements before the fault are yielded.
    """
    yield from _read(path, "array", _Reader.elements)


def members(path: Path, hint: str = "") -> Iterator[tuple[str, int, Any]]:
    """Yield the elements of the arrays that a file's one JSON object holds: ``{"images": [...], ...}``.

    Args:
        path: The file. ``{`` is its first character, spaces aside.
        hint: What to do if it is missing.

    Yields:
        The key of an array, the number of an element and the element; in the file's order. Values that are no array are
        passed over.

    Raises:
        DataError: Missing, not UTF-8, or not a JSON object; elements before the fault are yielded.
    """
    yield from _read(path, "object", _Reader.members, hint)


def _read(path: Path, kind: str, elements: Callable[[_Reader], Iterator[Any]], hint: str = "") -> Iterator[Any]:
    try:
        with path.open(encoding="utf-8-sig") as text:
            yield from elements(_Reader(path, kind, text.read))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", hint) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8: {error}", "Is the file complete?") from error


class _Reader:
    """Parses a file in chunks.

    Args:
        path: The file's name, for messages.
        kind: What the file should hold, for messages.
        read: Returns the next characters, at most the number given; fewer at the end.
    """

    def __init__(self, path: Path, kind: str, read: Callable[[int], str]) -> None:
        self._path = path
        self._kind = kind
        self._read = read
        self._text = ""
        self._at = 0
        self._used = 0
        self._decode = json.JSONDecoder(parse_constant=refuse_constant, object_pairs_hook=unique_keys).raw_decode

    def elements(self) -> Iterator[Any]:
        for _ in self._entries("[", "]"):
            yield self._element()

    def members(self) -> Iterator[tuple[str, int, Any]]:
        for _ in self._entries("{", "}"):
            key = self._element()
            if not isinstance(key, str):
                raise self._fault(f"expected a key, found {key!r:.40}")
            if self._next() != ":":
                raise self._fault(f"expected ':' after the key '{key:.40}'")
            self._at += 1
            if self._next() == "[":
                for number, element in enumerate(self.elements()):
                    yield key, number, element
            else:
                self._element()

    def _entries(self, begin: str, end: str) -> Iterator[None]:
        """Yield at the start of each entry of an array or object; the caller reads the entry."""
        if self._next() != begin:
            raise self._fault(f"it does not begin with '{begin}'")
        self._at += 1
        mark = self._next()
        while mark != end:
            yield
            mark = self._next()
            if mark not in (",", end):
                raise self._fault(f"expected ',' or '{end}', found {mark!r}" if mark else "it ends early")
            if mark == ",":
                self._at += 1
                self._next()
        self._at += 1

    def _next(self) -> str:
        """Return the next character that is no space, and stand there; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(_CHUNK):
                return ""

    def _element(self) -> Any:
        size = _CHUNK
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except RecursionError as error:
                raise self._fault("it is nested too deep") from error
            except json.JSONDecodeError as error:
                # Either a fault, or the element goes on in what is not yet read.
                if not self._more(size):
                    raise self._fault(str(error).partition(":")[0]) from error
            except ValueError as error:
                raise self._fault(str(error)) from error
            else:
                # Of a number that goes on in what is not yet read, the beginning is one too.
                if self._text[end : end + 1] in tuple(",]}: \t\r\n") or not self._more(size):
                    self._at = end
                    return value
            size *= 2

    def _more(self, size: int) -> bool:
        """Read on, and drop what is used; False at the end of the file."""
        new = self._read(size) if len(self._text) - self._at <= _LONGEST else ""
        if not new:
            return False
        self._used += self._at
        self._text, self._at = self._text[self._at :] + new, 0
        return True

    def _fault(self, reason: str) -> DataError:
        return DataError(
            f"{self._path}: not a JSON {self._kind}: {reason}, at character {self._used + self._at:,}",
            "Is the file complete?",
        )
