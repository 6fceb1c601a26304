"""The choices of a checklist."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import ClassVar, Literal

from pydantic import Field

from ..contract import ProtocolSettings
from .captions import CaptionReader
from .lists_reader import ListsReader
from .rules import VERSION
from .spacy_reader import SpacyReader
from .words import load


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
