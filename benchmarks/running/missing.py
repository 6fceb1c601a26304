"""What a planned run needs and this machine lacks, all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...errors import BenchError
from ...tasks.documents import require_data
from ...tasks.locate import DataLocations
from .plan import PlannedRun


@dataclass(frozen=True)
class Missing:
    """Something that is not on this machine.

    Attributes:
        what: What it is, in a sentence.
        how: How to get it.
    """

    what: str
    how: str


def missing(planned: PlannedRun, locations: DataLocations) -> Iterator[Missing]:
    """Yield what a run cannot go without and cannot fetch: data, images, weights, and what its metrics need.

    Nothing is loaded, and nothing is downloaded.
    """
    yield from missing_data(planned, locations)
    checks: list[Callable[[], object]] = [planned.pixels.require] if planned.looks_at_images else []
    checks += [spec.check for spec in (planned.captioner, planned.encoder, planned.judge) if spec is not None]
    checks += [one.metric.check for one in planned.metrics]
    for check in checks:
        yield from _told(check)


def missing_data(planned: PlannedRun, locations: DataLocations) -> Iterator[Missing]:
    """Yield what the data of a run lacks, its images aside."""
    # Tasks may share a data set, which is missing once; images are named with their task.
    named = f"task '{planned.task.task}': "
    for one in _told(lambda: require_data(planned.task, planned.path, locations)):
        yield Missing(one.what.removeprefix(named), one.how)


def _told(check: Callable[[], object]) -> Iterator[Missing]:
    try:
        check()
    except BenchError as error:
        for part in error.parts:
            yield Missing(part.message, part.hint)
