"""How much a piece of code does, counted in calls: the same on a machine that is busy and on one that is not."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def calls_at_most(limit: int) -> Iterator[None]:
    """Fail where the body takes more calls of functions than that, those of libraries among them."""
    count = 0

    def watch(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert count <= limit, f"{count:,} calls of functions"
