"""Runs asynchronous work for callers that are not, and gives out results as they come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from queue import SimpleQueue
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def finished_first(
    work: Callable[[Callable[[_Result], None]], Coroutine[Any, Any, None]],
) -> Iterator[_Result]:
    """Run a coroutine in a thread of its own, and yield what it gives out, as it does.

    The thread goes on while the caller is busy with a result, and works inside notebooks, whose own loop
    runs already. If the caller stops early, the work is cancelled.

    Args:
        work: Makes the coroutine; it calls its argument with each result.

    Raises:
        Exception: What the coroutine raised; all results before it are yielded first.
    """
    results: SimpleQueue[_Result | _End] = SimpleQueue()
    loop = asyncio.new_event_loop()
    task = loop.create_task(_in_group(work, results.put))

    def run() -> None:
        error = None
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except Exception as raised:  # noqa: BLE001 - raised again where the caller is
            error = raised
        loop.run_until_complete(loop.shutdown_default_executor())
        results.put(_End(error))

    thread = threading.Thread(target=run, daemon=True, name="finished_first")
    thread.start()
    try:
        while not isinstance(result := results.get(), _End):
            yield result
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()
    if result.error is not None:
        raise result.error


class _End:
    """The last thing in the queue."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


async def _in_group(
    work: Callable[[Callable[[_Result], None]], Coroutine[Any, Any, None]], give: Callable[[_Result], None]
) -> None:
    try:
        await work(give)
    except ExceptionGroup as group:
        # Of tasks that fail together one tells enough.
        raise group.exceptions[0] from None
