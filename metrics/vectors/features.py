"""Features of images and texts: each unique input is encoded once, and kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...adapters import Encoded, Encoder, ImageHandle, PairwiseEncoder
from ...adapters.encoders.clip_tokens import cut_to
from ...adapters.images.handles import digests
from ...errors import MetricError
from ..contract import Context, kept

_Input = TypeVar("_Input")


@dataclass(frozen=True)
class Features:
    """Vectors of some inputs.

    Attributes:
        vectors: ``[u, d]`` float32, of Euclidean norm 1 unless unnormalised ones were requested; a row a unique
            input that could be encoded.
        rows: ``[n]`` the row of each input; -1 where it has none.
        failures: Position of an input to the reason why it has no vector.
        remarks: Position of an input to a remark on how it was read.
    """

    vectors: np.ndarray
    rows: np.ndarray
    failures: dict[int, str] = field(default_factory=dict)
    remarks: dict[int, str] = field(default_factory=dict)

    def of_inputs(self) -> np.ndarray:
        """Return ``[n, d]`` the vector of each input; NaN where it has none."""
        if not len(self.vectors):
            return np.full((len(self.rows), 0), np.nan, dtype=np.float32)
        features = self.vectors[self.rows]
        features[self.rows < 0] = np.nan
        return features


def image_features(images: Sequence[ImageHandle], context: Context, *, normalised: bool = True) -> Features:
    """Return the features of images and crops.

    Args:
        images: The images.
        context: Cache, progress, the encoder.
        normalised: Whether they are brought to norm 1.

    Raises:
        MetricError: The context has no encoder.
        AdapterError: The encoder failed as a whole.
    """
    encode = require_encoder(context).images
    return _features("image", images, digests(images), encode, context, normalised)


def text_features(texts: Sequence[str], context: Context, *, normalised: bool = True) -> Features:
    """Return the features of texts, each cut to the encoder's context.

    Args:
        texts: The texts.
        context: Cache, progress, the encoder.
        normalised: Whether they are brought to norm 1.

    Raises:
        MetricError: The context has no encoder.
        AdapterError: The encoder failed as a whole.
    """
    return _features("text", texts, texts, require_encoder(context).texts, context, normalised)


def over_context(texts: Sequence[str], context: Context) -> np.ndarray:
    """Return ``[n]`` whether each text has more tokens than the encoder takes, so that its end is cut off.

    Raises:
        MetricError: The context has no encoder.
    """
    return _token_counts(texts, context) > require_encoder(context).context_length


def seen_tokens(texts: Sequence[str], context: Context) -> np.ndarray:
    """Return ``[n]`` int64 a number of the tokens that the encoder sees of each text that fills its context.

    Two texts with one number other than 0 are the same to the encoder. 0 stands for a text that leaves room, of which
    nothing is cut; where no text is cut at all, for all of them.

    Raises:
        MetricError: The context has no encoder.
    """
    encoder, numbers = require_encoder(context), dict[str, int]()
    counts, places = _token_counts(texts, context), encoder.context_length
    if (counts > places).any():
        filled = list(dict.fromkeys(texts[at] for at in np.flatnonzero(counts >= places).tolist()))
        for text, ids in zip(filled, encoder.token_ids(filled), strict=True):
            kept = np.array(cut_to(places, ids), dtype=np.int64)
            digest = blake2b(kept.tobytes(), digest_size=8).digest()
            numbers[text] = int.from_bytes(digest, "big", signed=True)
    return np.array([numbers.get(text, 0) for text in texts], dtype=np.int64)


def _token_counts(texts: Sequence[str], context: Context) -> np.ndarray:
    """Return ``[n]`` how many tokens each text has, start and end included."""
    encoder = require_encoder(context)

    def count(missing: list[str]) -> Iterator[dict[str, int]]:
        yield {text: len(ids) for text, ids in zip(missing, encoder.token_ids(missing), strict=True)}

    lengths = kept(context.cache, {"encoder": encoder.fingerprint(), "of": "text length"}, texts, count)
    return np.array([lengths[text] for text in texts], dtype=np.int64)


def require_encoder(context: Context) -> Encoder:
    """Return the context's encoder.

    Raises:
        MetricError: There is none.
    """
    if context.encoder is None:
        raise MetricError(
            "needs a model that encodes images and texts; none is set.",
            "Name a model with --model ('bench ls models' lists them).",
        )
    return context.encoder


def _features(
    kind: str,
    inputs: Sequence[_Input],
    found_keys: Sequence[str | OSError],
    encode: Callable[[Sequence[_Input]], Iterator[Encoded]],
    context: Context,
    normalised: bool,
) -> Features:
    keys = [key if isinstance(key, str) else None for key in found_keys]
    # With the folder alone, so that all files that it lacks are one kind of failure.
    failures = {
        position: f"{kind} file: {error.strerror or error} (in {Path(error.filename or '').parent})"
        for position, error in enumerate(found_keys)
        if isinstance(error, OSError)
    }
    producer = {"encoder": require_encoder(context).fingerprint(), "of": kind}
    first: dict[str, int] = {}
    for position, key in enumerate(keys):
        if key is not None:
            first.setdefault(key, position)
    remarks = {**context.cache.get({**producer, "remarks": True}, list(first))}
    reasons: dict[str, str] = {}

    def compute(missing: list[str]) -> Iterator[dict[str, np.ndarray]]:
        for batch in encode([inputs[first[key]] for key in missing]):
            new = {missing[at]: vector for at, vector in batch.vectors.items() if np.isfinite(vector).all()}
            bad = {missing[at] for at in batch.vectors} - new.keys()
            reasons.update(dict.fromkeys(bad, f"{kind}: its features are not finite"))
            reasons.update({missing[at]: f"{kind}: {reason}" for at, reason in batch.failures.items()})
            if remarked := {missing[at]: remark for at, remark in batch.remarks.items()}:
                context.cache.put({**producer, "remarks": True}, remarked)
                remarks.update(remarked)
            yield new

    vectors = kept(context.cache, producer, first, compute, context.progress, reasons, arrays=True)
    for key in [key for key, vector in vectors.items() if not vector.any()]:
        reasons[key] = f"{kind}: its features are all 0, and have no direction"
        del vectors[key]
    row_of_key = {key: row for row, key in enumerate(vectors)}
    rows = np.stack(list(vectors.values())).astype(np.float32) if vectors else np.zeros((0, 0), dtype=np.float32)
    failures |= {position: reasons[key] for position, key in enumerate(keys) if key in reasons}
    return Features(
        vectors=rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalised and len(rows) else rows,
        rows=np.array([-1 if key is None else row_of_key.get(key, -1) for key in keys], dtype=np.int64),
        failures=failures,
        remarks={position: remarks[key] for position, key in enumerate(keys) if key in remarks},
    )


NOT_FINITE = "image and text: their score is not finite"


@dataclass(frozen=True)
class PairScores:
    """Scores of ``n`` images with their texts, of which there are ``m`` in all.

    Attributes:
        values: ``[m]`` float32, image by image; NaN where a pair has none.
        failures: Number of an image to the reason why one of its pairs has no score.
        remarks: Number of an image to a remark on how it was read.
    """

    values: np.ndarray
    failures: dict[int, str] = field(default_factory=dict[int, str])
    remarks: dict[int, str] = field(default_factory=dict[int, str])


def pair_scores(images: Sequence[ImageHandle], texts: Sequence[Sequence[str]], context: Context) -> PairScores:
    """Score each image with each of its texts.

    Args:
        images: ``n`` images and crops.
        texts: The texts of each.
        context: Cache, progress, the encoder.

    Raises:
        MetricError: The context has no encoder that scores pairs.
        AdapterError: The encoder failed as a whole.
    """
    encoder = require_encoder(context)
    if not isinstance(encoder, PairwiseEncoder):
        raise MetricError(
            "needs an encoder that scores image-text pairs; this model encodes them separately.",
            "Use the adapter blip_itm or flava.",
        )
    producer: dict[str, Any] = {"encoder": encoder.fingerprint(), "of": "pair"}
    remark_producer = {**producer, "remarks": True}
    hashes = digests(images)
    keys = [key if isinstance(key, str) else "" for key in hashes]
    handles = dict(zip(reversed(keys), reversed(images), strict=True))
    asked: dict[str, dict[str, str]] = {}
    for key, of_image in zip(keys, texts, strict=True):
        if key:
            asked.setdefault(key, {}).update((_pair(key, text), text) for text in of_image)
    image_of = {pair: key for key, of_image in asked.items() for pair in of_image}
    remarks: dict[str, str] = dict(context.cache.get(remark_producer, list(asked)))
    failed: dict[str, str] = {}

    def compute(missing: list[str]) -> Iterator[dict[str, float]]:
        pairs = {key: list(of_image) for key, of_image in groupby(missing, image_of.__getitem__)}
        wanted = list(pairs)
        of_images = [[asked[key][pair] for pair in pairs[key]] for key in wanted]
        for batch in encoder.pairs([handles[key] for key in wanted], of_images):
            new: dict[str, float] = {}
            for at, of_image in batch.scores.items():
                new.update(zip(pairs[wanted[at]], of_image.tolist(), strict=True))
            for at, reason in batch.failures.items():
                failed.update(dict.fromkeys(pairs[wanted[at]], f"image: {reason}"))
            failed.update((pair, NOT_FINITE) for pair, score in new.items() if not np.isfinite(score))
            if remarked := {wanted[at]: remark for at, remark in batch.remarks.items()}:
                context.cache.put(remark_producer, remarked)
                remarks.update(remarked)
            yield {pair: score for pair, score in new.items() if pair not in failed}

    scores: dict[str, float] = kept(context.cache, producer, image_of, compute, context.progress, failed)
    values, failures = list[float](), dict[int, str]()
    for number, (key, of_image) in enumerate(zip(hashes, texts, strict=True)):
        pairs = [_pair(str(key), text) for text in of_image]
        values += [scores.get(pair, np.nan) for pair in pairs]
        if isinstance(key, OSError):
            failures[number] = f"image file: {key.strerror or key}"
        elif lost := [pair for pair in pairs if pair not in scores]:
            failures[number] = failed.get(lost[0], NOT_FINITE)
    remark_of = {number: remarks[key] for number, key in enumerate(keys) if key in remarks}
    return PairScores(np.array(values, dtype=np.float32), failures, remark_of)


def _pair(image: str, text: str) -> str:
    """Return the cache key of a pair; a digest has no blank."""
    return f"{image} {text}"
