"""Makes captions and their changed versions of the documents of a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....adapters import ImageHandle, VideoHandle
from ...inputs.failures import FailureLog
from ...inputs.items import CaptionRow, image_key, references_fault, references_of
from ...inputs.pixels import pixels_value, view_fault
from ..document_reader import DocumentReader
from ..job import Job
from .captions import sentences
from .games import typical
from .given import Corpus, Donor, Given, Unchanged
from .rules import CHANGES
from .settings import ChecklistSettings
from .words import load, words_of

CLEAN = "clean"
NAMES = (CLEAN, *(rule.name for rule in CHANGES))
"""What a sample is: a caption as it was, or changed by a rule."""


@dataclass(frozen=True)
class Caption:
    """A human caption that rules change.

    Attributes:
        id: Its name: the document's, with the number of the caption behind ``#``.
        document: The document's.
        image: The image.
        text: The caption.
        references: The other captions of the image.
        pixels: Where the image or video is; None where it is not known.
    """

    id: str
    document: str
    image: str
    text: str
    references: tuple[str, ...]
    pixels: ImageHandle | VideoHandle | None = None


@dataclass(frozen=True)
class Version:
    """A caption as it was, or changed, or not changed.

    Attributes:
        number: Place of its name in :data:`NAMES`.
        row: The caption to score; None where the rule found nothing to change.
        reason: Why it did not.
    """

    number: int
    row: CaptionRow | None
    reason: str = ""


def read_captions(
    job: Job, keys: Sequence[str], settings: ChecklistSettings, failures: FailureLog
) -> list[Caption]:
    """Return the captions that rules change, in the data set's order."""
    found: list[Caption] = []
    for identity, values in DocumentReader(job, keys).read(failures):
        captions = references_of(values["doc_to_target"])
        if fault := references_fault(captions):
            failures.add(identity, "candidate", fault.replace("reference", "caption"))
        elif len(captions) < 2:
            failures.add(
                identity, "reference", "is missing: of its captions one is changed, the others are references"
            )
        elif fault := view_fault(job.task, values):
            failures.add(identity, "image", fault)
        else:
            found += _captions(job, identity, values, captions, settings)
    return found


def _captions(
    job: Job, identity: str, values: dict[str, Any], captions: Sequence[str], settings: ChecklistSettings
) -> Iterator[Caption]:
    image = identity if values["doc_to_image"] is None else image_key(values["doc_to_image"])
    for number in range(len(captions) if settings.captions == "all" else 1):
        others = (*captions[:number], *captions[number + 1 :])
        pixels = job.pixels(pixels_value(values))
        yield Caption(f"{identity}#{number}", identity, image, captions[number], others, pixels)


def changed(
    captions: Sequence[Caption], settings: ChecklistSettings
) -> Iterator[tuple[Caption, list[Version]]]:
    """Yield each caption with all of its versions, in the order of :data:`NAMES`.

    Raises:
        DataError: Something that the reader needs is missing.
    """
    corpus = _corpus(captions, settings)
    for caption, read in zip(captions, corpus.reader.read([one.text for one in captions]), strict=True):
        given = Given(caption.image, caption.text, read, caption.references, corpus)
        clean = CaptionRow(caption.id, caption.image, caption.text, caption.references, pixels=caption.pixels)
        yield caption, [Version(0, clean), *_versions(clean, given)]


def _versions(clean: CaptionRow, given: Given) -> Iterator[Version]:
    for number, rule in enumerate(CHANGES, 1):
        try:
            text = rule.change(given)
        except Unchanged as reason:
            yield Version(number, None, str(reason))
            continue
        # What counts n-grams in the data's captions counts them once an image, however often it was changed.
        yield Version(number, replace(clean, id=f"{clean.id}|{rule.name}", candidate=text, weight=0))


def _corpus(captions: Sequence[Caption], settings: ChecklistSettings) -> Corpus:
    words, reader = load(), settings.caption_reader()
    seen: Counter[str] = Counter()
    for texts in {one.image: (one.text, *one.references) for one in captions}.values():
        for text in texts:
            seen.update(words_of(text))
    last = [sentences(one.text)[-1] for one in captions]
    donors = [
        Donor(one.image, sentence, read.nouns)
        for one, sentence, read in zip(captions, last, reader.read(last), strict=True)
        if read.nouns
    ]
    best = typical([one.text for one in captions], seen)
    return Corpus(words, reader, settings.seed, seen, settings.least_seen, donors, best)
