"""Values and arrays as the bytes that a store keeps."""

from __future__ import annotations

import io
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def encoded(value: Any) -> str:
    """Return a value as JSON.

    Raises:
        TypeError: JSON has no such value.
    """
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # SQLite's text cannot hold a lone surrogate; its escape in JSON can.
        return json.dumps(value)
    return text


def as_bytes(value: str | bytes) -> bytes:
    """Return the bytes of text or bytes."""
    return value.encode() if isinstance(value, str) else value


def array_bytes(array: np.ndarray) -> bytes:
    """Return an array in NumPy's format (``.npy``, version 1.0).

    Raises:
        ValueError: It holds objects.
    """
    import numpy as np

    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return file.getvalue()


def array_of(value: bytes) -> np.ndarray:
    """Return the array of ``array_bytes``; it belongs to the caller."""
    import numpy as np

    end = 10 + int.from_bytes(value[8:10], "little")
    shape, dtype = _array_header(value[:end])
    return np.frombuffer(value, dtype, offset=end).reshape(shape).copy()


@lru_cache(maxsize=256)
def _array_header(header: bytes) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and dtype; thousands of arrays have one header, whose reading takes longer than theirs."""
    import numpy as np

    file = io.BytesIO(header)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype
