"""Rated captions: reading from documents, the rule for references, and shards."""

from __future__ import annotations

import math
import numbers
import reprlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...errors import DataError
from ...rows import parse_number
from ...tasks.schema import TaskConfig
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow, gather, scored_caption
from ..inputs.recorded import RecordedCheck
from ..statistics.rated_rows import Ratings
from .checks import Tally
from .document_reader import Document, UnusableDocument, is_list
from .job import Job, Shard, caption_columns, caption_content, numbers_of

if TYPE_CHECKING:
    from .agreement import AgreementSettings

RatedReference = Literal["keep", "drop_pair", "drop_for_image", "drop_cumulative"]
ReferenceMatch = Literal["exact", "letters_and_digits"]

_GREATEST = 1e100
"""Limit of ratings, below which their squares and products are finite."""


@dataclass(frozen=True)
class RatedCaption:
    """A caption with its ratings.

    Attributes:
        sample: The caption.
        ratings: Aspect to its ratings; one empty name where the task has no aspects. The list of an unrated aspect is
            empty.
        system: Its system; empty where the task does not name it.
        category: Its category; empty where there are none.
    """

    sample: CaptionRow
    ratings: Mapping[str, list[float]]
    system: str = ""
    category: str = ""


def rated_caption(document: Document, settings: AgreementSettings, failures: FailureLog) -> Iterator[RatedCaption]:
    """Yield the caption of a document with its ratings, if it can be scored."""
    # The first fault in this order is reported.
    references, objects = document.references, document.objects
    ratings = _ratings(document, settings)
    document.check_view()
    system, category = document.name("system"), document.category
    candidate = scored_caption(document["doc_to_candidate"], document.id, "candidate", settings.empty_caption, failures)
    if candidate is None:
        return
    sample = CaptionRow(
        document.id,
        document.image,
        candidate,
        references[: settings.first_references],
        objects,
        document.pixels,
        document.boxes,
        weight=max([len(values) - sum(map(math.isnan, values)) for values in ratings.values()]),
    )
    yield RatedCaption(sample, ratings, system, category)


def _ratings(document: Document, settings: AgreementSettings) -> dict[str, list[float]]:
    """Return the ratings by aspect, empty for an aspect that a caption lacks."""
    human, aspects = document["doc_to_human"], document.job.task.aspects
    arranged: dict[str, list[float]] = {}
    for aspect in aspects or [""]:
        of_aspect = ratings_of(human[aspect] if aspects else human, settings.human_range)
        if not isinstance(of_aspect, str):
            arranged[aspect] = arrange(of_aspect, settings.raters)
        elif aspects and of_aspect == "is missing":
            arranged[aspect] = []
        else:
            raise UnusableDocument("rating", f"{aspect} {of_aspect}".strip())
    if not any(arranged.values()):
        raise UnusableDocument("rating", "is missing")
    return arranged


def ratings_of(human: Any, human_range: tuple[float, float] | None) -> list[float] | str:
    """Return the ratings of a caption as numbers, NaN of raters who skipped it, or why they cannot be used.

    Args:
        human: A rating, or one per rater.
        human_range: Least and greatest rating, which are mapped to 0 and 1. None keeps ratings unchanged.
    """
    listed = human if is_list(human) else [human]
    try:
        ratings = [math.nan if _skipped(rating) else parse_number(rating) for rating in listed]
    except (TypeError, ValueError):
        return f"is not a number: {reprlib.repr(human)}"
    except OverflowError:
        return f"is not finite: {reprlib.repr(human)}"
    if all(map(math.isnan, ratings)):
        return "is missing"
    if any(abs(rating) >= _GREATEST for rating in ratings):
        return f"is not between -{_GREATEST:g} and {_GREATEST:g}: {reprlib.repr(human)}"
    if human_range is None:
        return ratings
    low, high = human_range
    if outside := [rating for rating in ratings if rating < low or rating > high]:
        return f"lies outside {low:g}-{high:g}: {outside[0]:g}"
    return [(rating - low) / (high - low) for rating in ratings]


def _skipped(rating: Any) -> bool:
    """Return whether a rater skipped the caption: NaN in released files, null in JSON."""
    if type(rating) is int:
        return False
    named = isinstance(rating, str) and rating.strip().lower() == "nan"
    return rating is None or named or (isinstance(rating, (float, numbers.Real)) and rating != rating)


def arrange(rated: list[float], raters: str) -> list[float]:
    """Return the ratings that become rows, with NaN only where a rater's position must be kept.

    Args:
        rated: The ratings of a caption.
        raters: The task's ``protocol.raters``.
    """
    if raters == "per_rater_mean":
        return rated
    known = [rating for rating in rated if not math.isnan(rating)]
    return [float(np.mean(known))] if raters == "mean" and len(known) > 1 else known


class RatedTally(Tally):
    """Counts rated captions.

    Attributes:
        said: Whether one of them is not empty.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.said = False
        self._captions_of: Counter[str] = Counter()
        self._levels = {aspect: Counter[float]() for aspect in job.task.aspects or [""]}

    def add_captions(self, rated: Sequence[RatedCaption]) -> None:
        """Count the captions of a shard."""
        samples = [caption.sample for caption in rated]
        first = [next(iter(caption.ratings.values())) for caption in rated]
        self.add(
            [caption.category for caption in rated],
            (sample.image for sample in samples),
            samples,
            [sum(not math.isnan(rating) for rating in ratings) for ratings in first],
        )
        self.said = self.said or any(sample.candidate for sample in samples)
        self._captions_of.update(caption.system for caption in rated)
        for aspect, levels in self._levels.items():
            known = (rating for caption in rated for rating in caption.ratings[aspect] if not math.isnan(rating))
            levels.update(known)

    def checks_of_all(self) -> list[RecordedCheck]:
        """Compare the counts with what the task expects.

        Raises:
            DataError: A check failed; an aspect has no rating, or a system a single caption.
        """
        job = self.job
        for aspect, levels in self._levels.items():
            if not levels and job.settings.limit is None:
                raise DataError(
                    f"task '{job.task.task}': {job.documents.origin}: no caption has a rating of aspect '{aspect}'",
                    f"Check the column in doc_to_human: {job.task.templates['doc_to_human']}.",
                )
        alone = [system for system, captions in self._captions_of.items() if captions == 1]
        if "doc_to_system" in job.task.templates and alone and job.settings.limit is None:
            raise DataError(
                f"task '{job.task.task}': {job.documents.origin}: {len(alone)} of {len(self._captions_of)} systems "
                f"have only one caption: {', '.join(repr(name) for name in alone[:3])}",
                "Check the column in doc_to_system: a system has several captions.",
            )
        return self.checks(next(iter(self._levels.values())))


def aspect_of(statistic: str, task: TaskConfig) -> str:
    """Return the aspect of a statistic (``kendall_c.precision``); empty for a task without aspects."""
    return statistic.rpartition(".")[2] if task.aspects else ""


def ratings_in(numbers: Mapping[str, np.ndarray], aspect: str) -> Ratings:
    """Return the ratings of an aspect, from the numbers of :func:`shard_of`."""
    return Ratings(numbers[f"rating.{aspect}" if aspect else "rating"], numbers[rating_column(aspect)])


def rating_column(aspect: str) -> str:
    """Return the name of the samples' column with the ratings of an aspect."""
    return f"ratings.{aspect}" if aspect else "ratings"


def shard_of(
    rated: Sequence[RatedCaption], task_keys: Mapping[str, Any], categories: Mapping[str, int], by_id: bool
) -> Shard:
    """Return a shard of rated captions.

    Args:
        rated: The captions.
        task_keys: The ``doc_to_*`` keys of the task: only their columns are written.
        categories: Number of each category.
        by_id: As of ``Job``.
    """
    samples = [caption.sample for caption in rated]
    items, item_of_sample, numbers = gather(samples, by_id)
    columns = caption_columns(samples)
    arrays = {"image": numbers_of(sample.image for sample in samples)}
    for aspect in rated[0].ratings:
        ratings = Ratings.of([caption.ratings[aspect] for caption in rated])
        arrays[f"rating.{aspect}" if aspect else "rating"] = ratings.values
        arrays[rating_column(aspect)] = ratings.counts
        columns[rating_column(aspect)] = [
            [None if rating != rating else rating for rating in caption.ratings[aspect]] for caption in rated
        ]
    said: list[dict[str, str]] = [{} for _ in rated]
    for key, names in (("system", [row.system for row in rated]), ("category", [row.category for row in rated])):
        if f"doc_to_{key}" in task_keys:
            columns[key] = names
            arrays[key] = numbers_of(names) if key == "system" else np.array([categories[name] for name in names])
            for labels, name in zip(said, names, strict=True):
                labels[key] = name
    content = [
        caption_content(caption.sample, caption.ratings.get("", caption.ratings)) + ([labels] if labels else [])
        for caption, labels in zip(rated, said, strict=True)
    ]
    return Shard(items, item_of_sample, columns, arrays, content, numbers)


def apply_reference_rule(
    rule: RatedReference, match: ReferenceMatch, samples: list[CaptionRow], failures: FailureLog
) -> list[CaptionRow | None]:
    """Apply a task's ``rated_reference`` rule; an empty caption is not a reference.

    Args:
        rule: The rule, other than ``keep``.
        match: When a caption counts as a reference.
        samples: Rated captions, in the data set's order.
        failures: Receives the samples that are left without a reference.

    Returns:
        Each sample with its remaining references, or None where the rule excludes it.
    """
    form = _letters_and_digits if match == "letters_and_digits" else str
    if rule == "drop_pair":
        return [None if s.candidate and form(s.candidate) in map(form, s.references) else s for s in samples]
    rated: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        if sample.candidate:
            rated[sample.image][form(sample.candidate)] += 1
    kept: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    result: list[CaptionRow | None] = []
    for sample in samples:
        key = (sample.image, sample.references)
        if key not in kept:
            left, remaining = Counter(rated[sample.image]), list[str]()
            for reference in sample.references:
                if left[form(reference)] == 0:
                    remaining.append(reference)
                elif rule == "drop_cumulative":
                    left[form(reference)] -= 1
            kept[key] = tuple(remaining)
        if not kept[key]:
            failures.add(sample.id, "reference", "none is left once the rated captions are removed")
        result.append(sample._replace(references=kept[key]) if kept[key] else None)
    return result


def _letters_and_digits(text: str) -> str:
    # Marks are part of a letter: vowels of Hindi, accents written apart.
    return "".join(character for character in text.lower() if unicodedata.category(character)[0] in "LMN")
