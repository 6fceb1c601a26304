"""CLIP-S and RefCLIP-S: the cosine of a caption with its image, and with its references."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import inf

import numpy as np

from .contract import Context, Metric, images_of
from .items import Items, Scores
from .vectors.features import Features, image_features, over_context, text_features

PROMPT = "A photo depicts "
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\s*\n\s*")

# Pairs of vectors that are multiplied at once: two times 50 MB at 768 float32.
_PAIRS_AT_ONCE = 16_384


class ClipS(Metric):
    """The cosine of image and caption in the space of a CLIP model, 0 if negative, times ``w``.

    As released: ``prompt`` and the caption, not preprocessed, are truncated to the model's context. The value
    is 0 to ``w``.

    ``Scores.parts``: ``image [n]``, the value; ``truncated [n]``, 1 where prompt and caption, or one of its
    sentences, have more tokens than the model takes, else 0.

    Args:
        w: Factor of the cosine.
        prompt: What stands before each text.
        sentences: Whether the cosine is the mean of those of the caption's sentences, each behind ``prompt``. They end
            at ``.``, ``!`` or ``?`` before white space, and at line breaks.

    Raises:
        ValueError: ``w`` is not a positive number, or ``sentences`` not true or false.
    """

    sentences = False
    label = "CLIP-S"
    range = (0.0, 2.5)
    needs = frozenset({"image", "encoder"})
    encoder_family = "clip"
    source = "Hessel et al., EMNLP 2021, section 3; jmhessel/clipscore clipscore.py"

    def __init__(self, w: float = 2.5, prompt: str = PROMPT, sentences: bool = False) -> None:
        if not isinstance(w, int | float) or not 0 < w < inf:
            raise ValueError(f"'w' must be a positive number, not {w!r}")
        if not isinstance(sentences, bool):
            raise ValueError(f"'sentences' must be true or false, not {sentences!r}")
        self.w = w
        self.prompt = prompt
        if sentences:
            # Only then it is part of the fingerprint.
            self.sentences = True
        self.range = (0.0, float(w))

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: The items have no images, or the context has no encoder.
            AdapterError: The encoder failed as a whole.
        """
        image, _, failures, remarks = self._compare(items, items.candidates, context)
        parts = {"image": image, "truncated": self._truncated(items.candidates, context)}
        return Scores(values=image, parts=parts, failures=failures, remarks=remarks)

    def _compare(
        self, items: Items, texts: Sequence[str], context: Context
    ) -> tuple[np.ndarray, Features, dict[int, str], dict[int, str]]:
        """Encode images and texts, and compare each candidate with its image.

        Args:
            items: ``n`` items.
            texts: The texts to encode: the ``n`` candidates, then any others.
            context: Cache, progress, models.

        Returns:
            ``[n]`` the value of CLIP-S, the texts' features, item index to why it has no value, and to what was
            done to read its image.
        """
        handles, videos = images_of(self, items)
        # Items of one image share its handle: encoded bytes are hashed once.
        position = {handle: number for number, handle in enumerate(dict.fromkeys(handles.values()))}
        images = image_features(list(position), context)
        features = self._text_features(texts, context)
        rows = np.full(len(items), -1, dtype=np.int64)
        failures = {item: reason for item, reason in features.failures.items() if item < len(items)} | videos
        remarks: dict[int, str] = {}
        for item, handle in handles.items():
            if (number := position[handle]) in images.failures:
                failures[item] = images.failures[number]
            else:
                rows[item] = images.rows[number]
                if number in images.remarks:
                    remarks[item] = images.remarks[number]
        cosines = _cosines(images.vectors, rows, features.vectors, features.rows[: len(items)])
        return self.w * np.maximum(cosines, 0.0), features, failures, remarks

    def _inputs(self, texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Return what the encoder reads of texts, and the position of the first input of each."""
        pieces = [_sentences_of(text) if self.sentences else [text] for text in texts]
        starts = np.cumsum([0, *map(len, pieces[:-1])], dtype=np.int64)[: len(pieces)]
        return [self.prompt + piece for piece in chain.from_iterable(pieces)], starts

    def _truncated(self, texts: Sequence[str], context: Context) -> np.ndarray:
        """Return ``[n]`` 1 where an input of a text is longer than the encoder's context, else 0."""
        inputs, starts = self._inputs(texts)
        return np.maximum.reduceat(over_context(inputs, context).astype(np.float64), starts)

    def _text_features(self, texts: Sequence[str], context: Context) -> Features:
        """Return the features of texts; of sentences, the mean of their unit vectors, so that products are means."""
        inputs, starts = self._inputs(texts)
        features = text_features(inputs, context)
        if not self.sentences:
            return features
        counts = np.diff([*starts, len(inputs)])
        means = np.add.reduceat(features.of_inputs(), starts) / counts[:, None].astype(np.float32)
        text_of = np.repeat(np.arange(len(texts)), counts)
        failures: dict[int, str] = {}
        for position in sorted(features.failures):
            failures.setdefault(int(text_of[position]), features.failures[position])
        rows = np.arange(len(texts))
        rows[list(failures)] = -1
        return replace(features, vectors=means, rows=rows, failures=failures)


def _sentences_of(caption: str) -> list[str]:
    pieces = [piece for piece in _SENTENCE_END.split(caption) if any(map(str.isalnum, piece))]
    return pieces or [caption]


class RefClipS(ClipS):
    """The harmonic mean of CLIP-S and the largest cosine of the caption with a reference.

    As released, the second term is neither cut off at 0 nor multiplied with ``w``. So the value is 0 to
    ``2w / (w + 1)`` where some reference does not point away from the caption; else it is of either sign
    and, where the terms are nearly opposite, of any size. Where both are 0, or they are exactly opposite,
    there is none. References go in as the caption does: behind ``prompt``, cut to the model's context.

    ``Scores.parts``: ``image [n]``, CLIP-S; ``references [n]``, the second term, -1 to 1; ``truncated [n]``,
    as of ``ClipS``.

    Args:
        w: Factor of the cosine with the image; it changes ranks.
        prompt: What stands before each text.
        sentences: As of ``ClipS``; the cosine with a reference is the mean over pairs of their sentences.

    Raises:
        ValueError: ``w`` is not a positive number, or ``sentences`` not true or false.
    """

    label = "RefCLIP-S"
    range = (-inf, inf)
    needs = frozenset({"image", "references", "encoder"})
    source = "Hessel et al., EMNLP 2021, section 3; jmhessel/clipscore clipscore.py"

    def __init__(self, w: float = 2.5, prompt: str = PROMPT, sentences: bool = False) -> None:
        super().__init__(w, prompt, sentences)
        self.range = RefClipS.range

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``ClipS.score``."""
        reference_sets, set_of_item = items.reference_sets
        references = [text for texts in reference_sets for text in texts]
        # In one go, as captions of one image are often references of another.
        image, texts, failures, remarks = self._compare(items, [*items.candidates, *references], context)
        set_sizes = np.array([len(references) for references in reference_sets], dtype=np.int64)
        text, text_failures = _best_reference(texts, set_sizes, set_of_item)
        failures = text_failures | failures
        with np.errstate(divide="ignore", invalid="ignore"):
            values = 2 * image * text / (image + text)
        for item in np.flatnonzero(~np.isfinite(values)).tolist():
            values[item] = np.nan
            failures.setdefault(
                item, f"the terms {image[item]:g} (image) and {text[item]:g} (references) have no harmonic mean"
            )
        parts = {"image": image, "references": text, "truncated": self._truncated(items.candidates, context)}
        return Scores(values=values, parts=parts, failures=failures, remarks=remarks)


def _best_reference(
    texts: Features, set_sizes: np.ndarray, set_of_item: np.ndarray
) -> tuple[np.ndarray, dict[int, str]]:
    """Return ``[n]`` the largest cosine of a caption with a reference, and item index to why there is none.

    Args:
        texts: Features of the ``n`` candidates, then of the references, set by set.
        set_sizes: ``[s]`` how many references each set has.
        set_of_item: ``[n]`` the set of each item.
    """
    n = len(set_of_item)
    starts = n + np.cumsum(set_sizes) - set_sizes
    counts = set_sizes[set_of_item]
    first_pair = np.cumsum(counts) - counts
    item_of_pair = np.repeat(np.arange(n), counts)
    reference_of_pair = np.repeat(starts[set_of_item] - first_pair, counts) + np.arange(len(item_of_pair))
    cosines = _cosines(texts.vectors, texts.rows[item_of_pair], texts.vectors, texts.rows[reference_of_pair])
    best = np.full(n, np.nan)
    some = counts > 0
    # One reference without features leaves none to be the largest: NaN wins.
    best[some] = np.maximum.reduceat(cosines, first_pair[some]) if some.any() else []
    failures = dict.fromkeys(np.flatnonzero(~some).tolist(), "item has no reference")
    failed = np.isin(reference_of_pair, [at for at in texts.failures if at >= n])
    for item, at in zip(item_of_pair[failed].tolist(), reference_of_pair[failed].tolist(), strict=True):
        failures.setdefault(item, f"reference {at - starts[set_of_item[item]] + 1}: {texts.failures[at]}")
    return best, failures


def _cosines(left: np.ndarray, left_rows: np.ndarray, right: np.ndarray, right_rows: np.ndarray) -> np.ndarray:
    """Return ``[p]`` float64 the inner product of pairs of unit vectors; NaN where a row is -1."""
    cosines = np.full(len(left_rows), np.nan)
    known = np.flatnonzero((left_rows >= 0) & (right_rows >= 0))
    for start in range(0, len(known), _PAIRS_AT_ONCE):
        pairs = known[start : start + _PAIRS_AT_ONCE]
        cosines[pairs] = np.einsum("pd,pd->p", left[left_rows[pairs]], right[right_rows[pairs]])
    return cosines
