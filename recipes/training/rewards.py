"""What a captioner is rewarded with: any metric, or a weighted sum of several."""

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
"""Bytes of images' features that are kept."""


class RewardPart(Strict):
    """A metric in a reward."""

    metric: str
    """As ``--metrics`` takes it: ``pac_s``, ``cider[document_frequencies=FILE]``, ..."""
    weight: float = 1.0
    """What its value is multiplied with; negative where less is better."""
    encoder: str | None = None
    """The model that encodes for it."""
    judge: str | None = None
    """The model that judges for it."""
    document_frequencies: Literal["images", "captions"] | None = None
    """Of CIDEr: those of all captions that are trained on, a document being an image with its captions, or each
    caption."""


@dataclass(frozen=True)
class RewardValues:
    """What some captions are worth.

    Attributes:
        total: ``[n]`` the weighted sum; NaN where a metric has no value.
        values: Metric to ``[n]`` its own.
    """

    total: np.ndarray
    values: Mapping[str, np.ndarray]


class Rewards:
    """The metrics of a reward, with their models on one device.

    Args:
        parts: The metrics.
        rows: What is trained on.
        device: Where encoders compute.

    Raises:
        UsageError: A metric needs what there is not, depends on what else is scored, or is not known.
        MetricError: The machine lacks what one needs.
    """

    def __init__(self, parts: Sequence[RewardPart], rows: Sequence[TrainingRow], device: str) -> None:
        self._counted: list[tempfile.TemporaryDirectory[str]] = []
        self._cache = _ImagesKept()
        self._models: dict[str, Any] = {}
        self._device = device
        has_references = any(row.captions for row in rows)
        self._parts = [(one, self._planned(one, rows, has_references)) for one in parts]
        self._contexts = [self._context(part, planned) for part, planned in self._parts]

    def of(self, rows: Sequence[TrainingRow], captions: Sequence[str]) -> RewardValues:
        """Return what captions are worth.

        Args:
            rows: ``[n]`` what each caption is of.
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
            found = score_metric(planned.metric, items, context).values[at]
            values[planned.name] = found
            total = total + part.weight * found
        return RewardValues(total, values)

    def _planned(self, part: RewardPart, rows: Sequence[TrainingRow], has_references: bool) -> PlannedMetric:
        entry = read_metric(part.metric)
        if part.document_frequencies is not None:
            counted = tempfile.TemporaryDirectory(prefix="frequencies")
            self._counted.append(counted)
            file = _written_captions(rows, part.document_frequencies, Path(counted.name))
            entry = entry.model_copy(update={"name": part.metric, "document_frequencies": str(file)})
        planned = plan_metric(entry, frozenset(get_args(Need)))
        metric, named = planned.metric, f"objective.reward: metric '{part.metric}'"
        if planned.error:
            message, _, hint = planned.error.partition("\n")
            raise MetricError(f"{named}: {message}", hint)
        if metric.corpus_dependent:
            raise UsageError(
                f"{named}: its values depend on the other captions that are scored with it, which are another few "
                "at each step.",
                "Give it what it counts: 'document_frequencies: images' beside the metric counts the captions that "
                "are trained on, cider[document_frequencies=FILE] those of a file.",
            )
        if "references" in metric.needs and not has_references:
            raise UsageError(
                f"{named} needs references, and no row of the data has captions.",
                "Add them, or take a metric without references, such as pac_s or clip_s.",
            )
        if lacking := metric.needs & {"boxes", "objects"}:
            raise UsageError(f"{named} needs {' and '.join(lacking)}, which rows of recipes have not.")
        for need, model in (("encoder", part.encoder), ("judge", part.judge)):
            if need in metric.needs and model is None:
                raise UsageError(
                    f"{named} needs a model, and none was named.",
                    f"Name one beside the metric: '{need}: NAME' ('bench ls models').",
                )
        return planned

    def _context(self, part: RewardPart, planned: PlannedMetric) -> Context:
        encoder, judge = self._loaded(part.encoder), self._loaded(part.judge)
        if part.encoder is not None and not isinstance(encoder, Encoder):
            raise UsageError(f"objective.reward: {part.encoder} does not encode images and texts.")
        if part.judge is not None and not isinstance(judge, Judge):
            raise UsageError(f"objective.reward: {part.judge} does not judge.")
        if isinstance(encoder, Encoder):
            require_family([planned], str(part.encoder), encoder.family)
        return Context(cache=self._cache, encoder=encoder, judge=judge)

    def _loaded(self, name: str | None) -> Any:
        if name is not None and name not in self._models:
            self._models[name] = resolve_model(name).on(self._device).load()
        return None if name is None else self._models[name]


class _ImagesKept(NoCache):
    """Keeps features of images, as these come again, and none of captions, which do not."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, np.ndarray]] = {}
        self._bytes = 0

    def get_arrays(self, producer: Mapping[str, Any], inputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Return what is known."""
        kept = self._kept.get(_key(producer), {})
        return {one: kept[one] for one in inputs if one in kept}

    def put_arrays(self, producer: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Keep what fits."""
        if producer.get("of") != "image":
            return
        kept = self._kept.setdefault(_key(producer), {})
        for name, array in arrays.items():
            if self._bytes + array.nbytes <= _MOST_KEPT:
                self._bytes += array.nbytes
                kept[name] = array


def _key(producer: Mapping[str, Any]) -> str:
    return json.dumps(producer, sort_keys=True, default=str)


def _written_captions(rows: Sequence[TrainingRow], document: str, folder: Path) -> Path:
    """Write the captions of rows as CIDEr counts them: a document of each group, or of each caption."""
    file = folder / "captions.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        for row in rows:
            for number, caption in enumerate(row.captions):
                image = row.group if document == "images" else f"{row.id}#{number}"
                lines.write(json.dumps({"image": image, "caption": caption}) + "\n")
    return file
