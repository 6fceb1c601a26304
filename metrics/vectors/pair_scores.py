"""Scores of images and texts by an encoder that looks at both: each unique pair is scored once, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...adapters import ImageHandle, PairwiseEncoder
from ...adapters.pixels.handles import digests
from ...errors import MetricError
from ..contract import Context
from .features import require_encoder

NOT_FINITE = "image and text: their score is not finite"


@dataclass(frozen=True)
class PairScores:
    """Scores of ``n`` images with their texts, of which there are ``m`` in all.

    Attributes:
        values: ``[m]`` float32, image by image; NaN where a pair has none.
        failures: Number of an image to the reason why one of its pairs has no score.
        remarks: Number of an image to what was done to read it.
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
    found = digests(images)
    keys = [key if isinstance(key, str) else "" for key in found]
    reasons = {
        number: f"image file: {error.strerror or error}"
        for number, error in enumerate(found)
        if isinstance(error, OSError)
    }
    handles = dict(zip(reversed(keys), reversed(images), strict=True))
    wanted: dict[str, dict[str, None]] = {}
    for key, of_image in zip(keys, texts, strict=True):
        if key:
            wanted.setdefault(key, {}).update(dict.fromkeys(of_image))
    scores, failed, remarks = _scored(handles, {key: list(one) for key, one in wanted.items()}, context)
    values, failures = list[float](), dict(reasons)
    for number, (key, of_image) in enumerate(zip(keys, texts, strict=True)):
        own = [scores.get(_pair(key, text), np.nan) for text in of_image]
        values += own
        if key in failed:
            failures[number] = failed[key]
        elif number not in failures and not np.isfinite(own).all():
            failures[number] = NOT_FINITE
    told = {number: remarks[key] for number, key in enumerate(keys) if key in remarks}
    return PairScores(np.array(values, dtype=np.float32), failures, told)


def _scored(
    handles: dict[str, ImageHandle], wanted: dict[str, list[str]], context: Context
) -> tuple[dict[str, float], dict[str, str], dict[str, str]]:
    """Return scores by pair, and failures and remarks by image.

    Args:
        handles: Image by its digest.
        wanted: Digest to the texts that the image is scored with.
        context: Cache, progress, the encoder.
    """
    encoder = require_encoder(context)
    if not isinstance(encoder, PairwiseEncoder):
        raise MetricError(
            "needs an encoder that scores an image and a text together, and the model gives each a vector.",
            "Adapters blip_itm and flava are such encoders.",
        )
    producer: dict[str, Any] = {"encoder": encoder.fingerprint(), "of": "pair"}
    told = {**producer, "remarks": True}
    pairs = [_pair(key, text) for key, texts in wanted.items() for text in texts]
    scores: dict[str, float] = dict(context.cache.get(producer, pairs))
    remarks: dict[str, str] = dict(context.cache.get(told, list(wanted)))
    missing = {key: [text for text in texts if _pair(key, text) not in scores] for key, texts in wanted.items()}
    missing = {key: texts for key, texts in missing.items() if texts}
    failed: dict[str, str] = {}
    keys, done = list(missing), len(scores)
    context.progress(done, len(pairs))
    for batch in encoder.pairs([handles[key] for key in keys], list(missing.values())) if keys else ():
        new = {
            _pair(keys[at], text): score
            for at, of_image in batch.scores.items()
            for text, score in zip(missing[keys[at]], of_image.tolist(), strict=True)
            if np.isfinite(score)
        }
        failed |= {keys[at]: f"image: {reason}" for at, reason in batch.failures.items()}
        found = {keys[at]: remark for at, remark in batch.remarks.items()}
        if found:
            context.cache.put(told, found)
        context.cache.put(producer, new)
        scores.update(new)
        remarks.update(found)
        done += sum(len(missing[keys[at]]) for at in batch.scores.keys() | batch.failures.keys())
        context.progress(done, len(pairs))
    return scores, failed, remarks


def _pair(image: str, text: str) -> str:
    """Return what a pair is kept under; a digest has no blank."""
    return f"{image} {text}"
