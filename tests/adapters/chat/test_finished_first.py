from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from capbench.adapters.chat.client import finished_first
from capbench.errors import AdapterError


def test_results_come_before_the_error_that_ends_the_work():
    async def work(give: Callable[[int], None]) -> None:
        give(1)
        give(2)
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    async def fail() -> None:
        raise AdapterError("the server is gone")

    results = finished_first(work)
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(AdapterError, match="the server is gone"):
        next(results)


def test_whoever_stops_early_cancels_the_work():
    cancelled = threading.Event()

    async def work(give: Callable[[int], None]) -> None:
        give(1)
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    results = finished_first(work)
    assert next(results) == 1
    results.close()
    assert cancelled.is_set()
    assert "finished_first" not in {thread.name for thread in threading.enumerate()}


def test_it_works_inside_a_running_loop_as_in_notebooks():
    async def work(give: Callable[[int], None]) -> None:
        await asyncio.sleep(0)
        give(1)

    async def notebook() -> list[int]:
        return list(finished_first(work))

    assert asyncio.run(notebook()) == [1]
