"""Rewards of a captioner: any metric, or a weighted sum of several."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ...adapters import Encoder, Judge
from ...adapters.aliases import resolve_model
from ...benchmarks.inputs.settings import read_metric
from ...benchmarks.running.planned_metrics import PlannedMetric, plan_metric, require_family
from ...benchmarks.running.scoring import score_metric
from ...errors import MetricError, UsageError
from ...metrics import Context, Items, Need, NoCache
from .rows import TrainingRow
from .schema import Strict

_MOST_KEPT = 1 << 30
"""Size of the cache of image features in bytes."""


class RewardPart(Strict):
    """A metric in a reward."""

    metric: str
    """As ``--metrics`` takes it: ``pac_s``, ``cider[document_frequencies=FILE]``, ..."""
    weight: float = 1.0
    """Its factor in the sum; negative if lower is better."""
    encoder: str | None = None
    """Its encoder."""
    judge: str | None = None
    """Its judge."""
    document_frequencies: Literal["images", "captions"] | None = None
    """Of CIDEr: count the training captions; a document is an image with its captions, or each caption."""


@dataclass(frozen=True)
class RewardValues:
    """Rewards of captions.

    Attributes:
        total: ``[n]`` the weighted sum; NaN where a metric has no value.
        values: Metric to its values ``[n]``.
    """

    total: np.ndarray
    values: Mapping[str, np.ndarray]


class Rewards:
    """The metrics of a reward, with their models on one device.

    Args:
        parts: The metrics.
        rows: The training rows.
        device: The device of encoders.

    Raises:
        UsageError: A metric lacks an input, depends on the other captions, or is unknown.
        MetricError: A requirement is missing on this machine.
    """

    def __init__(self, parts: Sequence[RewardPart], rows: Sequence[TrainingRow], device: str) -> None:
        self._counted = tempfile.TemporaryDirectory(prefix="frequencies")
        self._cache = _ImageCache()
        self._models: dict[str, Any] = {}
        self._device = device
        has_references = any(row.captions for row in rows)
        self._parts = [(part, self._planned(part, rows, has_references)) for part in parts]
        self._contexts = [self._context(part, planned) for part, planned in self._parts]

    def of(self, rows: Sequence[TrainingRow], captions: Sequence[str]) -> RewardValues:
        """Return the rewards of captions.

        Args:
            rows: ``[n]`` the row of each caption.
            captions: ``[n]`` texts; equal ones of a row are scored once.
        """
        places: dict[tuple[str, str], int] = {}
        at = [places.setdefault((row.id, text), len(places)) for row, text in zip(rows, captions, strict=True)]
        of_place = dict(zip(at, rows, strict=True))
        items = Items(
            ids=[f"{row}#{number}" for number, (row, _) in enumerate(places)],
            candidates=[text for _, text in places],
            references=[of_place[number].captions for number in range(len(places))],
            weights=np.ones(len(places), dtype=np.int64),
            images=[of_place[number].image for number in range(len(places))],
        )
        total, values = np.zeros(len(at)), {}
        for (part, planned), context in zip(self._parts, self._contexts, strict=True):
            scored = score_metric(planned.metric, items, context).values[at]
            values[planned.name] = scored
            total = total + part.weight * scored
        return RewardValues(total, values)

    def _planned(self, part: RewardPart, rows: Sequence[TrainingRow], has_references: bool) -> PlannedMetric:
        entry = read_metric(part.metric)
        if part.document_frequencies is not None:
            file = _written_captions(rows, part.document_frequencies, Path(self._counted.name))
            entry = entry.model_copy(update={"name": part.metric, "document_frequencies": str(file)})
        planned = plan_metric(entry, frozenset(get_args(Need)))
        metric, named = planned.metric, f"objective.reward: metric '{part.metric}'"
        if planned.error:
            message, _, hint = planned.error.partition("\n")
            raise MetricError(f"{named}: {message}", hint)
        if metric.corpus_dependent:
            raise UsageError(
                f"{named}: its values depend on the other captions of a step.",
                "Add 'document_frequencies: images' (the training captions), or name cider[document_frequencies=FILE].",
            )
        if "references" in metric.needs and not has_references:
            raise UsageError(
                f"{named} needs references, and no row of the data has captions.",
                "Add captions, or use a metric without references, such as pac_s or clip_s.",
            )
        if lacking := metric.needs & {"boxes", "objects"}:
            raise UsageError(f"{named} needs {' and '.join(lacking)}, which rows of recipes do not have.")
        for need, model in (("encoder", part.encoder), ("judge", part.judge)):
            if need in metric.needs and model is None:
                raise UsageError(
                    f"{named} needs a model: '{need}' is missing.",
                    f"Add '{need}: NAME' to the metric ('bench ls models').",
                )
        return planned

    def _context(self, part: RewardPart, planned: PlannedMetric) -> Context:
        encoder, judge = self._loaded(part.encoder, Encoder), self._loaded(part.judge, Judge)
        if encoder is not None:
            require_family([planned], str(part.encoder), encoder.family)
        return Context(cache=self._cache, encoder=encoder, judge=judge)

    def _loaded(self, name: str | None, kind: type) -> Any:
        if name is None:
            return None
        if name not in self._models:
            self._models[name] = resolve_model(name).on(self._device).load()
        if not isinstance(self._models[name], kind):
            raise UsageError(
                f"objective.reward: '{name}' is no {kind.__name__.lower()}.", "'bench ls models' lists models."
            )
        return self._models[name]


class _ImageCache(NoCache):
    """Caches features of images, which recur, and none of captions, which do not."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], np.ndarray] = {}
        self._bytes = 0

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return what is known."""
        key = _key(producer)
        return {name: self._kept[key, name] for name in inputs if (key, name) in self._kept}

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep what fits."""
        if producer.get("of") != "image":
            return
        key = _key(producer)
        for name, array in arrays.items():
            if self._bytes + array.nbytes <= _MOST_KEPT:
                self._bytes += array.nbytes
                self._kept[key, name] = array


def _key(producer: Mapping[str, Any]) -> str:
    return json.dumps(producer, sort_keys=True, default=str)


def _written_captions(rows: Sequence[TrainingRow], document: str, folder: Path) -> Path:
    """Write the captions of rows as documents for CIDEr: one per group, or one per caption."""
    file = folder / f"{document}.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        for row in rows:
            for number, caption in enumerate(row.captions):
                image = row.group if document == "images" else f"{row.id}#{number}"
                lines.write(json.dumps({"image": image, "caption": caption}) + "\n")
    return file
