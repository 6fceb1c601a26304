"""Captions without what a detector does not find in the image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ....adapters import Detector
from ....adapters.pixels.reading import UnreadableImage
from ....metrics.capture.scene_graphs import Graph
from ..contract import Stage, StageSettings
from ..elements import ParserChoice, graphs_of
from ..models import MakerModels
from ..phrases import (
    THRESHOLD,
    FilteredCaption,
    Scoring,
    bare_phrases,
    local_caption_without,
    named_phrases,
    phrase_scores,
    sentence_without,
)
from ..rows import Made, MakingRow, Unmade

_SENTENCES = re.compile(r"(?<=[.!?])\s+")


class PhraseFilterSettings(StageSettings):
    """Its keys."""

    captions: str
    """The value that is filtered: a caption of the whole, sentence by sentence, or a list of captions of parts."""
    to: str
    """The value that is made."""
    phrases: Literal["released", "named"] = "released"
    """What is looked for in captions of parts: of the released code, the objects that have no attribute; or all that is
    named, objects with each of their attributes, as in captions of the whole."""
    scoring: Scoring = "released"
    """Whether a phrase's score is the best of boxes that it wins, or of all boxes."""
    threshold: Annotated[float, Field(ge=0)] = THRESHOLD
    unit: Literal["phrase", "sentence"] = "phrase"
    """What goes: a phrase; or the sentence, or caption of a part, that has one (an ablation of the paper)."""
    parser: ParserChoice = ParserChoice()


class PhraseFilter(Stage):
    """Takes out of captions what a detector does not find in the whole image.

    Provenance gets ``removed``: the phrase, its score, why it went, and what was taken out for it.
    """

    Settings = PhraseFilterSettings
    settings: PhraseFilterSettings
    roles = ("detector",)

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return (self.settings.captions,)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with its captions filtered; one of which no sentence is left is unmade."""
        pieces = [_pieces(row.values[self.settings.captions]) for row in rows]
        every = [piece for its in pieces for piece in its]
        graphs = graphs_of(every, self.settings.parser.build(), models.cache) if every else {}
        made: list[Made] = []
        for row, its in zip(rows, pieces, strict=True):
            is_whole = isinstance(row.values[self.settings.captions], str)
            try:
                filtered = [
                    self._filtered(row, one, graphs[one], is_whole, models["detector"]) for one in its
                ]
            except UnreadableImage as error:
                made.append(Unmade(f"image: {error}"))
                continue
            made.append(self._row(row, filtered, is_whole, models))
        return made

    def _filtered(
        self, row: MakingRow, text: str, graph: Graph | str, is_whole: bool, detector: Detector
    ) -> FilteredCaption:
        settings = self.settings
        # Of what cannot be read nothing is known to be missing.
        if isinstance(graph, str):
            return FilteredCaption(text, (), ())
        bare = not is_whole and settings.phrases == "released"
        phrases = bare_phrases(graph, text) if bare else named_phrases(graph, text)
        if not phrases:
            return FilteredCaption(text, (), ())
        # The release asks for the whole local caption, too, with which phrases compete.
        asked = phrases if is_whole else [*phrases, text]
        scores = phrase_scores(detector.detect(row.pixels, asked), settings.scoring, settings.threshold)
        without = sentence_without if is_whole else local_caption_without
        return without(text, phrases, scores, settings.threshold)

    def _row(
        self, row: MakingRow, filtered: Sequence[FilteredCaption], is_whole: bool, models: MakerModels
    ) -> Made:
        whole_goes = self.settings.unit == "sentence"
        texts = [one.text.strip() for one in filtered if not (whole_goes and one.removed)]
        if is_whole and not texts:
            return Unmade("no sentence is left")
        removed = [dict(vars(gone)) for one in filtered for gone in one.removed]
        for gone in removed:
            gone["texts"] = list(gone["texts"])
        about: dict[str, Any] = {
            "model": models.name("detector"),
            "scoring": self.settings.scoring,
            "threshold": self.settings.threshold,
            "parents": [self.settings.captions],
            "counts": {
                "phrases kept": sum(len(one.kept) for one in filtered),
                "phrases removed": len(removed),
            },
            **({"removed": removed} if removed else {}),
        }
        return row.having(self.name, about, **{self.settings.to: " ".join(texts) if is_whole else texts})


def _pieces(captions: str | Sequence[str]) -> list[str]:
    return [one for one in _SENTENCES.split(captions) if one] if isinstance(captions, str) else list(captions)
