"""Numbers of large data in files that are mapped: in memory while they are looked at, and no longer."""

from __future__ import annotations

import mmap
import tempfile
import weakref
from pathlib import Path
from typing import IO

import numpy as np

from .errors import StoreError

_FEW_BYTES = 1 << 20
"""What takes no more stays in memory."""
_MAPS: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


class GrowingNumbers:
    """Arrays that come some at a time, one after the other along their first axis.

    Where they are many they lie in a file, which goes when nobody has it mapped.
    """

    def __init__(self) -> None:
        self._waiting: list[np.ndarray] = []
        self._bytes = 0
        self._like = np.zeros(0)
        self._file: IO[bytes] | None = None
        self._whole: np.ndarray | None = None

    def append(self, numbers: np.ndarray) -> None:
        """Add ``[m, ...]`` numbers, as wide as those before; of several types, all become the one that holds them.

        Raises:
            StoreError: The disk is full.
        """
        if not self:
            self._like = numbers[:0].copy()
        elif numbers.shape[1:] != self._like.shape[1:]:
            raise ValueError(f"{numbers.shape} after {self._like.shape}")
        elif numbers.dtype != self._like.dtype:
            common = np.result_type(numbers, self._like)
            if common != self._like.dtype:
                self._waiting, self._file = [self.array().astype(common)], None
                self._like = self._like.astype(common)
            numbers = numbers.astype(common)
        self._waiting.append(numbers)
        self._bytes += numbers.nbytes
        self._whole = None
        if self._bytes > _FEW_BYTES:
            self._write()

    def __bool__(self) -> bool:
        """Tell whether there are any arrays, be they empty."""
        return bool(self._waiting) or self._file is not None

    def array(self) -> np.ndarray:
        """Return ``[n, ...]`` all of them, which cannot be written to."""
        if self._whole is None:
            if self._file is None:
                (whole,) = self._waiting = [np.concatenate([self._like, *self._waiting])]
            else:
                whole = np.frombuffer(_mapped(self._file), self._like.dtype).reshape(-1, *self._like.shape[1:])
            self._whole = whole.view()
            self._whole.flags.writeable = False
        return self._whole

    def _write(self) -> None:
        try:
            if self._file is None:
                # It has no name, and goes when nobody has it open.
                self._file = tempfile.TemporaryFile(prefix="capbench-")  # noqa: SIM115
            for numbers in self._waiting:
                self._file.write(np.ascontiguousarray(numbers).data)
            self._file.flush()
        except OSError as error:
            raise StoreError(
                f"{tempfile.gettempdir()}: cannot be written: {error.strerror}",
                "TMPDIR names another folder for what a run puts aside.",
            ) from error
        self._waiting.clear()


def mapped(numbers: np.ndarray) -> np.ndarray:
    """Return the same numbers, which cannot be written to, and are in a file where they are many."""
    growing = GrowingNumbers()
    growing.append(numbers)
    return growing.array()


def share_letting_go(numbers: np.ndarray) -> None:
    """Let go of a file, too, that numpy has mapped to be read, whenever :func:`let_go` is called."""
    if isinstance(numbers.base, mmap.mmap):
        _MAPS.add(numbers.base)


def let_go() -> None:
    """Let the system take back what of all mapped numbers is in memory; it is there again when it is looked at."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for one in list(_MAPS):
            one.madvise(mmap.MADV_DONTNEED)


def mapped_file(path: Path) -> mmap.mmap:
    """Return what a file holds, mapped to be read.

    Raises:
        OSError: It cannot be read.
        ValueError: It is empty.
    """
    with path.open("rb") as file:
        return _mapped(file)


def _mapped(file: IO[bytes]) -> mmap.mmap:
    made = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _MAPS.add(made)
    return made
