"""Captions of an image to choose from, and what people chose, read from documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....adapters import Box, ImageHandle, VideoHandle
from ...inputs.failures import FailureLog
from ...inputs.items import candidate_fault, image_key, printable, references_fault, references_of
from ...inputs.pixels import boxes_of, pixels_value, span_of, view_fault
from ..document_reader import DocumentReader, is_list
from ..job import Job
from .judgements import VoteReading, pairs_of_ranking, shares_of


@dataclass(frozen=True)
class Part:
    """One part of a choice, its captions held against the same references; ``id`` is the document's."""

    id: str
    captions: tuple[str, ...]
    references: tuple[str, ...]
    pixels: ImageHandle | VideoHandle | None = None
    boxes: tuple[Box, ...] | None = None


@dataclass(frozen=True)
class Choice:
    """Two captions of one image or more, each in one or more parts (sentences) with references of their own.

    Attributes:
        id: Its name.
        image: Which image it is of.
        category: Its part of the data; empty where there are none.
        shares: What share of the votes each caption has.
        systems: What wrote each; empty where the data does not say.
        verdicts: Name of a judge to what share of its votes each caption has; NaN of one that gave none.
        parts: Its parts, of as many captions each.
    """

    id: str
    image: str
    category: str
    shares: tuple[float, ...]
    systems: tuple[str, ...] = ()
    verdicts: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    parts: list[Part] = field(default_factory=list[Part])

    @property
    def preferred(self) -> int | None:
        """The caption that most votes are for; None where several have as many."""
        most = max(self.shares)
        return self.shares.index(most) if self.shares.count(most) == 1 else None


def read_choices(
    job: Job, keys: Sequence[str], reading: VoteReading, failures: FailureLog
) -> Iterator[Choice]:
    """Yield the choices whose documents can all be used, in the data set's order."""
    documents = _documents(job, keys, reading, failures)
    if "doc_to_pair" not in job.task.templates:
        yield from (choice for choice, usable in documents if usable)
        return
    choices: dict[str, Choice] = {}
    broken: set[str] = set()
    for document, usable in documents:
        if not usable:
            broken.add(document.id)
            continue
        choice = choices.setdefault(document.id, document)
        if (choice.shares, choice.systems) != (document.shares, document.systems):
            failures.add(
                document.parts[0].id, "rating", f"contradicts an earlier document of pair '{choice.id}'"
            )
            broken.add(choice.id)
        elif choice is not document:
            choice.parts.extend(document.parts)
    # A choice of which a part is missing would compare other texts than the data set does.
    for part in (part for name in choices if name in broken for part in choices[name].parts):
        failures.add(part.id, "data", "is of a pair of which another document cannot be used")
    yield from (choice for name, choice in choices.items() if name not in broken)


def _documents(
    job: Job, keys: Sequence[str], reading: VoteReading, failures: FailureLog
) -> Iterator[tuple[Choice, bool]]:
    """Yield the choices of each document with that one as their part, and whether it can be used."""
    for identity, values in DocumentReader(job, keys).read(failures):
        pair = values.get("doc_to_pair")
        name = identity if pair is None else printable(str(pair))
        if fault := _fault(job, values):
            failures.add(identity, *fault)
            yield Choice(name, "", "", ()), False
            continue
        found, verdicts = _judged(name, values, reading), _verdicts(values, reading)
        if isinstance(found, str) or isinstance(verdicts, str):
            failures.add(identity, "rating", found if isinstance(found, str) else str(verdicts))
            yield Choice(name, "", "", ()), False
            continue
        references = tuple(references_of(values["doc_to_target"]))
        image = identity if values["doc_to_image"] is None else image_key(values["doc_to_image"])
        category = "" if values["doc_to_category"] is None else printable(str(values["doc_to_category"]))
        pixels = job.pixels(pixels_value(values), span_of(values["doc_to_span"]))
        boxes, systems = boxes_of(values["doc_to_boxes"]), _systems(values)
        for called, chosen, shares in found:
            captions = tuple(values["doc_to_candidates"][number] for number in chosen)
            part = Part(identity, captions, references, pixels, boxes)
            wrote = tuple(systems[number] for number in chosen) if systems else ()
            yield Choice(called, image, category, shares, wrote, verdicts, [part]), True


def _judged(
    name: str, values: Mapping[str, Any], reading: VoteReading
) -> list[tuple[str, Sequence[int], tuple[float, ...]]] | str:
    """Return name, captions by number and shares of the choices in a document, or why they cannot be used."""
    count = len(values["doc_to_candidates"])
    if values.get("doc_to_ranking") is None:
        shares = shares_of(values["doc_to_preferred"], count, reading, _systems(values))
        return shares if isinstance(shares, str) else [(name, range(count), shares)]
    pairs = pairs_of_ranking(values["doc_to_ranking"], count)
    if isinstance(pairs, str):
        return pairs
    return [(f"{name}|{one}|{other}", (one, other), shares) for one, other, shares in pairs]


def _verdicts(values: Mapping[str, Any], reading: VoteReading) -> dict[str, tuple[float, ...]] | str:
    """Return what judges say, by name, or why a verdict is none; one that is null is not there."""
    count = len(values["doc_to_candidates"])
    found: dict[str, tuple[float, ...]] = {}
    given: Mapping[str, Any] = values.get("doc_to_verdict") or {}
    for name, verdict in given.items():
        shares = (math.nan,) * count
        if verdict is not None:
            shares = shares_of(verdict, count, reading, _systems(values))
        if isinstance(shares, str):
            return f"of {name} {shares}"
        found[name] = shares
    return found


def _systems(values: Mapping[str, Any]) -> list[str]:
    return [printable(str(system)) for system in values.get("doc_to_systems") or ()]


def _fault(job: Job, values: Mapping[str, Any]) -> tuple[Any, str] | None:
    candidates = values["doc_to_candidates"]
    if not is_list(candidates) or len(candidates) < 2:
        return "candidate", "is not a list of two captions or more"
    for caption in candidates:
        if fault := candidate_fault(caption):
            return "candidate", fault
    target = references_of(values["doc_to_target"])
    templates = job.task.templates
    if "doc_to_target" in templates and (fault := references_fault(target)):
        return "reference", fault
    if "doc_to_category" in templates and _says_nothing(values["doc_to_category"]):
        return "data", "has no category"
    if "doc_to_systems" in templates:
        systems = values["doc_to_systems"]
        if not is_list(systems) or len(systems) != len(candidates) or any(map(_says_nothing, systems)):
            return "data", f"does not name what wrote each of its {len(candidates)} captions: {systems!r:.80}"
        if len(set(map(str, systems))) < len(systems):
            return "data", f"has two captions of one system: {systems!r:.80}"
    if fault := view_fault(job.task, values):
        return "image", fault
    return None


def _says_nothing(value: Any) -> bool:
    return value is None or not str(value).strip()
