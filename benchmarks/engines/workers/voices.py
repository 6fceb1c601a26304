"""What workers write to stderr: each line once, however many of them say it."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterable
from typing import TextIO


class Voices:
    """Writes to this process's stderr what was not written before."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def say(self, lines: Iterable[str]) -> None:
        """Write lines, each of which ends where it ends."""
        with self._lock:
            for line in lines:
                if line not in self._said:
                    self._said.add(line)
                    sys.stderr.write(line)


class Ear(io.TextIOBase):
    """Stands for stderr in a worker whose stderr goes to a file on its machine, and keeps what is written.

    Args:
        stream: Where it is written, too.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._heard = ""

    def write(self, text: str) -> int:
        """Write and keep a text."""
        self._heard += text
        return self._stream.write(text)

    def flush(self) -> None:
        """Flush what was written."""
        self._stream.flush()

    def heard(self) -> list[str]:
        """Return the lines that were written since this was asked last."""
        *lines, self._heard = self._heard.splitlines(keepends=True) or [""]
        if self._heard.endswith("\n"):
            lines, self._heard = [*lines, self._heard], ""
        return lines
