"""Arrays in one file of the user's cache folder, which all processes of a machine map: its pages are there once."""

import contextlib
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from ..atomic_files import folder_lock, written_whole
from ..paths import cache_folder

_CHECKSUM = "checksum"


def mapped(folder: str, name: str, build: Callable[[], Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
    """Return arrays from the file of a name, which is written first if it is not there or is damaged.

    Of several processes that find none, one makes them, and the others wait for it.

    Args:
        folder: The file's, inside the cache folder.
        name: The file's name, which identifies the source of the arrays.
        build: Makes them, by their names.
    """
    path = cache_folder() / folder / f"{name}.npy"
    if (arrays := _read(path)) is not None:
        return arrays
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(path.parent):
        if (arrays := _read(path)) is not None:
            return arrays
        arrays = build()
        # Without a folder to write to, and of 2 GB on, more than numpy's records hold, every process builds them again.
        with contextlib.suppress(OSError, ValueError):
            _write(path, arrays)
            arrays = _read(path) or arrays
        return arrays


def _read(path: Path) -> Mapping[str, np.ndarray] | None:
    """Return the arrays of a file, or None if there is no such file or it is damaged."""
    try:
        arrays = _mapped(path)
        if (checksum := arrays.pop(_CHECKSUM, None)) is None or checksum != _checksum(arrays):
            return None
        # All of it has been read and is in memory; who looks things up needs little of it.
        del arrays
        return {name: array for name, array in _mapped(path).items() if name != _CHECKSUM}
    except (OSError, EOFError, ValueError, IndexError):
        return None


def _mapped(path: Path) -> dict[str, np.ndarray]:
    record = np.load(path, mmap_mode="r", allow_pickle=False)
    return {name: np.asarray(record[name][0]) for name in record.dtype.names or ()}


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    fields = [(_CHECKSUM, np.dtype(np.int64), ())]
    fields += [(name, array.dtype, array.shape) for name, array in arrays.items()]
    record = np.zeros(1, np.dtype(fields, align=True))
    for name, array in arrays.items():
        record[name][0] = array
    record[_CHECKSUM] = _checksum(arrays)
    with written_whole(path) as draft, draft.open("wb") as file:
        np.save(file, record)


def _checksum(arrays: Mapping[str, np.ndarray]) -> int:
    """Return the CRC-32 of arrays."""
    checksum = 0
    for array in arrays.values():
        checksum = zlib.crc32(np.ascontiguousarray(array).view(np.uint8), checksum)  # pyrefly: ignore[bad-argument-type]
    return checksum
