"""Makes captions and their changed versions of the documents of a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pydantic import Field

from ....adapters import ImageHandle, VideoHandle
from ...inputs.failures import FailureLog
from ...inputs.items import CaptionRow, references_fault, references_of
from ..contract import ProtocolSettings
from ..document_reader import Document, UnusableDocument, read_documents
from ..job import Job
from .captions import CaptionReader, sentences
from .readers import ListsReader, SpacyReader
from .rules import CHANGES, VERSION, Corpus, Donor, NothingToChange, RuleInput, typical
from .words import load, words_of

CLEAN = "clean"
NAMES = (CLEAN, *(rule.name for rule in CHANGES))
"""What a sample is: a caption as it was, or changed by a rule."""


class ChecklistSettings(ProtocolSettings):
    """The choices of a checklist that move a number."""

    reader: Literal["lists", "spacy"] = "lists"
    """What finds nouns, adjectives, phrases and verbs."""
    pipeline: str = "en_core_web_md"
    """The pipeline of ``spacy``: a package's name or a folder."""
    captions: Literal["first", "all"] = "first"
    """Which captions of a document are changed."""
    least_seen: int = Field(default=3, ge=1)
    """An object is replaced by nouns that so many captions of the data have, at least."""
    seed: int = 0
    """What every choice among several places follows from, with the rule and the caption."""
    rules: int = VERSION
    """The version of the rules."""
    words: str = Field(default_factory=lambda: load().digest)
    """Hash of the lists of words."""

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {
        "reader": {
            "lists": "lists of words that ship: needs nothing, and changes only what they leave no doubt of",
            "spacy": "a parser of spaCy, and WordNet for objects of one kind: both have to be installed",
        },
        "captions": {
            "first": "the first caption of a document is changed; the others are its references",
            "all": "each caption of a document is changed in turn; the others are its references",
        },
        "least_seen": "an object is replaced by a noun that so many captions of the data have, at least",
        "seed": "decides, with the rule and the caption, which of several places is changed",
        "rules": "version of the rules",
        "words": "hash of the lists of words",
    }

    def idle(self) -> Set[str]:
        """Return the pipeline where none is used."""
        return set() if self.reader == "spacy" else {"pipeline"}

    def caption_reader(self) -> CaptionReader:
        """Return what reads captions."""
        return SpacyReader(self.pipeline, load()) if self.reader == "spacy" else ListsReader(load())


@dataclass(frozen=True)
class SourceCaption:
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
) -> list[SourceCaption]:
    """Return the captions that rules change, in the data set's order."""

    def read(document: Document) -> Iterator[SourceCaption]:
        captions = references_of(document["doc_to_target"])
        if fault := references_fault(captions):
            raise UnusableDocument("candidate", fault.replace("reference", "caption"))
        if len(captions) < 2:
            reason = "is missing: of its captions one is changed, the others are references"
            raise UnusableDocument("reference", reason)
        document.check_view()
        for number in range(len(captions) if settings.captions == "all" else 1):
            others = (*captions[:number], *captions[number + 1 :])
            yield SourceCaption(
                f"{document.id}#{number}", document.id, document.image, captions[number], others, document.pixels
            )

    return [one for _, found in read_documents(job, keys, read, failures) for one in found]


def changed(
    captions: Sequence[SourceCaption], settings: ChecklistSettings
) -> Iterator[tuple[SourceCaption, list[Version]]]:
    """Yield each caption with all of its versions, in the order of :data:`NAMES`.

    Raises:
        DataError: Something that the reader needs is missing.
    """
    corpus = _corpus(captions, settings)
    for caption, read in zip(captions, corpus.reader.read([one.text for one in captions]), strict=True):
        given = RuleInput(caption.image, caption.text, read, caption.references, corpus)
        clean = CaptionRow(caption.id, caption.image, caption.text, caption.references, pixels=caption.pixels)
        yield caption, [Version(0, clean), *_versions(clean, given)]


def _versions(clean: CaptionRow, given: RuleInput) -> Iterator[Version]:
    for number, rule in enumerate(CHANGES, 1):
        try:
            text = rule.change(given)
        except NothingToChange as reason:
            yield Version(number, None, str(reason))
            continue
        # What counts n-grams in the data's captions counts them once an image, however often it was changed.
        yield Version(number, replace(clean, id=f"{clean.id}|{rule.name}", candidate=text, weight=0))


def _corpus(captions: Sequence[SourceCaption], settings: ChecklistSettings) -> Corpus:
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
