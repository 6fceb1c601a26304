"""Scores that were computed elsewhere, as a metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MetricError
from .contract import Context, Metric
from .items import Items, Scores
from .score_file import ScoreColumns, ScoreFile, caption_key, id_key, read_score_file, score_file_digest

_NAMED = 3
_HINT = (
    "Scores are found by id, or by image and caption, as 'samples.parquet' of a run of the task has them. "
    "'image_names=bare' compares images without folders and suffix; 'coverage=SHARE' goes on with fewer."
)


class Recorded(Metric):
    """Scores from a file, so that any metric that somebody has computed stands beside those that run here.

    The file is jsonl, json, csv, tsv or Parquet. Its rows hold ``score`` and ``id``, or ``score``, ``image`` and
    ``caption``; columns of other names are named. Ids are those of the samples of a run; of a pair's captions
    ``ID|0`` and ``ID|1``. A caption that occurs under several ids is one item, under the first of them. White space
    in captions is not looked at. Two rows of one key with different scores are refused.

    The file is read once on a machine, row by row; processes share 24 bytes a score.

    ``Scores.parts``: ``row [n]``, the row of the file, from 1, that holds the score; ``weight [n]``, how many rows of
    the data set the item stands for.

    Args:
        file: The file.
        label: What the scores are of, as papers print it (``"FLEUR"``).
        score: The column of scores.
        id: The column of ids; by default ``id``, where the file has one.
        image: The column of images' names.
        caption: The column of captions.
        image_names: ``exact``, or ``bare``: names of images are compared without folders and suffix.
        coverage: The least share of the data set's rows that must have a score, 0 to 1.
        higher_is_better: Whether more is better.

    Raises:
        ValueError: A setting is missing, or is not what it must be.
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
        if image_names not in ("exact", "bare"):
            raise ValueError(f"'image_names' is exact or bare, not {image_names!r}")
        if id is not None and (image is not None or caption is not None):
            raise ValueError("finds scores by 'id', or by 'image' and 'caption', not by both")
        if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 <= coverage <= 1:
            raise ValueError(f"'coverage' is a share, 0 to 1, not {coverage!r}")
        if not isinstance(higher_is_better, bool):
            raise ValueError(f"'higher_is_better' is true or false, not {higher_is_better!r}")
        self.label = label
        self.higher_is_better = higher_is_better
        self._path = Path(file).expanduser()
        self._columns = ScoreColumns(score, id, image, caption, image_names)
        self._coverage = coverage

    def check(self) -> None:
        """Read the file.

        Raises:
            MetricError: It cannot be read, or its scores cannot be told apart.
        """
        self._scores  # noqa: B018 - reads it

    def fingerprint(self) -> dict[str, Any]:
        """Return the file's hash, and how scores are found in it; where it lies is no matter."""
        return {
            "metric": type(self).__name__,
            "sha256": score_file_digest(self._path),
            "columns": vars(self._columns),
            "higher_is_better": self.higher_is_better,
        }

    def score(self, items: Items, context: Context) -> Scores:
        """Look up the score of each item; see ``Metric.score``.

        Raises:
            MetricError: Scores are found by image, and nobody said what the images are called.
        """
        scores = self._scores
        at = scores.find(self._keys(items))
        found = at >= 0
        missing = f"has no score in {scores.name}"
        return Scores(
            np.where(found, scores.scores[at], np.nan),
            {"row": np.where(found, scores.rows[at], np.nan), "weight": items.weights},
            dict.fromkeys(np.flatnonzero(~found).tolist(), missing),
        )

    def review(self, shards: Iterable[tuple[Scores, Mapping[int, str]]]) -> list[str]:
        """Hold the run against the file: captions without a score, and scores without a caption.

        Raises:
            MetricError: Fewer captions have a score than must.
        """
        scores = self._scores
        rows: list[np.ndarray] = []
        scored = total = 0.0
        missing: list[str] = []
        for made, ids in shards:
            row, weight = made.parts["row"], made.parts["weight"]
            found = np.isfinite(row)
            rows.append(row[found])
            scored, total = scored + float(weight[found].sum()), total + float(np.nansum(weight))
            missing = list(dict.fromkeys([*missing, *ids.values()]))[:_NAMED]
        said = list(self._unused(np.concatenate(rows)))
        if scored / total < self._coverage:
            raise MetricError(
                f"{scored:,.0f} of {total:,.0f} rows have a score in {scores.name} (coverage "
                f"{scored / total:.4f}, where {self._coverage:g} is asked for); the first without one: "
                f"{', '.join(missing)}{''.join(f'; it {one}' for one in said)}",
                _HINT,
            )
        return said

    def _unused(self, used: np.ndarray) -> Iterator[str]:
        scores = self._scores
        count, first = scores.unused(used)
        if count:
            # A caption that occurs under several ids is scored under the first.
            of = "no caption here, or of one that has an earlier id, too" if scores.by_id else "no caption here"
            yield (
                f"leaves {count:,} of {len(scores.scores):,} scores of {scores.name} unused, which are of {of}: rows "
                f"{', '.join(map(str, first))}{', …' if count > len(first) else ''}"
            )
        if scores.unusable:
            yield (
                f"cannot read {scores.unusable:,} rows of {scores.name}: {'; '.join(scores.first_unusable)}"
                f"{'; …' if scores.unusable > len(scores.first_unusable) else ''}"
            )

    @cached_property
    def _scores(self) -> ScoreFile:
        return read_score_file(self._path, self._columns)

    def _keys(self, items: Items) -> Iterator[int]:
        if self._scores.by_id:
            return map(id_key, items.ids)
        if not items.image_names:
            raise MetricError(
                f"{self._scores.name} names scores by image, and what is scored has no images", "Give its rows an 'id'."
            )
        names = self._scores.image_names
        return (
            caption_key(image, caption, names)
            for image, caption in zip(items.image_names, items.candidates, strict=True)
        )
