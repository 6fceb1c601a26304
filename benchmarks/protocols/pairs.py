"""Pairs of captions, read from documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...adapters import Box, ImageHandle, VideoHandle
from ...rows import parse_number
from ..inputs.failures import FailureLog
from ..inputs.items import candidate_fault, image_key, printable, references_fault, references_of
from ..inputs.pixels import boxes_of, pixels_value, span_of, view_fault
from .document_reader import DocumentReader, is_list
from .job import Job


@dataclass(frozen=True)
class Part:
    """One part of a pair, its two captions held against the same references; ``id`` is the document's."""

    id: str
    captions: tuple[str, str]
    references: tuple[str, ...]
    pixels: ImageHandle | VideoHandle | None = None
    boxes: tuple[Box, ...] | None = None


@dataclass(frozen=True)
class Pair:
    """Two captions of one image, each in one or more parts (sentences) with references of their own."""

    id: str
    image: str
    category: str
    preferred: int
    parts: list[Part] = field(default_factory=list[Part])


def read_pairs(job: Job, keys: Sequence[str], failures: FailureLog) -> Iterator[Pair]:
    """Yield the pairs whose documents can all be used, in the data set's order."""
    documents = _documents(job, keys, failures)
    if "doc_to_pair" not in job.task.templates:
        yield from (pair for pair, usable in documents if usable)
        return
    pairs: dict[str, Pair] = {}
    broken: set[str] = set()
    for document, usable in documents:
        if not usable:
            broken.add(document.id)
            continue
        pair = pairs.setdefault(document.id, document)
        if pair.preferred != document.preferred:
            failures.add(
                document.parts[0].id, "rating", f"contradicts an earlier document of pair '{pair.id}'"
            )
            broken.add(pair.id)
        elif pair is not document:
            pair.parts.extend(document.parts)
    # A pair of which a part is missing would compare other texts than the data set does.
    for part in (part for name in pairs if name in broken for part in pairs[name].parts):
        failures.add(part.id, "data", "is of a pair of which another document cannot be used")
    yield from (pair for name, pair in pairs.items() if name not in broken)


def _documents(job: Job, keys: Sequence[str], failures: FailureLog) -> Iterator[tuple[Pair, bool]]:
    """Yield the pair of each document with that one as its part, and whether it can be used."""
    for identity, values in DocumentReader(job, keys).read(failures):
        name = identity if values["doc_to_pair"] is None else printable(str(values["doc_to_pair"]))
        if fault := _fault(job, values):
            failures.add(identity, *fault)
            yield Pair(name, "", "", 0), False
            continue
        first, second = values["doc_to_candidates"]
        references = tuple(references_of(values["doc_to_target"]))
        image = identity if values["doc_to_image"] is None else image_key(values["doc_to_image"])
        category = "" if values["doc_to_category"] is None else printable(str(values["doc_to_category"]))
        pixels = job.pixels(pixels_value(values), span_of(values["doc_to_span"]))
        part = Part(identity, (first, second), references, pixels, boxes_of(values["doc_to_boxes"]))
        yield Pair(name, image, category, int(_preferred(values)), [part]), True


def _fault(job: Job, values: Mapping[str, Any]) -> tuple[Any, str] | None:
    candidates = values["doc_to_candidates"]
    if not is_list(candidates) or len(candidates) != 2:
        return "candidate", "is not a pair of captions"
    for caption in candidates:
        if fault := candidate_fault(caption):
            return "candidate", fault
    target = references_of(values["doc_to_target"])
    if "doc_to_target" in job.task.templates and (fault := references_fault(target)):
        return "reference", fault
    if _preferred(values) not in (0, 1):
        return "rating", f"is neither 0 nor 1: {values['doc_to_preferred']!r:.80}"
    if fault := view_fault(job.task, values):
        return "image", fault
    return None


def _preferred(values: Mapping[str, Any]) -> float:
    """Return which caption is preferred, as a number; NaN if that is none."""
    try:
        return parse_number(values["doc_to_preferred"])
    except (TypeError, ValueError, OverflowError):
        return math.nan
