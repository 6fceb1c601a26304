"""Captions without what a detector does not find in the image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ....adapters import CaptionRequest
from ....adapters.contracts import Captioned
from ....adapters.pixels.reading import UnreadableImage
from ....benchmarks.inputs.asking import merged
from ....metrics.capture.scene_graphs import Graph
from ....metrics.judging import fill
from ..asking import says_yes
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

_SHORT = {"max_new_tokens": 8, "do_sample": False}
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
    by: Literal["detector", "answerer"] = "detector"
    """Who looks: a detector, or (an ablation of the paper) a model that is asked of each phrase whether it is there."""
    question: str = "Is there {article} {phrase} in the image?"
    """What an answerer is asked; what it does not deny stays."""
    scoring: Scoring = "released"
    """Whether a phrase's score is the best of boxes that it wins, or of all boxes."""
    threshold: Annotated[float, Field(ge=0)] = THRESHOLD
    """A phrase with a lower score is not in the image."""
    unit: Literal["phrase", "sentence"] = "phrase"
    """What goes: a phrase; or the sentence, or caption of a part, that has one (an ablation of the paper)."""
    parser: ParserChoice = ParserChoice()
    """What finds the phrases of a sentence."""


@dataclass(frozen=True)
class _Piece:
    """A caption, or a sentence of one, with what is looked for of it."""

    row: MakingRow
    text: str
    phrases: list[str]
    is_whole: bool


class PhraseFilter(Stage):
    """Takes out of captions what is not found in the whole image, by a detector or by asking of each phrase.

    Provenance gets ``removed``: the phrase, its score, why it went, and what was taken out for it.
    """

    Settings = PhraseFilterSettings
    settings: PhraseFilterSettings

    def __init__(self, name: str, settings: PhraseFilterSettings, seed: int) -> None:
        super().__init__(name, settings, seed)
        self.roles = (settings.by,)  # pyright: ignore[reportAttributeAccessIssue]

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return (self.settings.captions,)

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return (self.settings.to,)

    def check(self) -> None:
        """Raise if the parser cannot be used here; see ``Stage.check``."""
        self.settings.parser.build().check()

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with its captions filtered; one of which no sentence is left is unmade."""
        pieces = self._pieces(rows, models)
        flat = [piece for its in pieces for piece in its]
        look = self._by_detector if self.settings.by == "detector" else self._by_answers
        scores = iter(look(flat, models))
        made: list[Made] = []
        for row, its in zip(rows, pieces, strict=True):
            filtered: list[FilteredCaption] = []
            fault: Unmade | None = None
            for piece, found in zip(its, [next(scores) for _ in its], strict=True):
                if isinstance(found, Unmade):
                    fault = fault or found
                else:
                    without = sentence_without if piece.is_whole else local_caption_without
                    filtered.append(without(piece.text, piece.phrases, found, self.settings.threshold))
            is_whole = isinstance(row.values[self.settings.captions], str)
            made.append(fault or self._row(row, filtered, is_whole, models))
        return made

    def _pieces(self, rows: Sequence[MakingRow], models: MakerModels) -> list[list[_Piece]]:
        captions = [row.values[self.settings.captions] for row in rows]
        texts = [_split(one) for one in captions]
        every = [text for its in texts for text in its]
        graphs = graphs_of(every, self.settings.parser.build(), models.cache) if every else {}

        def piece(row: MakingRow, text: str, is_whole: bool) -> _Piece:
            return _Piece(row, text, self._phrases(graphs[text], text, is_whole), is_whole)

        return [
            [piece(row, text, isinstance(caption, str)) for text in its]
            for row, caption, its in zip(rows, captions, texts, strict=True)
        ]

    def _phrases(self, graph: Graph | str, text: str, is_whole: bool) -> list[str]:
        # Of what cannot be read nothing is known to be missing.
        if isinstance(graph, str):
            return []
        bare = not is_whole and self.settings.phrases == "released"
        return bare_phrases(graph, text) if bare else named_phrases(graph, text)

    def _by_detector(self, pieces: Sequence[_Piece], models: MakerModels) -> Iterator[np.ndarray | Unmade]:
        detector, settings = models["detector"], self.settings
        for piece in pieces:
            if not piece.phrases:
                yield np.zeros(0)
                continue
            # The release asks for the whole local caption, too, with which phrases compete.
            asked = piece.phrases if piece.is_whole else [*piece.phrases, piece.text]
            try:
                found = detector.detect(piece.row.pixels, asked)
            except UnreadableImage as error:
                yield Unmade(f"image: {error}")
                continue
            yield phrase_scores(found, settings.scoring, settings.threshold)

    def _by_answers(self, pieces: Sequence[_Piece], models: MakerModels) -> Iterator[np.ndarray | Unmade]:
        """Yield 1 for each phrase, and 0 for those of which the model says that they are not there."""
        asked = [(number, phrase) for number, piece in enumerate(pieces) for phrase in piece.phrases]
        rows = [pieces[number].row for number, _ in asked]
        requests = [
            CaptionRequest(row.id, row.id, self._question(phrase), _SHORT, pixels=row.pixels)
            for row, (_, phrase) in zip(rows, asked, strict=True)
        ]
        answers = merged(models["answerer"].stream(requests)) if requests else Captioned()
        scores: list[list[float]] = [[] for _ in pieces]
        faults: dict[int, Unmade] = {}
        for at, (number, _) in enumerate(asked):
            if at in answers.captions:
                scores[number].append(float(says_yes(answers.captions[at].text) is not False))
            elif at in answers.unseen:
                faults[number] = Unmade(f"image: {answers.unseen[at]}")
            else:
                faults[number] = Unmade(answers.failures.get(at, "was not answered"), passing=True)
        for number, its in enumerate(scores):
            yield faults.get(number, np.array(its))

    def _question(self, phrase: str) -> str:
        article = "an" if phrase[:1].lower() in "aeiou" else "a"
        return fill(self.settings.question, phrase=phrase, article=article)

    def _row(self, row: MakingRow, filtered: Sequence[FilteredCaption], is_whole: bool, models: MakerModels) -> Made:
        whole_goes = self.settings.unit == "sentence"
        texts = [one.text.strip() for one in filtered if not (whole_goes and one.removed)]
        if is_whole and not texts:
            return Unmade("no sentence is left")
        removed = [dict(vars(gone)) for one in filtered for gone in one.removed]
        for gone in removed:
            gone["texts"] = list(gone["texts"])
        about: dict[str, Any] = {
            "model": models.name(self.settings.by),
            "scoring": self.settings.scoring,
            "threshold": self.settings.threshold,
            "parents": [self.settings.captions],
            "counts": {"phrases kept": sum(len(one.kept) for one in filtered), "phrases removed": len(removed)},
            **({"removed": removed} if removed else {}),
        }
        return row.having(self.name, about, **{self.settings.to: " ".join(texts) if is_whole else texts})


def _split(captions: str | Sequence[str]) -> list[str]:
    return [one for one in _SENTENCES.split(captions) if one] if isinstance(captions, str) else list(captions)
