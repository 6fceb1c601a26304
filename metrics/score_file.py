"""Scores in a file, found by a hash of what each is of: 24 bytes a score, which all processes of a machine share."""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..adapters.pixels.file_digests import file_digest
from ..errors import DataError, MetricError
from ..rows import SUFFIXES, BadRow, parse_number, read_rows
from .mapped import mapped

ImageNames = Literal["exact", "bare"]
"""How names of images are compared: as they are, or without folders and suffix."""

_VERSION = 1
_NAMED = 3
_SUFFIX = re.compile(r"\.(jpe?g|png|webp|gif|bmp|tiff?|mp4|webm|mkv|avi|mov|npy|pt)", re.IGNORECASE)


@dataclass(frozen=True)
class ScoreColumns:
    """What the columns of a score file are called.

    Attributes:
        score: The scores.
        id: The ids of samples; None where rows are found by image and caption, or the file decides.
        image: The images; None unless rows are to be found by them.
        caption: The captions; None unless rows are to be found by them.
        image_names: How names of images are compared.
    """

    score: str = "score"
    id: str | None = None
    image: str | None = None
    caption: str | None = None
    image_names: ImageNames = "exact"

    def chosen(self, found: Iterable[str], file: str) -> ScoreColumns:
        """Return the columns by which the rows of a file are found: an id where it has one and nothing else is said.

        Raises:
            MetricError: The file has no such columns.
        """
        columns = list(found)
        by_caption = self.image is not None or self.caption is not None
        identity, image, caption = self.id or "id", self.image or "image", self.caption or "caption"
        missing = [name for name in (self.score,) if name not in columns]
        if not by_caption and (self.id is not None or identity in columns):
            missing += [identity] if identity not in columns else []
            chosen = ScoreColumns(self.score, identity)
        else:
            missing += [name for name in (image, caption) if name not in columns]
            chosen = ScoreColumns(self.score, None, image, caption, self.image_names)
        if missing:
            raise MetricError(
                f"{file} has no column {' and none '.join(map(repr, missing))}; it has {', '.join(columns)}",
                "A row holds 'score' and 'id', or 'score', 'image' and 'caption'; columns of other names are said so: "
                "recorded[file=FILE,label=NAME,score=COLUMN,id=COLUMN].",
            )
        return chosen


@dataclass(frozen=True)
class ScoreFile:
    """The scores of a file.

    Attributes:
        name: The file's.
        by_id: Whether scores are found by ids, or else by image and caption.
        image_names: How names of images are compared.
        unusable: How many rows hold no score, or nothing that it is of.
        first_unusable: The first of these, with the reason.
        keys: ``[n]`` uint64, ascending: hashes of what the scores are of.
        scores: ``[n]`` float64, finite.
        rows: ``[n]`` the row of each, from 1.
    """

    name: str
    by_id: bool
    image_names: ImageNames
    unusable: int
    first_unusable: Sequence[str]
    keys: np.ndarray
    scores: np.ndarray
    rows: np.ndarray

    def find(self, keys: Iterable[int]) -> np.ndarray:
        """Return ``[m]`` where the score of each key is, -1 where there is none."""
        wanted = np.fromiter(keys, np.uint64)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, at, -1)

    def unused(self, used: np.ndarray) -> tuple[int, list[int]]:
        """Return how many scores are not among those of ``[m]`` rows, and the first rows of these."""
        left = np.sort(self.rows[~np.isin(self.rows, used)])
        return len(left), left[:_NAMED].tolist()


def id_key(identity: Any) -> int:
    """Return the key of a score that is found by an id."""
    return _hashed(str(identity))


def caption_key(image: Any, caption: str, image_names: ImageNames) -> int:
    """Return the key of a score that is found by image and caption; white space of captions is not looked at."""
    name = bare_name(str(image)) if image_names == "bare" else str(image)
    return _hashed(f"{name}\0{' '.join(caption.split())}")


def bare_name(name: str) -> str:
    """Return the name of an image or video without folders and without its suffix, if that is one of theirs."""
    name = name.replace("\\", "/").rpartition("/")[2]
    found = _SUFFIX.search(name, max(0, name.rfind(".")))
    return name[: found.start()] if found and found.end() == len(name) else name


def read_score_file(path: Path, columns: ScoreColumns) -> ScoreFile:
    """Return the scores of a file.

    It is read once on a machine, row by row, and what was read is kept in the cache folder by the file's hash.

    Args:
        path: The file.
        columns: What its columns are called.

    Raises:
        MetricError: It cannot be read, has other columns, holds no score, or two of one key that differ.
    """
    if path.suffix not in SUFFIXES:
        raise MetricError(f"{path}: unknown format", f"Known suffixes: {', '.join(SUFFIXES)}")
    digest = score_file_digest(path)

    def build() -> dict[str, np.ndarray]:
        try:
            found = _read(path, columns)
        except DataError as error:
            raise MetricError(error.message, error.hint) from error
        if score_file_digest(path) != digest:
            raise MetricError(f"{path}: changed while it was read", "Run again when it stays as it is.")
        return found

    said = json.dumps([_VERSION, digest, asdict(columns)])
    arrays = mapped("recorded", hashlib.sha256(said.encode()).hexdigest(), build)
    known = json.loads(arrays["known"].tobytes())
    return ScoreFile(path.name, keys=arrays["keys"], scores=arrays["scores"], rows=arrays["rows"], **known)


def score_file_digest(path: Path) -> str:
    """Return the SHA-256 of a score file.

    Raises:
        MetricError: It cannot be read.
    """
    try:
        return file_digest(path)
    except OSError as error:
        raise MetricError(f"{path}: cannot be read: {error.strerror}") from error


def _hashed(key: str) -> int:
    # Data sets call an image or a document whatever they like; so does a name with a lone surrogate in a record.
    content = key.encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _read(path: Path, columns: ScoreColumns) -> dict[str, np.ndarray]:
    keys, scores, rows = array("Q"), array("d"), array("q")
    unusable = _Unusable()
    chosen: ScoreColumns | None = None
    for number, row in enumerate(read_rows(path), 1):
        if isinstance(row, BadRow):
            unusable.add(row.place, row.reason)
            continue
        if chosen is None:
            chosen = columns.chosen(row, path.name)
        try:
            score = _score(row, chosen.score)
            key = _key(row, chosen)
        except ValueError as error:
            unusable.add(f"row {number}", str(error))
            continue
        keys.append(key)
        scores.append(score)
        rows.append(number)
    if chosen is None or not scores:
        raise MetricError(f"{path}: holds no score{''.join(f'; {one}' for one in unusable.first)}")
    found = _sorted(np.asarray(keys), np.asarray(scores), np.asarray(rows), path.name)
    known = {
        "by_id": chosen.id is not None,
        "image_names": chosen.image_names,
        "unusable": unusable.count,
        "first_unusable": unusable.first,
    }
    return {**found, "known": np.frombuffer(json.dumps(known).encode(), np.uint8)}


class _Unusable:
    """Counts rows that hold no score, and keeps the first."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, place: str, reason: str) -> None:
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(f"{place} {reason}")


def _score(row: Mapping[str, Any], column: str) -> float:
    if row.get(column) is None:
        raise ValueError(f"has no '{column}'")
    try:
        return parse_number(row[column])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"'{column}' {error}") from error


def _key(row: Mapping[str, Any], columns: ScoreColumns) -> int:
    if columns.id is not None:
        return id_key(_value(row, columns.id, str | int))
    image = _value(row, str(columns.image), str | int)
    return caption_key(image, _value(row, str(columns.caption), str), columns.image_names)


def _value(row: Mapping[str, Any], column: str, kind: Any) -> Any:
    if not isinstance(value := row.get(column), kind) or isinstance(value, bool):
        raise ValueError(f"has no '{column}' that is a name: {value!r:.80}")
    return value


def _sorted(keys: np.ndarray, scores: np.ndarray, rows: np.ndarray, file: str) -> dict[str, np.ndarray]:
    """Return scores in the order of their keys; a row that says the same once more is left out.

    Raises:
        MetricError: Two rows of one key have different scores.
    """
    order = np.argsort(keys, kind="stable")
    keys, scores, rows = keys[order], scores[order], rows[order]
    again = np.concatenate([[False], keys[1:] == keys[:-1]])
    differing = np.flatnonzero(again[1:] & (scores[1:] != scores[:-1]))
    if len(differing):
        pairs = [f"{rows[at]} ({scores[at]:g}) and {rows[at + 1]} ({scores[at + 1]:g})" for at in _first(differing)]
        raise MetricError(
            f"{file}: {len(differing):,} times two rows of one key have different scores: rows {', '.join(pairs)}",
            "A score is found by its id, or by its image and caption: keep one of the two, or name the column that "
            "tells them apart.",
        )
    return {"keys": keys[~again], "scores": scores[~again], "rows": rows[~again]}


def _first(places: np.ndarray) -> Iterator[int]:
    yield from places[:_NAMED].tolist()
