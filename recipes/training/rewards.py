"""Rewards of a captioner: any metric, or a weighted sum of several."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field

from ...adapters import Encoder, Judge
from ...adapters.aliases import ModelSpec, resolve_model
from ...benchmarks.inputs.items import CaptionRow, gather
from ...benchmarks.inputs.models import NamedModels
from ...benchmarks.inputs.settings import read_metric
from ...benchmarks.interchange.as_reward import WeightedMetric, WeightedMetrics, written_corpus
from ...benchmarks.running.planned_metrics import plan_metric
from ...errors import MetricError, UsageError
from ...metrics import Need, NoCache
from ...tasks.schema import MetricEntry
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


def _as_parts(value: Any) -> Any:
    """Return the parts of a reward; a single metric may be a name or a mapping instead of a list."""
    if isinstance(value, str):
        return [{"metric": value}]
    return [value] if isinstance(value, dict) else value


RewardParts = Annotated[list[RewardPart], BeforeValidator(_as_parts), Field(min_length=1)]
"""A metric, or several for a weighted sum."""


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

    Attributes:
        names: Names of the metrics.

    Raises:
        UsageError: A metric lacks an input, depends on the other captions, or is unknown.
        MetricError: A requirement is missing on this machine.
    """

    def __init__(self, parts: Sequence[RewardPart], rows: Sequence[TrainingRow], device: str) -> None:
        self._device, self._models = device, dict[str, Any]()
        parts_of_sum = [WeightedMetric(_entry(part, rows), part.weight, self._named(part)) for part in parts]
        remedy = "Add 'document_frequencies: images' (the training captions), or name cider[document_frequencies=FILE]."
        try:
            self._metrics = WeightedMetrics(parts_of_sum, _ImageCache(), remedy)
        except (UsageError, MetricError) as error:
            raise type(error)(f"objective.reward: {error.message}", error.hint) from error
        self.names = [metric.name for metric in self._metrics.planned]

    def of(self, rows: Sequence[TrainingRow], captions: Sequence[str]) -> RewardValues:
        """Return the rewards of captions.

        Args:
            rows: ``[n]`` the row of each caption.
            captions: ``[n]`` texts; equal ones of a row are scored once.
        """
        items, at, _ = gather(
            CaptionRow(row.id, row.id, text, row.captions, pixels=row.image)
            for row, text in zip(rows, captions, strict=True)
        )
        values = {name: scores.values[at] for name, scores in self._metrics.scores(items).items()}
        return RewardValues(self._metrics.total(values), values)

    def _named(self, part: RewardPart) -> NamedModels:
        return NamedModels(encoder=self._loaded(part.encoder, Encoder), judge=self._loaded(part.judge, Judge))

    def _loaded(self, name: str | None, kind: type) -> ModelSpec | None:
        if name is None:
            return None
        if name not in self._models:
            self._models[name] = resolve_model(name).on(self._device).load()
        if not isinstance(self._models[name], kind):
            raise UsageError(
                f"objective.reward: '{name}' is no {kind.__name__.lower()}.", "'bench ls models' lists models."
            )
        return replace(resolve_model(name), instance=self._models[name])


def require_inputs(part: RewardPart, rows: Sequence[TrainingRow], key: str) -> MetricEntry:
    """Return a metric with its settings, if the recipe and its rows have what it needs.

    Args:
        part: The metric.
        rows: The rows whose captions it scores.
        key: The recipe's key that names it, for messages.

    Raises:
        UsageError: It is unknown, or needs what the recipe does not name or rows do not have.
    """
    entry, named = read_metric(part.metric), f"{key}: metric '{part.metric}'"
    needs = plan_metric(entry, frozenset(get_args(Need))).metric.needs
    if "references" in needs and not any(row.captions for row in rows):
        raise UsageError(
            f"{named} needs references, and no row of the data has captions.",
            "Add captions, or use a metric without references, such as pac_s or clip_s.",
        )
    if lacking := needs & {"boxes", "objects"}:
        raise UsageError(f"{named} needs {' and '.join(lacking)}, which rows of recipes do not have.")
    for need, model in (("encoder", part.encoder), ("judge", part.judge)):
        if need in needs and model is None:
            raise UsageError(
                f"{named} needs a model: '{need}' is missing.",
                f"Name it beside the metric: '{need}: NAME' ('bench ls models').",
            )
    return entry


def _entry(part: RewardPart, rows: Sequence[TrainingRow]) -> MetricEntry:
    """Return a metric with its settings, which name the training captions if it counts them."""
    entry = require_inputs(part, rows, "objective.reward")
    if part.document_frequencies is None:
        return entry
    captions = ({"references": [text], "image": row.group} for row in rows for text in row.captions)
    file = written_corpus(captions, "image" if part.document_frequencies == "images" else "")
    return entry.model_copy(update={"document_frequencies": file})


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
