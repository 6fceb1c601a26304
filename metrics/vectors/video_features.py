"""Features of the frames of videos and of the tokens of texts, a group of them at a time."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters import Encoder, ImageHandle, VideoHandle
from ...adapters.pixels.video import is_recorded
from ...errors import BenchError, MetricError
from ...rows import load_json
from ..contract import Cache, Context
from .features import require_encoder


class Undefined(Exception):  # noqa: N818 - what the caller is told of is a reason, not an error
    """An item that cannot be scored; its text says why."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text.

    Attributes:
        vectors: ``[t, d]`` of norm 1, from the start to the end token.
        weights: ``[t]``, of sum 1.
    """

    vectors: np.ndarray
    weights: np.ndarray


def match_frames(caption: Tokens, frames: np.ndarray) -> np.ndarray:
    """Return precision, recall, F1 and coarse ``[4]`` of a caption and a video.

    Source: Shi et al., CVPR 2022, section 3; ``emscore/utils.py`` ``vid_greedy_cos`` and ``em_cos_score``.

    Args:
        caption: The caption.
        frames: ``[f, d]`` of norm 1.

    Raises:
        Undefined: Precision and recall are opposite.
    """
    cosines = caption.vectors @ frames.T
    precision = cosines.max(axis=1) @ caption.weights
    recall = cosines.max(axis=0).mean(dtype=np.float64)
    video = frames.mean(axis=0)
    coarse = caption.vectors[-1] @ (video / np.linalg.norm(video))
    return _defined(np.array([precision, recall, _f1(precision, recall), coarse], dtype=np.float64))


def match_references(caption: Tokens, references: Sequence[Tokens]) -> np.ndarray:
    """Return precision, recall, F1 and coarse ``[4]``, each the largest over the references.

    Source: Shi et al., CVPR 2022, section 3; ``emscore/utils.py`` ``refs_greedy_cos``, ``scorer.py``.

    Args:
        caption: The caption.
        references: One or more.

    Raises:
        Undefined: Precision and recall of a reference are opposite.
    """
    lengths = [len(one.weights) for one in references]
    starts = np.cumsum([0, *lengths[:-1]])
    cosines = caption.vectors @ np.concatenate([one.vectors for one in references]).T
    precision = caption.weights @ np.maximum.reduceat(cosines, starts, axis=1)
    weights = np.concatenate([one.weights for one in references])
    recall = np.add.reduceat(cosines.max(axis=0) * weights, starts)
    coarse = np.array([one.vectors[-1] for one in references]) @ caption.vectors[-1]
    parts = np.array([precision, recall, _f1(precision, recall), coarse], dtype=np.float64)
    return _defined(parts.max(axis=1))


def _f1(precision: np.ndarray, recall: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2 * precision * recall / (precision + recall)


def _defined(parts: np.ndarray) -> np.ndarray:
    if not np.isfinite(parts).all():
        raise Undefined("precision and recall have no harmonic mean, or the frames no mean direction")
    return parts


_PADDING = 0
_CAPTIONS_AT_ONCE = 4096


@dataclass(frozen=True)
class TokenIdf:
    """The idf of tokens: ``log((N + 1) / (c + 1))`` of a token in ``c`` of ``N`` captions.

    As released with EMScore (``emscore/utils.py``, ``VATEX-EVAL-demo.py``): a token of no caption has
    ``log(N + 1)``, the start token 0, and the end token the mean over all tokens that occur. Padding, id 0,
    is one of these: released code counts it as a token of every caption that does not fill the context.

    Attributes:
        captions: ``N``.
        counts: Token id to the number of captions that it occurs in.
    """

    captions: int
    counts: Mapping[int, int]

    def weights(self, ids: Sequence[int]) -> np.ndarray:
        """Return ``[t]`` the idf of the tokens of a text, of which the last one is its end."""
        found = [self._idf(token) for token in ids]
        found[-1] = self._mean
        return np.array(found)

    @cached_property
    def _mean(self) -> float:
        return sum(map(self._idf, self.counts)) / len(self.counts)

    def _idf(self, token: int) -> float:
        return log((self.captions + 1) / (self.counts.get(token, 0) + 1))


def corpus_digest(path: Path) -> str:
    """Return a text that changes with a corpus' bytes.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"


def load_idf(path: Path, max_words: int | None, encoder: Encoder, cache: Cache) -> TokenIdf:
    """Count the tokens of the captions of a file; what was counted before is taken from the cache.

    Args:
        path: ``.json``: every text of it is a caption, but where a mapping has ``sentences`` (as in ActivityNet
            Captions) those alone; keys of mappings are none. Any other suffix: a caption a line.
        max_words: Longer captions are left out; words are what single spaces separate. None for no limit.
        encoder: Whose tokens.
        cache: Where counts are kept.

    Raises:
        MetricError: The file is not there or not of its format, or has no caption.
    """
    try:
        key = f"{corpus_digest(path)} {path.suffix} {max_words}"
    except OSError as error:
        raise MetricError(f"idf corpus {path}: cannot be read: {error.strerror or error}") from error
    producer = {"of": "token idf", "encoder": encoder.fingerprint()}
    known = cache.get(producer, [key]).get(key)
    if known is None:
        known = _count(captions_of(path, max_words), encoder)
        cache.put(producer, {key: known})
    return TokenIdf(known["captions"], {int(token): count for token, count in known["counts"].items()})


def captions_of(path: Path, max_words: int | None) -> list[str]:
    """Return the captions of a corpus; see :func:`load_idf`."""
    try:
        if path.suffix == ".json":
            found = _texts(load_json(path))
        else:
            found = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except BenchError as error:
        raise MetricError(f"idf corpus {error.message}", error.hint) from error
    except (OSError, UnicodeDecodeError) as error:
        raise MetricError(f"idf corpus {path}: cannot be read: {error}") from error
    kept = [text for text in found if max_words is None or len(text.split(" ")) <= max_words]
    if not kept:
        raise MetricError(f"idf corpus {path}: has no caption")
    return kept


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = value["sentences"] if "sentences" in value else list(value.values())
    return [text for one in value for text in _texts(one)] if isinstance(value, list) else []


def _count(captions: Sequence[str], encoder: Encoder) -> dict[str, Any]:
    counts: Counter[int] = Counter()
    for start in range(0, len(captions), _CAPTIONS_AT_ONCE):
        for ids in encoder.token_ids(captions[start : start + _CAPTIONS_AT_ONCE]):
            seen = set(cut_to_context(ids, encoder))
            if len(ids) < encoder.context_length:
                seen.add(_PADDING)
            counts.update(seen)
    return {"captions": len(captions), "counts": {str(token): count for token, count in counts.items()}}


def cut_to_context(ids: Sequence[int], encoder: Encoder) -> list[int]:
    """Return the ids of the tokens that the encoder sees: the first ones, and the end token."""
    longest = encoder.context_length
    return list(ids) if len(ids) <= longest else [*ids[: longest - 1], ids[-1]]


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
