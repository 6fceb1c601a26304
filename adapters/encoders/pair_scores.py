"""Scores of images and texts that a model gave elsewhere, served as if it ran here."""

import hashlib
import reprlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ...errors import AdapterError
from ...rows import BadRow, parse_number, read_rows
from ..contracts import UNLIMITED, PairwiseEncoder, ScoredPairs
from ..images.file_digests import RecordedFile
from ..images.handles import Box, ImageHandle

_HINT = (
    'A row is {"image": NAME, "text": TEXT, "score": NUMBER}, of a part of an image with '
    '"box": [LEFT, TOP, RIGHT, BOTTOM] in its pixels.'
)
_LARGEST = float(np.finfo(np.float32).max)


class RecordedPairs(RecordedFile, PairwiseEncoder):
    """Serves the scores of pairs from a file (jsonl, json, csv, tsv or Parquet), for any model that cannot run here.

    A row holds ``image``, ``text`` and ``score``, and of a part of an image ``box``, a list (which csv and tsv do not
    have). The image is the end of its file's path (``1.jpg``, ``VG_100K/1.jpg``; of several rows that fit the longest
    counts); where it is no file, what messages call it (``image of row 5``), or its digest (``ImageHandle.digest`` of
    the whole image). White space of texts is ignored. Scores are served in 32 bits: those that are one number
    there are ties. A pair takes 16 bytes of memory. A pair without a score fails the run, or the metric, as a whole: a
    table of those that have one would be of other data.

    Args:
        path: The file.
        name: How the model is called in results; the file's name unless given.

    Raises:
        AdapterError: A row cannot be read, or a pair has two different scores.
        DataError: The file is missing or unreadable.
    """

    # Texts are not truncated here; the file does not record whether the model did.
    context_length = UNLIMITED
    adapter = "pair_scores"

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        super().__init__(path, name)
        keys, scores = array("Q"), array("d")
        for number, row in enumerate(read_rows(self.path), 1):
            if isinstance(row, BadRow):
                raise AdapterError(f"{row.place}: {row.reason}", _HINT)
            try:
                key, score = _read(row)
            except (OverflowError, TypeError, ValueError) as error:
                raise AdapterError(f"{self.path}: row {number} cannot be read: {error}", _HINT) from error
            keys.append(key)
            scores.append(score)
        order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable") if keys else np.zeros(0, np.int64)
        self._keys = np.frombuffer(keys, np.uint64)[order] if keys else np.zeros(0, np.uint64)
        self._scores = np.frombuffer(scores, np.float64)[order] if keys else np.zeros(0)
        differ = (np.diff(self._keys) == 0) & (np.diff(self._scores) != 0)
        if differ.any():
            first, second = sorted(order[np.flatnonzero(differ)[0] :][:2].tolist())
            raise AdapterError(f"{self.path}: rows {first + 1} and {second + 1} give two scores for one pair", _HINT)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return no tokens: the file does not record them."""
        return [[] for _ in texts]

    def pairs(self, images: Sequence[ImageHandle], texts: Sequence[Sequence[str]]) -> Iterator[ScoredPairs]:
        """Give the recorded scores.

        Raises:
            AdapterError: A pair has none.
        """
        scores: dict[int, np.ndarray] = {}
        missing: list[tuple[ImageHandle, str]] = []
        for at, (image, of_image) in enumerate(zip(images, texts, strict=True)):
            names = list(_names(image))
            known = [self._score(names, image.box, text) for text in of_image]
            missing += [(image, text) for text, score in zip(of_image, known, strict=True) if score is None]
            scores[at] = np.array([np.nan if score is None else score for score in known], dtype=np.float32)
        if missing:
            count, (image, text) = sum(map(len, texts)), missing[0]
            raise AdapterError(
                f"{self.path} lacks {len(missing):,} of {count:,} pairs, first {image.name}: {text}", _HINT
            )
        yield ScoredPairs(scores)

    def _score(self, names: Sequence[str], box: Box | None, text: str) -> float | None:
        for name in names:
            key = _key(name, box, text)
            at = int(np.searchsorted(self._keys, np.uint64(key)))
            if at < len(self._keys) and int(self._keys[at]) == key:
                return float(self._scores[at])
        return None


def _names(image: ImageHandle) -> Iterator[str]:
    """Yield what rows may call an image: ends of its path or name, the longest first; its digest if it is no file."""
    if not isinstance(image.source, bytes):
        parts = PurePath(str(image.source)).parts
        for start in range(len(parts)):
            yield "/".join(parts[start:])
    if not isinstance(image.source, Path):
        yield replace(image, box=None).digest()


def _read(row: Mapping[str, Any]) -> tuple[int, float]:
    """Return the key of a row, and its score."""
    for name in ("image", "text", "score"):
        if name not in row:
            raise ValueError(f"it has no '{name}'; it has: {', '.join(map(repr, row)) or 'nothing'}")
    image, text, box = row["image"], row["text"], row.get("box")
    if not isinstance(image, str) or not isinstance(text, str):
        raise TypeError("'image' and 'text' must be texts")
    if box is not None:
        if not isinstance(box, Sequence) or isinstance(box, str) or len(box) != 4:
            raise TypeError(f"'box' is not four numbers: {reprlib.repr(box)}")
        left, top, right, bottom = (_number("box", edge) for edge in box)
        box = (left, top, right, bottom)
    score = _number("score", row["score"])
    if abs(score) > _LARGEST:
        raise ValueError(f"'score' is beyond 32 bits: {score:g}")
    return _key(image.replace("\\", "/"), box, text), score


def _number(name: str, value: Any) -> float:
    try:
        return parse_number(value)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"'{name}' {error}") from error


def _key(image: str, box: Box | None, text: str) -> int:
    edges = "" if box is None else ",".join(repr(float(edge) + 0.0) for edge in box)
    said = "\0".join((image, edges, " ".join(text.split())))
    digest = hashlib.blake2b(said.encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
