"""Values on resamples of images, shared out among processes: the same numbers, however many there are."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from multiprocessing.connection import Connection

import numpy as np

from ...progress import Reporter
from .contract import UndefinedStatistic, finite_value

_WORTH_SHARING = 50_000_000
"""Rows times resamples times values from which on a further process saves more than it costs."""
_BLOCK_BYTES = 32_000_000
_MOST_IN_BLOCK = 32
"""Draws that are multiplied together, as many as have room."""
_ROWS_A_PRODUCT = 256
_most: ContextVar[int | None] = ContextVar("most", default=None)

Value = Callable[[np.ndarray], float]
Found = tuple[np.ndarray, list[str]]
"""``[resamples, values]``, NaN where a value is undefined, and why it was so the latest time."""


@dataclass(frozen=True)
class OfSums:
    """A value of weighted sums over rows, which is quick to have of many weights at once.

    Attributes:
        pool: Gives the value of the sums ``[k]``; raises :class:`UndefinedStatistic` where it has none.
        terms: ``[n, k]`` what each row adds to them.
    """

    pool: Value
    terms: np.ndarray

    def __call__(self, weights: np.ndarray) -> float:
        """Return the value for weights ``[n]`` of the rows."""
        return self.pool(self.sums(weights[None])[0])

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Return the sums ``[b, k]`` for several weights ``[b, n]`` of the rows.

        They are added up by pieces so small that BLAS takes one thread for each: so they do not depend on how many
        it has, and processes beside each other do not start more than there are cores.
        """
        n, k = self.terms.shape
        pieces = n // _ROWS_A_PRODUCT
        whole = pieces * _ROWS_A_PRODUCT
        of_piece = weights[:, :whole].reshape(len(weights), pieces, _ROWS_A_PRODUCT).swapaxes(0, 1)
        terms = self.terms[:whole].reshape(pieces, _ROWS_A_PRODUCT, k)
        return np.matmul(of_piece, terms).sum(axis=0) + weights[:, whole:] @ self.terms[whole:]


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
    block = _in_block(values, len(image))

    def part(first: int, last: int, report: Reporter | None = None) -> Found:
        found, reasons = np.zeros((last - first, len(values))), [""] * len(values)
        drawn = draw(image, images, last, seed, first)
        for start in range(0, last - first, block):
            some = list(islice(drawn, block))
            for place, value in enumerate(values):
                for number, one in enumerate(_on_each(value, some), start):
                    try:
                        found[number, place] = finite_value(one)
                    except UndefinedStatistic as error:
                        found[number, place], reasons[place] = np.nan, str(error)
            if report:
                report(start + len(some), last - first)
        return found, reasons

    blocks = -(-resamples // block)
    workers = min(_workers(processes, len(image) * resamples * len(values)), max(blocks - 1, 1))
    if workers == 1:
        return part(0, resamples, progress)
    # The first ones here: what values prepare for all others is then there in each process.
    first = part(0, block)
    # Whoever makes a block, it is of the same resamples: sums are added up in one order.
    bounds = [block * (1 + (blocks - 1) * worker // workers) for worker in range(workers)]

    def passed(done: int, total: int) -> None:
        if progress:
            progress(min(block + done * workers, resamples), resamples)

    parts = [first, *_shared_out(part, [*bounds, resamples], passed)]
    if progress:
        progress(resamples, resamples)
    return _joined(parts)


def _joined(parts: Sequence[Found]) -> Found:
    reasons = [
        next((one for one in reversed(of_value) if one), "")
        for of_value in zip(*(why for _, why in parts), strict=True)
    ]
    return np.concatenate([found for found, _ in parts]), reasons


def _in_block(values: Sequence[Value], rows: int) -> int:
    """Return how many resamples are looked at together."""
    if not any(isinstance(value, OfSums) for value in values):
        # Statistics of the same rows share what they count for the latest weights.
        return 1
    return min(max(_BLOCK_BYTES // (8 * max(rows, 1)), 1), _MOST_IN_BLOCK)


def _on_each(value: Value, weights: Sequence[np.ndarray]) -> Sequence[Callable[[], float]]:
    """Return what gives a value for each of some weights."""
    if isinstance(value, OfSums):
        return [partial(value.pool, sums) for sums in value.sums(np.stack(weights))]
    return [partial(value, one) for one in weights]


def _shared_out(part: Callable[..., Found], bounds: Sequence[int], report: Reporter) -> list[Found]:
    """Return the parts between bounds: the first made here, each other one in a process."""
    parts = [partial(part, start, end) for start, end in pairwise(bounds[1:])]
    children = [Fork(one) for one in parts]
    try:
        return [
            part(bounds[0], bounds[1], report),
            # One that is killed is made up for here.
            *(child.made() or one() for child, one in zip(children, parts, strict=True)),
        ]
    finally:
        for child in children:
            child.end()


@contextmanager
def shared_by(most: int | None) -> Generator[None]:
    """Let no more than so many processes share resamples meanwhile; None for as many as are worth it."""
    before = _most.set(most)
    try:
        yield
    finally:
        _most.reset(before)


def _workers(processes: int | None, work: int) -> int:
    """Return how many processes share the work: one a core, and 1 where something else runs in this process."""
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return 1
    if processes is not None:
        return max(processes, 1)
    # A thread that is not forked may hold what the forked process waits for.
    alone = threading.active_count() == 1 and multiprocessing.parent_process() is None
    cores = len(os.sched_getaffinity(0)) if alone and work >= _WORTH_SHARING else 1
    return min(cores, _most.get() or cores)


class Fork:
    """A forked process that makes a part: it knows what this one knows, and imports nothing anew.

    Args:
        make: Makes it.
    """

    def __init__(self, make: Callable[[], Found]) -> None:
        self._make = make
        self._here, there = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=self._run, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def _run(self, there: Connection) -> None:
        # What its parent does at a signal is the parent's: this process is ended, and has nothing to say of it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # Only its parent reads: where that is gone, nothing can be sent, and it ends.
        self._here.close()
        try:
            there.send(self._make())
        except Exception:  # noqa: BLE001 - who started it makes it anew, and has the same error where it can be seen
            os._exit(1)

    def made(self) -> Found | None:
        """Return what it made; None if it did not live to send it."""
        try:
            return self._here.recv()
        except EOFError:
            return None

    def end(self) -> None:
        """End the process, whatever it was at."""
        self._here.close()
        self._process.terminate()
        self._process.join()
