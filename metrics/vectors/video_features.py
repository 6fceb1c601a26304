"""Features of the frames of videos and of the tokens of texts, a group of them at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...adapters import ImageHandle, VideoHandle
from ...adapters.pixels.video import is_recorded
from ..contract import Context
from .features import require_encoder
from .token_idf import TokenIdf, cut_to_context
from .token_matching import Tokens, Undefined


@dataclass(frozen=True)
class FrameFeatures:
    """Features of all frames of some videos: by digest an array ``[frames, d]``, or why there is none."""

    found: dict[str, np.ndarray | str]

    def of(self, video: ImageHandle | VideoHandle) -> np.ndarray:
        """Return the features of a video.

        Raises:
            Undefined: It has none.
        """
        found = self.found[video.digest()]
        if isinstance(found, str):
            raise Undefined(f"video: {found}")
        return found


@dataclass(frozen=True)
class TokenFeatures:
    """Tokens of some texts, or why a text has none."""

    found: dict[str, Tokens | str]

    def of(self, what: str, text: str) -> Tokens:
        """Return the tokens of a text.

        Args:
            what: What messages call it.
            text: The text.

        Raises:
            Undefined: It has none.
        """
        found = self.found[text]
        if isinstance(found, str):
            raise Undefined(f"{what}: {found}")
        return found


def frame_features(videos: Sequence[VideoHandle], context: Context) -> FrameFeatures:
    """Return the features of all frames of videos, whatever their span.

    They are kept in the cache, unless they are recorded in a file already.

    Raises:
        AdapterError: The encoder failed as a whole.
    """
    encoder = require_encoder(context)
    unique = {video.digest(): video for video in videos}
    decoded = [key for key, video in unique.items() if not is_recorded(video)]
    producer = {"encoder": encoder.fingerprint(), "of": "frames"} if decoded else {}
    found: dict[str, np.ndarray | str] = {}
    if decoded:
        found |= context.cache.get_arrays(producer, decoded)
    missing = [key for key in unique if key not in found]
    for batch in encoder.frames([unique[key] for key in missing]) if missing else ():
        new = {missing[at]: features for at, features in batch.vectors.items()}
        found |= new
        found |= {missing[at]: reason for at, reason in batch.failures.items()}
        if kept := {key: features for key, features in new.items() if key in decoded}:
            context.cache.put_arrays(producer, kept)
    return FrameFeatures(found)


def clip_frames(features: np.ndarray, video: ImageHandle | VideoHandle, count: int | None) -> np.ndarray:
    """Return the unit vectors ``[f, d]`` of the frames of a video's span that are looked at.

    Args:
        features: ``[frames, d]`` of the whole video.
        video: With its span; frame ``time * frames // duration`` stands at a time, as released
            (``ActivityNet-FOIL_demo.py``).
        count: So many frames from the first to the last at equal distances (``VATEX-EVAL-demo.py``); None for
            all.

    Raises:
        Undefined: There are none, or too few, or they have no direction.
    """
    where = video.name
    total = len(features)
    if isinstance(video, VideoHandle) and video.span is not None:
        start, end, duration = video.span
        features = features[int(start * total // duration) : int(end * total // duration)]
        where += f" from {start:g} to {end:g} s of {duration:g} s"
    if not len(features):
        raise Undefined(f"video {where}: no frame of {total} lies there")
    if count is not None:
        if len(features) < count:
            raise Undefined(f"video {where}: has {len(features)} frames, fewer than {count}")
        features = features[np.linspace(0, len(features) - 1, count).astype(int)]
    units = _unit(features)
    if not np.isfinite(units).all():
        raise Undefined(f"video {where}: the features of its frames are 0 or not finite")
    return units


def token_features(texts: Sequence[str], idf: TokenIdf | None, context: Context) -> TokenFeatures:
    """Return the tokens of texts.

    Args:
        texts: Unique texts.
        idf: What weighs the tokens; None weighs all the same.
        context: Models.

    Raises:
        AdapterError: The encoder failed as a whole, or has no projected token states.
    """
    encoder = require_encoder(context)
    ids = encoder.token_ids(texts) if idf is not None else None
    found: dict[str, Tokens | str] = {}
    for batch in encoder.tokens(texts):
        found |= {texts[at]: reason for at, reason in batch.failures.items()}
        for at, states in batch.vectors.items():
            weights = np.ones(len(states))
            if idf is not None and ids is not None:
                weights = idf.weights(cut_to_context(ids[at], encoder))
            found[texts[at]] = _tokens(states, weights)
    return TokenFeatures(found)


def _tokens(states: np.ndarray, weights: np.ndarray) -> Tokens | str:
    if len(states) != len(weights):
        return f"has {len(weights)} tokens, and the model gave states of {len(states)}"
    vectors = _unit(states)
    if not np.isfinite(vectors).all():
        return "the features of its tokens are 0 or not finite"
    if not weights.sum() > 0:
        return "all its tokens have idf 0: they are in every training caption"
    return Tokens(vectors, weights / weights.sum())


def _unit(vectors: np.ndarray) -> np.ndarray:
    rows = vectors.astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
