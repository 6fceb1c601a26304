"""Batches of bounded size."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Thing = TypeVar("_Thing")


def grouped(things: Iterable[_Thing], size: Callable[[_Thing], int], most: int) -> Iterator[list[_Thing]]:
    """Yield neighbours in groups whose sizes add up to no more than ``most``; what is larger is a group alone."""
    group: list[_Thing] = []
    total = 0
    for thing in things:
        if group and total + size(thing) > most:
            yield group
            group, total = [], 0
        group.append(thing)
        total += size(thing)
    if group:
        yield group
