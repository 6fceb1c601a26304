"""A worker process: ``python -m capbench.benchmarks.engines.workers.process``.

Its driver starts it, and they talk in lines of JSON. What it prints goes to stderr; stdout is for answers alone.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import IO, Any

from ....allocation import be_program
from ...running.units import Unit, WorkSpec
from ..faults import Fault
from .worker import Worker, to_values


def main() -> int:
    """Open the work that the first line names, and answer each further line until there are no more; return 0."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=_listen, args=(orders,), daemon=True).start()
        if (hello := orders.get()) is None:
            return 0
        try:
            worker = Worker(WorkSpec.from_json(hello["spec"]), hello["path"], hello["permissions"])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told to the driver
            _answer(answers, {"refused": Fault.of(error).to_values()})
            return 0
        _answer(answers, {"opened": True})
        orders.task_done()
        while (order := orders.get()) is not None:
            _answer(answers, to_values(worker.answer(Unit.from_json(order["unit"]), order["release"])))
            orders.task_done()
    return 0


def _answer(answers: IO[str], values: dict[str, Any]) -> None:
    print(json.dumps(values), file=answers, flush=True)


def _listen(orders: queue.Queue[dict[str, Any] | None]) -> None:
    """Hand on orders; where there is no driver any more, nobody wants what is being done, or not begun yet."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    if orders.unfinished_tasks:
        os._exit(1)
    orders.put(None)


if __name__ == "__main__":
    be_program(main)
