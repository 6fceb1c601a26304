"""Removes phrases from captions that a detector does not find in the image."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import torch
from pydantic import Field
from torchvision.ops import nms

from ....adapters import CaptionRequest
from ....adapters.contracts import Captioned
from ....adapters.images.reading import UnreadableImage
from ....adapters.regions.contracts import Detections
from ....benchmarks.inputs.asking import merged
from ....metrics.capture.scene_graphs import Graph
from ....metrics.judging import fill
from ..asking import says_yes
from ..contract import Generated, NotGenerated, PipelineModels, PipelineRow, Stage, StageSettings
from .elements import ParserChoice, graphs_of

THRESHOLD = 0.01
"""Score of a phrase below which it goes, as in DetailCaps."""
_OVERLAP = 0.1

Scoring: TypeAlias = Literal["released", "per_phrase"]


@dataclass(frozen=True)
class RemovedPhrase:
    """A phrase that was taken out of a caption.

    Attributes:
        phrase: The phrase.
        score: What the detector gave it, 0 to 1; 0 where it won no box.
        reason: Why it went.
        texts: What was taken out for it, with the rest of cut words; none where it went with another phrase.
    """

    phrase: str
    score: float
    reason: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class FilteredCaption:
    """A caption without the phrases that are not in the image.

    Attributes:
        text: What is left; its spaces stay as they were, for a later stage to mend.
        kept: The phrases that stay, and their scores.
        removed: The phrases that went.
    """

    text: str
    kept: tuple[tuple[str, float], ...]
    removed: tuple[RemovedPhrase, ...]


def bare_phrases(graph: Graph, caption: str) -> list[str]:
    """Return the objects that have no attribute and occur in a caption: what the release looks for in local captions.

    Args:
        graph: What was read in the caption.
        caption: The caption, in which they must stand letter by letter.
    """
    with_attributes = {name for name, _ in graph.attributes}
    return _different(name for name in graph.objects if name not in with_attributes and name in caption)


def named_phrases(graph: Graph, sentence: str) -> list[str]:
    """Return what a sentence names: what the release looks for in the sentences of overall captions.

    Each attribute with its object, in either order, then the objects that were not found so.

    Args:
        graph: What was read in the sentence.
        sentence: The sentence, in which they must stand letter by letter.
    """
    pairs = [f"{attribute} {name}" for name, attribute in graph.attributes]
    turned = [f"{name} {attribute}" for name, attribute in graph.attributes]
    left = list(graph.objects)
    for (name, _), *either in zip(graph.attributes, pairs, turned, strict=True):
        if name in left and any(phrase in sentence for phrase in either):
            left.remove(name)
    return _different(phrase for phrase in (*pairs, *turned, *left) if phrase in sentence)


def phrase_scores(detections: Detections, scoring: Scoring = "released", threshold: float = THRESHOLD) -> np.ndarray:
    """Return the score of each phrase in an image.

    ``released``, as in DetailCaps: of the boxes of any phrase that no better one overlaps by an IoU above 0.1,
    each counts for the phrase that scores highest in it, if that is above the threshold. So a phrase that wins no box
    has 0, and the result depends on the other phrases. ``per_phrase``: its best score in any box.

    Args:
        detections: What the detector found of these phrases.
        scoring: How.
        threshold: Score that a box must be above; of ``released``.

    Returns:
        float64 ``[phrases]``, 0 to 1; zeros where there is no box.
    """
    scores = np.asarray(detections.scores, np.float64)
    phrases = scores.shape[1]
    if not scores.size:
        return np.zeros(phrases)
    if scoring == "per_phrase":
        return scores.max(axis=0)
    best = np.zeros(phrases)
    winners, highest = scores.argmax(axis=1), scores.max(axis=1)
    boxes = torch.as_tensor(np.asarray(detections.boxes, np.float64)).reshape(-1, 4)
    kept = nms(boxes, torch.from_numpy(highest), _OVERLAP).numpy()
    kept = kept[highest[kept] > threshold]
    np.maximum.at(best, winners[kept], highest[kept])
    return best


def caption_without(
    text: str, phrases: Sequence[str], scores: np.ndarray, threshold: float = THRESHOLD, *, whole_words: bool
) -> FilteredCaption:
    """Return a caption without the phrases that are not in the image.

    Of a local caption the release asks the detector for the phrases and, last, the caption, which competes with them
    and always stays. A phrase is looked for as it is written; the release takes it for a regular expression.

    Args:
        text: The caption of a part of the image, or a sentence of one of the whole.
        phrases: What it names.
        scores: One of each phrase; that of the caption may stand behind them.
        threshold: Score below which a phrase goes.
        whole_words: Whether the rest of the words goes, too, that a phrase stands in: of local captions.
    """
    kept: list[tuple[str, float]] = []
    removed: list[RemovedPhrase] = []
    rest = "[a-z]*" if whole_words else ""
    for phrase, score in zip(phrases, map(float, scores), strict=False):
        if score >= threshold:
            kept.append((phrase, score))
            continue
        pattern = re.compile(f"{rest}{re.escape(phrase)}{rest}")
        reason = f"scores {score:.3g}, below {threshold:g}" if score > 0 else "is in no box"
        removed.append(RemovedPhrase(phrase, score, reason, tuple(pattern.findall(text))))
        text = pattern.sub("", text)
    return FilteredCaption(text, tuple(kept), tuple(removed))


def _different(phrases: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(phrase for phrase in phrases if phrase.strip()))


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
    """The answerer's prompt; a phrase stays unless the answer is no."""
    scoring: Scoring = "released"
    """Whether a phrase's score is its best in the boxes that it wins, or in all boxes."""
    threshold: Annotated[float, Field(ge=0)] = THRESHOLD
    """A phrase with a lower score is not in the image."""
    unit: Literal["phrase", "sentence"] = "phrase"
    """What goes: a phrase; or the sentence, or caption of a part, that has one (an ablation of the paper)."""
    parser: ParserChoice = ParserChoice()
    """The parser of sentences."""


@dataclass(frozen=True)
class _Piece:
    """A caption, or a sentence of one, with its phrases."""

    row: PipelineRow
    text: str
    phrases: list[str]
    is_whole: bool


class PhraseFilter(Stage):
    """Removes phrases from captions that a detector, or an answerer, does not find in the whole image.

    Provenance gets ``removed``: the phrase, its score, the reason, and the removed texts.
    """

    Settings = PhraseFilterSettings
    settings: PhraseFilterSettings
    takes = ("{captions}",)
    gives = ("{to}",)

    def __init__(self, name: str, settings: PhraseFilterSettings, seed: int) -> None:
        super().__init__(name, settings, seed)
        self.roles = (settings.by,)  # pyrefly: ignore[read-only]

    def check(self) -> None:
        """Raise if the parser cannot be used here; see ``Stage.check``."""
        self.settings.parser.build().check()

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> Iterator[Generated]:
        """Yield each row with its captions filtered; one of which no sentence is left is unmade."""
        pieces = self._pieces(rows, models)
        flat = [piece for of_row in pieces for piece in of_row]
        look = self._by_detector if self.settings.by == "detector" else self._by_answers
        scores = iter(look(flat, models))
        for row, of_row in zip(rows, pieces, strict=True):
            filtered: list[FilteredCaption] = []
            fault: NotGenerated | None = None
            for piece, scored in zip(of_row, [next(scores) for _ in of_row], strict=True):
                if isinstance(scored, NotGenerated):
                    fault = fault or scored
                else:
                    threshold, local = self.settings.threshold, not piece.is_whole
                    filtered.append(caption_without(piece.text, piece.phrases, scored, threshold, whole_words=local))
            is_whole = isinstance(row.values[self.settings.captions], str)
            yield fault or self._row(row, filtered, is_whole, models)

    def _pieces(self, rows: Sequence[PipelineRow], models: PipelineModels) -> list[list[_Piece]]:
        captions = [row.values[self.settings.captions] for row in rows]
        texts = [[text for text in _SENTENCES.split(cap) if text] if isinstance(cap, str) else cap for cap in captions]
        every = [text for sentences in texts for text in sentences]
        graphs = graphs_of(every, self.settings.parser.build(), models.cache) if every else {}
        pieces: list[list[_Piece]] = [[] for _ in rows]
        for row, caption, sentences, of_row in zip(rows, captions, texts, pieces, strict=True):
            is_whole = isinstance(caption, str)
            find = named_phrases if is_whole or self.settings.phrases == "named" else bare_phrases
            for text in sentences:
                graph = graphs[text]
                # An unparsable text has no phrase that is known to be missing.
                of_row.append(_Piece(row, text, [] if isinstance(graph, str) else find(graph, text), is_whole))
        return pieces

    def _by_detector(self, pieces: Sequence[_Piece], models: PipelineModels) -> Iterator[np.ndarray | NotGenerated]:
        detector, settings = models["detector"], self.settings
        for piece in pieces:
            if not piece.phrases:
                yield np.zeros(0)
                continue
            # The release also queries the whole local caption, with which phrases compete.
            asked = piece.phrases if piece.is_whole else [*piece.phrases, piece.text]
            try:
                detections = detector.detect(piece.row.pixels, asked)
            except UnreadableImage as error:
                yield NotGenerated(f"image: {error}")
                continue
            yield phrase_scores(detections, settings.scoring, settings.threshold)

    def _question(self, phrase: str) -> str:
        return fill(self.settings.question, phrase=phrase, article="an" if phrase[:1].lower() in "aeiou" else "a")

    def _by_answers(self, pieces: Sequence[_Piece], models: PipelineModels) -> Iterator[np.ndarray | NotGenerated]:
        """Yield 0 for each phrase that the model denies, else 1."""
        asked = [(number, phrase) for number, piece in enumerate(pieces) for phrase in piece.phrases]
        rows = [pieces[number].row for number, _ in asked]
        requests = [
            CaptionRequest(row.id, row.id, self._question(phrase), _SHORT, pixels=row.pixels)
            for row, (_, phrase) in zip(rows, asked, strict=True)
        ]
        answers = merged(models["answerer"].stream(requests)) if requests else Captioned()
        scores: list[list[float]] = [[] for _ in pieces]
        faults: dict[int, NotGenerated] = {}
        for at, (number, _) in enumerate(asked):
            if at in answers.captions:
                scores[number].append(float(says_yes(answers.captions[at].text) is not False))
            elif at in answers.unseen:
                faults[number] = NotGenerated(f"image: {answers.unseen[at]}")
            else:
                faults[number] = NotGenerated(answers.failures.get(at, "was not answered"), passing=True)
        for number, values in enumerate(scores):
            yield faults.get(number, np.array(values))

    def _row(
        self, row: PipelineRow, filtered: Sequence[FilteredCaption], is_whole: bool, models: PipelineModels
    ) -> Generated:
        whole_goes = self.settings.unit == "sentence"
        texts = [part.text.strip() for part in filtered if not (whole_goes and part.removed)]
        if is_whole and not texts:
            return NotGenerated("no sentence is left")
        removed = [dict(vars(gone)) for part in filtered for gone in part.removed]
        about: dict[str, Any] = {
            "model": models.name(self.settings.by),
            "scoring": self.settings.scoring,
            "threshold": self.settings.threshold,
            "parents": [self.settings.captions],
            "counts": {"phrases kept": sum(len(part.kept) for part in filtered), "phrases removed": len(removed)},
            **({"removed": removed} if removed else {}),
        }
        return row.having(self.name, about, **{self.settings.to: " ".join(texts) if is_whole else texts})
