"""Which phrases of a caption are in the image, by a detector, and the caption without the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ...adapters.regions.contracts import Detections
from ...errors import UsageError
from ...metrics.capture.scene_graphs import Graph


def kept_boxes(boxes: np.ndarray, scores: np.ndarray, most: float) -> np.ndarray:
    """Return the boxes that no better one overlaps, the best first.

    Args:
        boxes: Left, top, right, bottom, ``[n, 4]``. A box without area overlaps none.
        scores: How good they are, ``[n]``; of equal ones the first is the better.
        most: IoU above which a box goes.

    Returns:
        Their positions, int64 ``[kept]``.
    """
    left = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    edges = np.asarray(boxes, np.float64).reshape(-1, 4)[left]
    kept = []
    while len(left):
        kept.append(left[0])
        stays = ~(_overlaps(edges[0], edges) > most)
        stays[0] = False
        left, edges = left[stays], edges[stays]
    return np.array(kept, np.int64)


def _overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return the IoU of a box and others, 0 where neither has an area."""
    shared = np.maximum(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]), 0).prod(axis=1)
    union = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - shared
    return np.divide(shared, union, out=np.zeros(len(boxes)), where=union > 0)


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


def phrase_scores(found: Detections, scoring: Scoring = "released", threshold: float = THRESHOLD) -> np.ndarray:
    """Return how sure it is that each phrase is in an image.

    ``released``, as in DetailCaps: of the boxes that no better one overlaps by an IoU above 0.1, whatever they are of,
    each counts for the phrase that scores highest in it, if that is above the threshold. So a phrase that wins no box
    has 0, and what else is asked for decides, too. ``per_phrase``: its best score in any box.

    Args:
        found: What the detector found of these phrases.
        scoring: How.
        threshold: Score that a box must be above; of ``released``.

    Returns:
        float64 ``[phrases]``, 0 to 1; zeros where there is no box.

    Raises:
        UsageError: ``scoring`` is neither.
    """
    if scoring not in ("released", "per_phrase"):
        raise UsageError(f"scoring={scoring} is not known.", "Known are released, per_phrase.")
    scores = np.asarray(found.scores, np.float64)
    phrases = scores.shape[1]
    if not scores.size:
        return np.zeros(phrases)
    if scoring == "per_phrase":
        return scores.max(axis=0)
    best = np.zeros(phrases)
    winners, highest = scores.argmax(axis=1), scores.max(axis=1)
    kept = kept_boxes(found.boxes, highest, _OVERLAP)
    kept = kept[highest[kept] > threshold]
    np.maximum.at(best, winners[kept], highest[kept])
    return best


def local_caption_without(
    caption: str, phrases: Sequence[str], scores: np.ndarray, threshold: float = THRESHOLD
) -> FilteredCaption:
    """Return a local caption without the phrases that are not in the image, with the rest of the words they stand in.

    The release asks the detector for the phrases and, last, the caption, which competes with them and always stays. A
    phrase is looked for as it is written; the release takes it for a regular expression.

    Args:
        caption: The caption of a part of the image.
        phrases: What it names.
        scores: One of each phrase; that of the caption may stand behind them.
        threshold: Score below which a phrase goes.

    Raises:
        UsageError: A phrase is blank, or there are fewer scores than phrases.
    """
    return _without(caption, phrases, scores, threshold, whole_words=True)


def sentence_without(
    sentence: str, phrases: Sequence[str], scores: np.ndarray, threshold: float = THRESHOLD
) -> FilteredCaption:
    """Return a sentence of an overall caption without the phrases that are not in the image, inside words, too.

    Args:
        sentence: The sentence.
        phrases: What it names.
        scores: One of each phrase.
        threshold: Score below which a phrase goes.

    Raises:
        UsageError: A phrase is blank, or there are fewer scores than phrases.
    """
    return _without(sentence, phrases, scores, threshold, whole_words=False)


def _without(
    text: str, phrases: Sequence[str], scores: np.ndarray, threshold: float, *, whole_words: bool
) -> FilteredCaption:
    if len(scores) < len(phrases):
        raise UsageError(f"{len(phrases)} phrases have {len(scores)} scores.", "Each phrase has one.")
    kept: list[tuple[str, float]] = []
    removed: list[RemovedPhrase] = []
    for phrase, score in zip(phrases, map(float, scores), strict=False):
        if not phrase.strip():
            raise UsageError(f"a phrase of '{text}' is blank", "A phrase has words.")
        if score >= threshold:
            kept.append((phrase, score))
            continue
        rest = "[a-z]*" if whole_words else ""
        pattern = re.compile(f"{rest}{re.escape(phrase)}{rest}")
        reason = f"scores {score:.3g}, below {threshold:g}" if score > 0 else "is in no box"
        removed.append(RemovedPhrase(phrase, score, reason, tuple(pattern.findall(text))))
        text = pattern.sub("", text)
    return FilteredCaption(text, tuple(kept), tuple(removed))


def _different(phrases: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(phrase for phrase in phrases if phrase.strip()))
