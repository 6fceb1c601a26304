"""How this process's memory is managed."""

from __future__ import annotations

import ctypes
import sys

_M_MMAP_THRESHOLD = -3
"""Of ``malloc.h``."""
_LARGE_BYTES = 256 << 10


def give_back_large_blocks() -> None:
    """Let the C library give blocks of 256 KiB and more back to the system as soon as they are free.

    By itself glibc keeps blocks of up to 32 MiB for later ones, so that who makes arrays of many sizes, shard after
    shard, holds far more than ever is in use. Other C libraries are left as they are.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "gnu_get_libc_version"):
            library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
