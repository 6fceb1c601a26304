"""Scores that were computed elsewhere, as a metric."""

from __future__ import annotations

import hashlib
import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..adapters.images.file_digests import file_digest
from ..errors import DataError, MetricError
from ..rows import BadRow, parse_number, read_rows
from .contract import Context, Metric, require_choice
from .items import Items, Scores
from .mapped import mapped

_NAMED = 3
_HINT = (
    "Scores are found by id, or by image and caption, as 'samples.parquet' of a run of the task has them. "
    "'image_names=bare' compares images without folders and suffix; 'coverage=SHARE' goes on with fewer."
)


class Recorded(Metric):
    """Scores from a file, to compare metrics that were computed by other programs with those that run here.

    The file is jsonl, json, csv, tsv or Parquet. Its rows hold ``score`` and ``id``, or ``score``, ``image`` and
    ``caption``; columns of other names are named. Ids are those of the samples of a run; of a pair's captions
    ``ID|0`` and ``ID|1``. White space in captions is ignored. Two rows of one key with different scores are
    refused.

    The file is read once on a machine, row by row; processes share 24 bytes a score.

    ``Scores.parts``: ``row [n]``, the row of the file, from 1, that holds the score; ``weight [n]``, how many rows of
    the data set the item stands for.

    Args:
        file: The file.
        label: The metric's name, as papers print it (``"FLEUR"``).
        score: The column of scores.
        id: The column of ids; by default ``id``, where the file has one.
        image: The column of images' names.
        caption: The column of captions.
        image_names: ``exact``, or ``bare``: names of images are compared without folders and suffix.
        coverage: The least share of the data set's rows that must have a score, 0 to 1.
        higher_is_better: Whether more is better.

    Raises:
        ValueError: A setting is missing or invalid.
    """

    label = "recorded"
    range = (-math.inf, math.inf)
    source = "scores computed elsewhere, from a file"
    own_files = frozenset({"file"})
    set_by_data = frozenset({"file", "label", "score", "id", "image", "caption", "image_names", "higher_is_better"})

    def __init__(
        self,
        file: str = "",
        label: str = "",
        score: str = "score",
        id: str | None = None,
        image: str | None = None,
        caption: str | None = None,
        image_names: Any = "exact",
        coverage: float = 1.0,
        higher_is_better: bool = True,
    ) -> None:
        for name, value in (("file", file), ("label", label)):
            if not (isinstance(value, str) and value.strip()):
                raise ValueError(f"names no '{name}': recorded[file=FILE,label=NAME]")
        require_choice("image_names", image_names, ("exact", "bare"))
        if id is not None and (image is not None or caption is not None):
            raise ValueError("scores are found by 'id', or by 'image' and 'caption', not by both")
        if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 <= coverage <= 1:
            raise ValueError(f"'coverage' must be a share from 0 to 1, not {coverage!r}")
        if not isinstance(higher_is_better, bool):
            raise ValueError(f"'higher_is_better' must be true or false, not {higher_is_better!r}")
        self.label = label
        self.higher_is_better = higher_is_better
        self._path = Path(file).expanduser()
        self._columns = ScoreColumns(score, id, image, caption, image_names)
        self._coverage = coverage

    @property
    def by_id(self) -> bool:
        """Whether the file names its scores by ids."""
        return self._scores.by_id

    def check(self) -> None:
        """Read the file.

        Raises:
            MetricError: It cannot be read, or its scores are ambiguous.
        """
        self._scores  # noqa: B018 - reads it

    def fingerprint(self) -> dict[str, Any]:
        """Return the file's hash, and how scores are found in it; its path does not count."""
        return {
            "metric": type(self).__name__,
            "sha256": score_file_digest(self._path),
            "columns": vars(self._columns),
            "higher_is_better": self.higher_is_better,
        }

    def score(self, items: Items, context: Context) -> Scores:
        """Look up the score of each item; see ``Metric.score``.

        Raises:
            MetricError: Scores are found by image, and the images have no names.
        """
        scores = self._scores
        at = scores.find(self._keys(items))
        has_score = at >= 0
        missing = f"has no score in {scores.name}"
        return Scores(
            np.where(has_score, scores.scores[at], np.nan),
            {"row": np.where(has_score, scores.rows[at], np.nan), "weight": items.weights},
            dict.fromkeys(np.flatnonzero(~has_score).tolist(), missing),
        )

    def review(self, shards: Iterable[tuple[Scores, Mapping[int, str]]]) -> list[str]:
        """Compare the run with the file: captions without a score, and scores without a caption.

        Raises:
            MetricError: Fewer captions have a score than must.
        """
        scores = self._scores
        rows: list[np.ndarray] = []
        scored = total = 0.0
        missing: list[str] = []
        for shard, ids in shards:
            row, weight = shard.parts["row"], shard.parts["weight"]
            has_score = np.isfinite(row)
            rows.append(row[has_score])
            scored, total = scored + float(weight[has_score].sum()), total + float(np.nansum(weight))
            missing = list(dict.fromkeys([*missing, *ids.values()]))[:_NAMED]
        said: list[str] = []
        left = np.sort(scores.rows[~np.isin(scores.rows, np.concatenate(rows))]).tolist()
        if left:
            said.append(
                f"leaves {len(left):,} of {len(scores.scores):,} scores of {scores.name} unused, which are of no "
                f"caption here: rows {', '.join([*map(str, left[:_NAMED]), *['…'] * (len(left) > _NAMED)])}"
            )
        if scores.unusable:
            more = ["…"] * (scores.unusable > len(scores.first_unusable))
            bad = "; ".join([*scores.first_unusable, *more])
            said.append(f"cannot read {scores.unusable:,} rows of {scores.name}: {bad}")
        if scored / total < self._coverage:
            raise MetricError(
                f"{scored:,.0f} of {total:,.0f} rows have a score in {scores.name} (coverage "
                f"{scored / total:.4f}, where {self._coverage:g} is required); the first without one: "
                f"{', '.join(missing)}{''.join(f'; it {remark}' for remark in said)}",
                _HINT,
            )
        return said

    @cached_property
    def _scores(self) -> ScoreFile:
        return read_score_file(self._path, self._columns)

    def _keys(self, items: Items) -> Iterator[int]:
        if self._scores.by_id:
            return map(_hashed, items.ids)
        if not items.image_names:
            raise MetricError(
                f"{self._scores.name} names scores by image; the scored rows have no images",
                "Add a column 'id' to the file.",
            )
        names = self._columns.image_names
        pairs = zip(items.image_names, items.candidates, strict=True)
        return (caption_key(image, caption, names) for image, caption in pairs)


ImageNames = Literal["exact", "bare"]
"""How names of images are compared: as they are, or without folders and suffix."""

_VERSION = 2
_SUFFIX = re.compile(r"\.(jpe?g|png|webp|gif|bmp|tiff?|mp4|webm|mkv|avi|mov|npy|pt)", re.IGNORECASE)


@dataclass(frozen=True)
class ScoreColumns:
    """The names of the columns of a score file.

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

    def chosen(self, names: Iterable[str], file: str) -> ScoreColumns:
        """Return the columns by which the rows of a file are found; by default the id, where it has one.

        Raises:
            MetricError: The file has no such columns.
        """
        columns = list(names)
        by_caption = self.image is not None or self.caption is not None
        if self.id is not None or (not by_caption and "id" in columns):
            chosen = ScoreColumns(self.score, self.id or "id")
        else:
            image, caption = self.image or "image", self.caption or "caption"
            chosen = ScoreColumns(self.score, None, image, caption, self.image_names)
        wanted = (chosen.score, chosen.id, chosen.image, chosen.caption)
        if missing := [name for name in wanted if name is not None and name not in columns]:
            raise MetricError(
                f"{file} has no column {' and none '.join(map(repr, missing))}; it has {', '.join(columns)}",
                "A row holds 'score' and 'id', or 'score', 'image' and 'caption'; name other columns: "
                "recorded[file=FILE,label=NAME,score=COLUMN,id=COLUMN].",
            )
        return chosen


@dataclass(frozen=True)
class ScoreFile:
    """The scores of a file.

    Attributes:
        name: The file's.
        by_id: Whether scores are found by ids, or else by image and caption.
        unusable: How many rows hold no score, or nothing that it is of.
        first_unusable: The first of these, with the reason.
        keys: ``[n]`` uint64, ascending: hashes of what the scores are of.
        scores: ``[n]`` float64, finite.
        rows: ``[n]`` the row of each, from 1.
    """

    name: str
    by_id: bool
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


def caption_key(image: Any, caption: str, image_names: ImageNames) -> int:
    """Return the key of a score that is found by image and caption; white space of captions is ignored."""
    name = bare_name(str(image)) if image_names == "bare" else str(image)
    return _hashed(f"{name}\0{' '.join(caption.split())}")


def bare_name(name: str) -> str:
    """Return the name of an image or video without folders and without its suffix, if that is one of theirs."""
    name = name.replace("\\", "/").rpartition("/")[2]
    match = _SUFFIX.search(name, max(0, name.rfind(".")))
    return name[: match.start()] if match and match.end() == len(name) else name


def read_score_file(path: Path, columns: ScoreColumns) -> ScoreFile:
    """Return the scores of a file.

    It is read once on a machine, row by row, and the result is stored in the cache folder by the file's hash.

    Args:
        path: The file.
        columns: What its columns are called.

    Raises:
        MetricError: It cannot be read, has other columns, holds no score, or two of one key that differ.
    """
    digest = score_file_digest(path)

    def build() -> dict[str, np.ndarray]:
        try:
            arrays = _read(path, columns)
        except DataError as error:
            raise MetricError(error.message, error.hint) from error
        if score_file_digest(path) != digest:
            raise MetricError(f"{path}: changed while it was read", "Run again when it no longer changes.")
        return arrays

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
    # Names in data sets may hold any character, even a lone surrogate.
    content = key.encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _read(path: Path, columns: ScoreColumns) -> dict[str, np.ndarray]:
    keys, scores, rows = array("Q"), array("d"), array("q")
    unusable, first_unusable = 0, list[str]()
    chosen: ScoreColumns | None = None
    for number, row in enumerate(read_rows(path), 1):
        place = f"row {number}"
        try:
            if isinstance(row, BadRow):
                place = row.place
                raise ValueError(row.reason)
            chosen = chosen or columns.chosen(row, path.name)
            score, key = _score(row, chosen.score), _key(row, chosen)
        except ValueError as error:
            unusable += 1
            first_unusable += [f"{place} {error}"] if unusable <= _NAMED else []
            continue
        keys.append(key)
        scores.append(score)
        rows.append(number)
    if chosen is None or not scores:
        raise MetricError(f"{path}: has no score{''.join(f'; {reason}' for reason in first_unusable)}")
    arrays = _sorted(np.asarray(keys), np.asarray(scores), np.asarray(rows), path.name)
    known = {"by_id": chosen.id is not None, "unusable": unusable, "first_unusable": first_unusable}
    return {**arrays, "known": np.frombuffer(json.dumps(known).encode(), np.uint8)}


def _score(row: Mapping[str, Any], column: str) -> float:
    if row.get(column) is None:
        raise ValueError(f"has no '{column}'")
    try:
        return parse_number(row[column])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"'{column}' {error}") from error


def _key(row: Mapping[str, Any], columns: ScoreColumns) -> int:
    if columns.id is not None:
        return _hashed(str(_value(row, columns.id, str | int)))
    image = _value(row, str(columns.image), str | int)
    return caption_key(image, _value(row, str(columns.caption), str), columns.image_names)


def _value(row: Mapping[str, Any], column: str, kind: Any) -> Any:
    if not isinstance(value := row.get(column), kind) or isinstance(value, bool):
        raise ValueError(f"'{column}' is not a name: {value!r:.80}")
    return value


def _sorted(keys: np.ndarray, scores: np.ndarray, rows: np.ndarray, file: str) -> dict[str, np.ndarray]:
    """Return scores in the order of their keys; duplicate rows are left out.

    Raises:
        MetricError: Two rows of one key have different scores.
    """
    order = np.argsort(keys, kind="stable")
    keys, scores, rows = keys[order], scores[order], rows[order]
    again = np.concatenate([[False], keys[1:] == keys[:-1]])
    differing = np.flatnonzero(again[1:] & (scores[1:] != scores[:-1]))
    if len(differing):
        pairs = [
            f"{rows[at]} ({scores[at]:g}) and {rows[at + 1]} ({scores[at + 1]:g})" for at in differing[:_NAMED].tolist()
        ]
        raise MetricError(
            f"{file}: {len(differing):,} keys have two different scores: rows {', '.join(pairs)}",
            "A score is found by its id, or by its image and caption: remove one row, or name the column that "
            "distinguishes them.",
        )
    return {"keys": keys[~again], "scores": scores[~again], "rows": rows[~again]}
