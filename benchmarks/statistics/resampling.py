"""Values on resamples of images, shared out among processes: the same numbers, however many there are."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection

import numpy as np

from ...progress import Reporter
from .contract import UndefinedStatistic, finite_value

_WORTH_SHARING = 50_000_000
"""Rows times resamples from which on a further process saves more than it costs."""

Value = Callable[[np.ndarray], float]
Found = tuple[np.ndarray, list[str]]
"""``[resamples, values]``, NaN where a value is undefined, and why it was so the latest time."""


def draw(image: np.ndarray, images: int, resamples: int, seed: int, first: int = 0) -> Iterator[np.ndarray]:
    """Yield the row weights of each resample; read-only, so that a statistic may remember them.

    Args:
        image: ``[n]`` image of each row, from 0.
        images: How many images there are.
        resamples: Number of resamples.
        seed: Seed of the draws.
        first: The resample to begin with.
    """
    generator = np.random.default_rng(seed)
    one_row_each = np.array_equal(image, np.arange(images))
    for number in range(resamples):
        drawn = generator.integers(images, size=images)
        if number < first:
            continue
        weights = np.bincount(drawn, minlength=images).astype(np.float64)
        if not one_row_each:
            weights = weights[image]
        weights.flags.writeable = False
        yield weights


def on_resamples(
    values: Sequence[Value],
    image: np.ndarray,
    images: int,
    resamples: int,
    seed: int,
    processes: int | None = None,
    progress: Reporter | None = None,
) -> Found:
    """Return values of weighted rows on each resample.

    Each process makes all draws, which is quick, and the values of its own ones; so it does not matter which of them
    makes what. One that is killed is made up for.

    Args:
        values: Each gives a value for the weights ``[n]`` of the rows; raises :class:`UndefinedStatistic` where it has
            none.
        image: ``[n]`` image of each row, from 0.
        images: How many images there are.
        resamples: Number of resamples.
        seed: Seed of the draws.
        processes: How many; None for one a core where there is enough to do, and this process runs nothing beside.
        progress: Called with (resamples done, resamples in all).
    """

    def part(first: int, last: int, report: Reporter | None = None) -> Found:
        found, reasons = np.zeros((last - first, len(values))), [""] * len(values)
        for number, weights in enumerate(draw(image, images, last, seed, first)):
            for place, value in enumerate(values):
                try:
                    found[number, place] = finite_value(value, weights)
                except UndefinedStatistic as error:
                    found[number, place], reasons[place] = np.nan, str(error)
            if report:
                report(number + 1, last - first)
        return found, reasons

    workers = min(_workers(processes, len(image) * resamples), max(resamples - 1, 1))
    if workers == 1:
        return part(0, resamples, progress)
    # The first one here: what values prepare for all others is then there in each process.
    first = part(0, 1)
    bounds = [1 + (resamples - 1) * worker // workers for worker in range(workers + 1)]

    def passed(done: int, total: int) -> None:
        if progress:
            progress(min(1 + done * workers, resamples), resamples)

    parts = [first, *_shared_out(part, bounds, passed)]
    if progress:
        progress(resamples, resamples)
    reasons = [
        next((of_part[place] for _, of_part in reversed(parts) if of_part[place]), "")
        for place in range(len(values))
    ]
    return np.concatenate([found for found, _ in parts]), reasons


def _shared_out(part: Callable[..., Found], bounds: Sequence[int], report: Reporter) -> list[Found]:
    """Return the parts between bounds: the first made here, each other one in a process."""
    children = [_Child(part, start, end) for start, end in pairwise(bounds[1:])]
    try:
        return [part(bounds[0], bounds[1], report), *(child.found() for child in children)]
    finally:
        for child in children:
            child.end()


class _Child:
    """A process that makes a part; forked, as values are mostly closures over the rows."""

    def __init__(self, part: Callable[..., Found], first: int, last: int) -> None:
        self._part, self._bounds = part, (first, last)
        self._here, there = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=self._run, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def _run(self, there: Connection) -> None:
        there.send(self._part(*self._bounds))

    def found(self) -> Found:
        """Return the part, made here if the process did not live to send it."""
        try:
            return self._here.recv()
        except EOFError:
            return self._part(*self._bounds)

    def end(self) -> None:
        """End the process, whatever it was at."""
        self._here.close()
        self._process.terminate()
        self._process.join()


def _workers(processes: int | None, work: int) -> int:
    """Return how many processes share the work."""
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return 1
    if processes is not None:
        return max(processes, 1)
    alone = threading.active_count() == 1 and multiprocessing.parent_process() is None
    return len(os.sched_getaffinity(0)) if alone and work >= _WORTH_SHARING else 1
