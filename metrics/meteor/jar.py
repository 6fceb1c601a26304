"""The METEOR 1.5 jar: aligns candidates with their references, in Java processes side by side."""

from __future__ import annotations

import math
import os
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack

from ...errors import MetricError
from ..java import LineProcess, ProcessDied, ProcessSilent, find_jar, find_java

N_STATISTICS = 23
"""Numbers of an alignment; columns as in ``metric.meteor``."""
JAR = "meteor/meteor-1.5.jar"
PARAPHRASES = "meteor/data/paraphrase-en.gz"
OPTIONS = ("-", "-", "-stdio", "-l", "en", "-norm")
# The tables take 400 MB; starting with room for them saves a second of garbage collection.
HEAP = ("-Xms600m", "-Xmx1G")

_BATCH = 256
# A process takes seconds to load its tables, the time in which another aligns about this many.
_ITEMS_WORTH_A_PROCESS = 10_000
# Questions ahead of their answers, so that the jar never waits for us between two items.
_QUESTIONS_AHEAD = 16
_START_TIMEOUT = 180.0
_FAILURES_IN_A_ROW = 3


def fingerprint() -> dict[str, object]:
    """Return everything that can change the statistics: program and options."""
    return {"producer": "meteor statistics", "jar": JAR, "options": list(OPTIONS)}


def check(*, needs_java: bool = True) -> None:
    """Raise if the jar or its paraphrase table, or the Java that runs it, is missing.

    Raises:
        MetricError: One is missing; the hint says how to get it.
    """
    if needs_java:
        find_java()
    find_jar(JAR)
    find_jar(PARAPHRASES)


def align(
    keys: Sequence[str], line: Callable[[str], str], processes: int | None, timeout: float
) -> Generator[dict[str, list[float] | str], None, None]:
    """Yield batches of answers, in the order in which they are finished.

    Args:
        keys: What stands for the items; distinct.
        line: Returns the jar's question for a key.
        processes: Java processes at most; None for one a core, up to 4.
        timeout: Seconds an item may take.

    Yields:
        For each key of a batch its statistics (``N_STATISTICS`` numbers), or why it has none.

    Raises:
        MetricError: Java or the jar is missing, or the jar fails item after item.
    """
    if not keys:
        return
    check()
    most = processes or min(os.cpu_count() or 1, 4)
    batches = [keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH)]
    stopped = threading.Event()
    idle: queue.SimpleQueue[MeteorProcess] = queue.SimpleQueue()

    def answer(batch: Sequence[str]) -> dict[str, list[float] | str]:
        process = idle.get()
        try:
            return dict(zip(batch, process.answer([line(key) for key in batch]), strict=True))
        finally:
            idle.put(process)

    with ExitStack() as stack:
        n_processes = min(most, math.ceil(len(keys) / _ITEMS_WORTH_A_PROCESS))
        pool = stack.enter_context(ThreadPoolExecutor(n_processes))
        for _ in range(n_processes):
            process = MeteorProcess(timeout, stopped)
            # Runs before the pool waits for its threads: ending the child wakes the thread that waits for it.
            stack.callback(process.close)
            idle.put(process)
        stack.callback(stopped.set)
        futures: list[Future[dict[str, list[float] | str]]] = [pool.submit(answer, batch) for batch in batches]
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        for future in as_completed(futures):
            yield future.result()


class MeteorProcess:
    """One process of the jar, started again when it dies or hangs.

    Args:
        timeout: Seconds an item may take.
        stopped: Set when answers are no longer wanted.

    Raises:
        MetricError: Java or the jar is missing.
    """

    def __init__(self, timeout: float, stopped: threading.Event) -> None:
        self._timeout = timeout
        self._stopped = stopped
        self._process = LineProcess([*HEAP, "-jar", str(find_jar(JAR)), *OPTIONS], "METEOR's Java process")
        self._ready = False
        self._failures_in_a_row = 0

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def answer(self, lines: Sequence[str]) -> list[list[float] | str]:
        """Return for each question its statistics, or why there are none.

        A question at which the process dies is asked once more; one that takes too long is not.

        Raises:
            MetricError: Three times in a row the process died or hung; or it does not start.
        """
        answers: list[list[float] | str] = []
        asked = 0
        died_before = -1
        while len(answers) < len(lines):
            if not self._ready:
                self._await_start()
                asked = len(answers)
            while asked < min(len(lines), len(answers) + _QUESTIONS_AHEAD):
                self._process.send(lines[asked])
                asked += 1
            try:
                answers.append(_parse(self._process.receive(self._timeout)))
                self._failures_in_a_row = 0
            except ProcessSilent as silence:
                self._failed(silence)
                answers.append(f"METEOR did not align it within {self._timeout:g} s")
            except ProcessDied as death:
                self._failed(death)
                # Answers come in the order of the questions: the death belongs to the first without one.
                if died_before == len(answers):
                    answers.append(f"METEOR died on it twice: {death.message}")
                else:
                    died_before = len(answers)
        return answers

    def _failed(self, reason: MetricError) -> None:
        """Have the process started again, unless it fails all the time."""
        self._failures_in_a_row += 1
        if self._stopped.is_set() or self._failures_in_a_row >= _FAILURES_IN_A_ROW:
            raise MetricError(
                f"METEOR failed {self._failures_in_a_row} times in a row; the last time: {reason.message}",
                f"{reason.hint} A process needs 0.6 to 1.3 GB of memory: free some, or set "
                "'processes: 1'. Aligned items are stored; run again to go on.".strip(),
            )
        self._process.restart()
        self._ready = False

    def _await_start(self) -> None:
        """Wait until the tables are loaded, so that an item's timeout is the item's."""
        self._process.send("SCORE ||| a ||| a")
        try:
            self._process.receive(_START_TIMEOUT)
        except ProcessDied as death:
            self._failed(death)
        else:
            self._ready = True


def _parse(answer: str) -> list[float] | str:
    """Return the numbers of an answer, or what is wrong with it."""
    try:
        numbers = [float(number) for number in answer.split()]
    except ValueError:
        numbers = []
    return numbers if len(numbers) == N_STATISTICS else f"METEOR answered '{answer[:200]}'"
