"""The METEOR 1.5 jar, which aligns candidates with their references in a Java process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...errors import MetricError
from ..java import find_jar, find_java, run_java

N_STATISTICS = 23
"""Numbers of an alignment; columns as in ``metric.meteor``."""
JAR = "meteor/meteor-1.5.jar"
PARAPHRASES = "meteor/data/paraphrase-en.gz"
OPTIONS = ("-", "-", "-stdio", "-l", "en", "-norm")
# The tables take 400 MB; starting with room for them saves a second of garbage collection.
HEAP = ("-Xms600m", "-Xmx1G")

# A process takes seconds to load its tables, the time in which it aligns about this many items.
_BATCH = 10_000
_START_SECONDS = 180.0


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


def align(keys: Sequence[str], line: Callable[[str], str], timeout: float) -> Iterator[dict[str, list[float] | str]]:
    """Yield batches of answers in the order of the keys, each from one run of the jar.

    Args:
        keys: What stands for the items; distinct.
        line: Returns the jar's question for a key.
        timeout: Seconds that an item may take on average.

    Yields:
        For each key of a batch its statistics (``N_STATISTICS`` numbers), or why it has none.

    Raises:
        MetricError: Java or the jar is missing, failed, or did not finish in time.
    """
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        questions = "".join(f"{line(key)}\n" for key in batch)
        command = [*HEAP, "-jar", str(find_jar(JAR)), *OPTIONS]
        answers = run_java(command, questions, _START_SECONDS + timeout * len(batch), "METEOR's jar").splitlines()
        if len(answers) != len(batch):
            raise MetricError(f"METEOR's jar answered {len(answers):,} of {len(batch):,} questions.", "Run again.")
        yield dict(zip(batch, map(_parse, answers), strict=True))


def _parse(answer: str) -> list[float] | str:
    """Return the numbers of an answer, or what is wrong with it."""
    try:
        numbers = [float(number) for number in answer.split()]
    except ValueError:
        numbers = []
    return numbers if len(numbers) == N_STATISTICS else f"METEOR answered '{answer[:200]}'"
