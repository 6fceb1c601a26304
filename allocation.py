"""How this process's memory is managed."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import ctypes

_M_MMAP_THRESHOLD = -3
"""Of ``malloc.h``."""
_LARGE_BYTES = 1 << 20
"""A smaller block is worth keeping: the system clears what it gives, a fifth of a run's time with 256 KiB."""
_OBJECTS = 10_000


def give_back_large_blocks() -> None:
    """Let the C library give blocks of 1 MiB and more back to the system as soon as they are free.

    By itself glibc keeps blocks of up to 32 MiB for later ones, so that who makes arrays of many sizes, shard after
    shard, holds far more than ever is in use. Other C libraries are left as they are.
    """
    if (library := _glibc()) is not None:
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def give_back_free_memory() -> None:
    """Let the C library give back what is free between its blocks, after work that needed more than what follows."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    import ctypes

    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None


@contextmanager
def seldom_collected() -> Generator[None]:
    """Look for circles of objects no more than once in 10,000 new ones meanwhile; by itself Python does in 700.

    A shard is many objects, and none of them in a circle: every search goes through them for nothing.
    """
    before = gc.get_threshold()
    # 0 is never: who set it wants no search.
    gc.set_threshold(before[0] and max(before[0], _OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def be_program(main: Callable[[], int]) -> NoReturn:
    """Call what this process is for, and end the process with the exit code that it returns.

    Behind all else that ends with it, the process is left to the system as it is: Python would take apart what was
    imported piece by piece, which takes a core a second or two once a model was loaded.

    Args:
        main: Returns the exit code. Where it raises, the process ends as any other.
    """
    codes: list[int] = []
    atexit.register(lambda: os._exit(codes[0]) if codes else None)
    code = main()
    # Where nothing can be written any more, Python says so at its end.
    with suppress(OSError):
        sys.stdout.flush()
        codes.append(code)
    sys.exit(code)
