"""Features of images and texts: each unique input is encoded once, and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...adapters import Encoded, Encoder, ImageHandle
from ...adapters.pixels.handles import digests
from ...errors import MetricError
from ..contract import Context

_Input = TypeVar("_Input")


@dataclass(frozen=True)
class Features:
    """Vectors of some inputs.

    Attributes:
        vectors: ``[u, d]`` float32, of Euclidean norm 1 unless they were asked for as they are; a row a unique
            input that could be encoded.
        rows: ``[n]`` the row of each input; -1 where it has none.
        failures: Position of an input to the reason why it has no vector.
        remarks: Position of an input to what was done to read it.
    """

    vectors: np.ndarray
    rows: np.ndarray
    failures: dict[int, str] = field(default_factory=dict)
    remarks: dict[int, str] = field(default_factory=dict)

    def of_inputs(self) -> np.ndarray:
        """Return ``[n, d]`` the vector of each input; NaN where it has none."""
        if not len(self.vectors):
            return np.full((len(self.rows), 0), np.nan, dtype=np.float32)
        found = self.vectors[self.rows]
        found[self.rows < 0] = np.nan
        return found


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
            kept = np.array([*ids[: places - 1], ids[-1]], dtype=np.int64)
            digest = blake2b(kept.tobytes(), digest_size=8).digest()
            numbers[text] = int.from_bytes(digest, "big", signed=True)
    return np.array([numbers.get(text, 0) for text in texts], dtype=np.int64)


def _token_counts(texts: Sequence[str], context: Context) -> np.ndarray:
    """Return ``[n]`` how many tokens each text has, start and end included."""
    encoder = require_encoder(context)
    producer = {"encoder": encoder.fingerprint(), "of": "text length"}
    unique = list(dict.fromkeys(texts))
    lengths = context.cache.get(producer, unique)
    missing = [text for text in unique if text not in lengths]
    new = {text: len(ids) for text, ids in zip(missing, encoder.token_ids(missing), strict=True)}
    if new:
        context.cache.put(producer, new)
    lengths |= new
    return np.array([lengths[text] for text in texts], dtype=np.int64)


def require_encoder(context: Context) -> Encoder:
    """Return the context's encoder.

    Raises:
        MetricError: There is none.
    """
    if context.encoder is None:
        raise MetricError(
            "needs a model that encodes images and texts, and none was named.",
            "Name one with --model; 'bench ls models' lists what there is.",
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
    unique = list(first)
    vectors = dict(context.cache.get_arrays(producer, unique))
    remarks = {**context.cache.get({**producer, "remarks": True}, unique)}
    missing = [key for key in unique if key not in vectors]
    reasons: dict[str, str] = {}
    to_encode = {key: inputs[first[key]] for key in missing}
    for new, found, bad in _encode(kind, producer, to_encode, encode, context, known=len(vectors)):
        vectors |= new
        remarks |= found
        reasons |= bad
    for key in [key for key, vector in vectors.items() if not vector.any()]:
        reasons[key] = f"{kind}: its features are all 0, and have no direction"
        del vectors[key]
    row_of_key = {key: row for row, key in enumerate(vectors)}
    failures |= {position: reasons[key] for position, key in enumerate(keys) if key in reasons}
    return Features(
        vectors=_rows(list(vectors.values()), normalised),
        rows=np.array([-1 if key is None else row_of_key.get(key, -1) for key in keys], dtype=np.int64),
        failures=failures,
        remarks={position: remarks[key] for position, key in enumerate(keys) if key in remarks},
    )


def _encode(
    kind: str,
    producer: Mapping[str, Any],
    inputs: Mapping[str, _Input],
    encode: Callable[[Sequence[_Input]], Iterator[Encoded]],
    context: Context,
    known: int,
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, str], dict[str, str]]]:
    """Encode inputs by key, keep each batch, and yield its features, remarks and failures by key."""
    keys, total = list(inputs), known + len(inputs)
    done = known
    context.progress(done, total)
    for batch in encode(list(inputs.values())) if inputs else ():
        new = {keys[at]: vector for at, vector in batch.vectors.items() if np.isfinite(vector).all()}
        bad = {keys[at] for at in batch.vectors} - new.keys()
        reasons = dict.fromkeys(bad, f"{kind}: its features are not finite")
        reasons |= {keys[at]: f"{kind}: {reason}" for at, reason in batch.failures.items()}
        remarks = {keys[at]: remark for at, remark in batch.remarks.items()}
        if remarks:
            context.cache.put({**producer, "remarks": True}, remarks)
        context.cache.put_arrays(producer, new)
        done += len(new) + len(reasons)
        context.progress(done, total)
        yield new, remarks, reasons


def _rows(vectors: list[np.ndarray], normalised: bool) -> np.ndarray:
    """Return vectors as float32 ``[u, d]``, of norm 1 or as they are."""
    if not vectors:
        return np.zeros((0, 0), dtype=np.float32)
    rows = np.stack(vectors).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalised else rows
