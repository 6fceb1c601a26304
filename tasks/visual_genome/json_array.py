"""Reads the elements of a large JSON array one by one, in memory for a few of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError

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
    try:
        with path.open(encoding="utf-8-sig") as text:
            yield from _Reader(path, text.read).elements()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8: {error}", "Is the file complete?") from error


class _Reader:
    """What is read of the file and not yet used.

    Args:
        path: The file's name, for messages.
        read: Returns the next so many characters; fewer at the end.
    """

    def __init__(self, path: Path, read: Callable[[int], str]) -> None:
        self._path = path
        self._read = read
        self._text = ""
        self._at = 0
        self._used = 0
        self._decode = json.JSONDecoder(parse_constant=_refuse).raw_decode

    def elements(self) -> Iterator[Any]:
        if self._next() != "[":
            raise self._fault("it does not begin with '['")
        self._at += 1
        if self._next() == "]":
            return
        while True:
            yield self._element()
            mark = self._next()
            if mark not in (",", "]"):
                raise self._fault(f"expected ',' or ']', found {mark!r}" if mark else "it ends early")
            self._at += 1
            if mark == "]":
                return
            self._next()

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
            except ValueError as error:
                # Either a fault, or the element goes on in what is not yet read.
                if not self._more(size):
                    raise self._fault(str(error).partition(":")[0]) from error
            else:
                # Of a number that goes on in what is not yet read, the beginning is one too.
                if self._text[end : end + 1] in tuple(",] \t\r\n") or not self._more(size):
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
            f"{self._path}: not a JSON array: {reason}, at character {self._used + self._at:,}",
            "Is the file complete?",
        )


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
