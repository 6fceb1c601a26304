"""Rated captions, read from documents and gathered into shards."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import DataError
from ....tasks.schema import TaskConfig
from ...inputs.empty_captions import EmptyCaption, scored_caption
from ...inputs.failures import FailureLog
from ...inputs.items import (
    CaptionRow,
    SeenValues,
    gathered,
    image_key,
    item_key,
    objects_fault,
    printable,
    references_fault,
    references_of,
)
from ...inputs.pixels import boxes_of, pixels_value, span_of, view_fault
from ...inputs.ratings import arrange, ratings_of
from ...statistics.rated_rows import Ratings
from ..checks import DataCheck, Levels, run_checks
from ..document_reader import DocumentReader
from ..job import Job, Shard, caption_columns, caption_content, numbers_of


@dataclass(frozen=True)
class RatedCaption:
    """A caption with what people say of it.

    Attributes:
        sample: The caption.
        ratings: Aspect to its ratings; one without a name where the task has no aspects. An aspect that nobody rated
            has none.
        system: What wrote it; empty where the task does not say.
        category: Its part of the data; empty where there are none.
    """

    sample: CaptionRow
    ratings: Mapping[str, list[float]]
    system: str = ""
    category: str = ""


@dataclass(frozen=True)
class RatedReading:
    """How rated captions are read: the choices of the task, as its protocol names them."""

    empty_caption: EmptyCaption
    human_range: tuple[float, float] | None
    raters: str
    first_references: int | None


def read_rated(
    job: Job, keys: Sequence[str], reading: RatedReading, failures: FailureLog
) -> Iterator[RatedCaption]:
    """Yield the captions that can be scored, with the ratings of each."""
    templates, aspects = job.task.templates, job.task.aspects
    naming = [key for key in _NAMING if key in templates]
    for identity, values in DocumentReader(job, keys).read(failures):
        target = references_of(values["doc_to_target"])
        rated = _ratings(values["doc_to_human"], aspects, reading)
        candidate, rule = values["doc_to_candidate"], reading.empty_caption
        if "doc_to_target" in templates and (fault := references_fault(target)):
            failures.add(identity, "reference", fault)
        elif "doc_to_objects" in templates and (fault := objects_fault(values["doc_to_objects"])):
            failures.add(identity, "objects", fault)
        elif isinstance(rated, str):
            failures.add(identity, "rating", rated)
        elif fault := view_fault(job.task, values):
            failures.add(identity, "image", fault)
        elif missing := [key for key in naming if _unnamed(values[key])]:
            failures.add(identity, "data", f"has no {missing[0].removeprefix('doc_to_')}")
        elif (candidate := scored_caption(candidate, identity, "candidate", rule, failures)) is not None:
            objects = values["doc_to_objects"]
            sample = CaptionRow(
                identity,
                identity if values["doc_to_image"] is None else image_key(values["doc_to_image"]),
                candidate,
                tuple(target)[: reading.first_references],
                max([len(one) - sum(map(math.isnan, one)) for one in rated.values()]),
                objects=None if objects is None else frozenset(objects),
                pixels=job.pixels(pixels_value(values), span_of(values["doc_to_span"])),
                boxes=boxes_of(values["doc_to_boxes"]),
            )
            yield RatedCaption(sample, rated, *(_name(values[key]) for key in _NAMING))


_NAMING = ("doc_to_system", "doc_to_category")


def _unnamed(value: Any) -> bool:
    return value is None or not str(value).strip()


def _name(value: Any) -> str:
    return "" if value is None else printable(str(value))


def _ratings(human: Any, aspects: Sequence[str], reading: RatedReading) -> dict[str, list[float]] | str:
    """Return the ratings by aspect, or why they cannot be used; an aspect that a caption lacks has none."""
    found: dict[str, list[float]] = {}
    for aspect in aspects or [""]:
        given = human[aspect] if aspects else human
        of_aspect = ratings_of(given, reading.human_range)
        if isinstance(of_aspect, str):
            if aspects and of_aspect == "is missing":
                found[aspect] = []
                continue
            return f"{aspect} {of_aspect}".strip()
        found[aspect] = arrange(of_aspect, reading.raters)
    return found if any(found.values()) else "is missing"


class FoundRated:
    """Counts what shards hold.

    Attributes:
        samples: How many captions there are.
        said: Whether one of them says something.
        ruled_out: How many the task's rule leaves out.
        categories: Number of each category, in the order in which they come.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.samples, self.said, self.ruled_out = 0, False, 0
        self.categories: dict[str, int] = {}
        self._captions_of: dict[str, int] = {}
        self._ratings_of: Counter[str] = Counter()
        self._items, self._images = SeenValues(), SeenValues()
        self._levels = {aspect: Levels() for aspect in job.task.aspects or [""]}

    def add(self, rated: Sequence[RatedCaption]) -> None:
        """Count the captions of a shard."""
        samples = [one.sample for one in rated]
        self.samples += len(samples)
        self.said = self.said or any(sample.candidate for sample in samples)
        for one in rated:
            self.categories.setdefault(one.category, len(self.categories))
            self._captions_of[one.system] = self._captions_of.get(one.system, 0) + 1
            of_first = next(iter(one.ratings.values()))
            self._ratings_of[one.category] += sum(not math.isnan(rating) for rating in of_first)
        if self._job.task.checks.items is not None:
            self._items.add(map(item_key, samples))
        if self._job.task.checks.images is not None:
            self._images.add(sample.image for sample in samples)
        for aspect, levels in self._levels.items():
            levels.add(Ratings.of([one.ratings[aspect] for one in rated]).values)

    def checks(self) -> list[DataCheck]:
        """Hold the counts against what the task expects.

        Raises:
            DataError: A check failed; an aspect has no rating, or a system a single caption.
        """
        job = self._job
        for aspect, levels in self._levels.items():
            if not levels.n and job.settings.limit is None:
                raise DataError(
                    f"task '{job.task.task}': {job.documents.origin}: no caption has a rating of aspect '{aspect}'",
                    f"Does doc_to_human name the right column for it? It says {job.task.templates['doc_to_human']}.",
                )
        alone = [system for system, captions in self._captions_of.items() if captions == 1]
        if "doc_to_system" in job.task.templates and alone and job.settings.limit is None:
            raise DataError(
                f"task '{job.task.task}': {job.documents.origin}: {len(alone)} of {len(self._captions_of)} systems "
                f"have a single caption: {', '.join(repr(name) for name in alone[:3])}",
                "A system is what wrote many captions: does doc_to_system name the right column?",
            )
        first = next(iter(self._levels.values()))
        return run_checks(
            job,
            first,
            categories=self._ratings_of,
            documents=len(job.documents.rows),
            rows=first.n,
            items=len(self._items),
            images=len(self._images),
        )


def aspect_of(statistic: str, task: TaskConfig) -> str:
    """Return the aspect that a statistic of a task is of (``kendall_c.precision``); empty where it has no aspects."""
    return statistic.rpartition(".")[2] if task.aspects else ""


def ratings_in(numbers: Mapping[str, np.ndarray], aspect: str) -> Ratings:
    """Return the ratings of an aspect, from the numbers of :func:`shard_of`."""
    return Ratings(numbers[f"rating.{aspect}" if aspect else "rating"], numbers[rating_column(aspect)])


def rating_column(aspect: str) -> str:
    """Return the column of the samples that has the ratings of an aspect."""
    return f"ratings.{aspect}" if aspect else "ratings"


def shard_of(
    rated: Sequence[RatedCaption], task_keys: Mapping[str, Any], categories: Mapping[str, int]
) -> Shard:
    """Return a shard of rated captions.

    Args:
        rated: The captions.
        task_keys: The ``doc_to_*`` keys that the task gives: what it does not say is not written.
        categories: Number of each category.
    """
    samples = [one.sample for one in rated]
    items, item_of_sample, numbers = gathered(samples)
    columns = caption_columns(samples, [])
    del columns["ratings"]
    found = {"image": numbers_of(sample.image for sample in samples)}
    for aspect in rated[0].ratings:
        ratings = Ratings.of([one.ratings[aspect] for one in rated])
        found[f"rating.{aspect}" if aspect else "rating"] = ratings.values
        found[rating_column(aspect)] = ratings.counts
        columns[rating_column(aspect)] = [
            [None if rating != rating else rating for rating in one.ratings[aspect]] for one in rated
        ]
    said: list[dict[str, str]] = [{} for _ in rated]
    for key, names in (
        ("system", [one.system for one in rated]),
        ("category", [one.category for one in rated]),
    ):
        if f"doc_to_{key}" in task_keys:
            columns[key] = names
            found[key] = (
                numbers_of(names) if key == "system" else np.array([categories[name] for name in names])
            )
            for told, name in zip(said, names, strict=True):
                told[key] = name
    content = [
        caption_content(one.sample, one.ratings.get("", one.ratings)) + ([told] if told else [])
        for one, told in zip(rated, said, strict=True)
    ]
    return Shard(items, item_of_sample, columns, found, content, numbers)
