"""Metrics with the interface of torchmetrics: ``update``, ``compute``, ``reset``, on any device."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import distributed

from ...adapters import Encoder, ImageHandle
from ...adapters.aliases import ModelSpec, resolve_model
from ...adapters.images.handles import as_png, is_decoded
from ...errors import DataError, MetricError, UsageError
from ...metrics import MEAN, Context, Items, Scores
from ...tasks.schema import MetricEntry
from ..inputs.images import handle_of
from ..inputs.items import CaptionRow, candidate_fault, gather, references_fault
from ..inputs.models import load
from ..protocols.job import ScoredMetric
from ..running.planned_metrics import PlannedMetric, plan_metric, require_family
from ..running.rows import require_list
from ..running.scoring import score_metric

Texts = str | Sequence[str]
"""One text or several."""
Images = Any
"""A tensor ``[n, c, h, w]``, or a list of tensors ``[c, h, w]``, Pillow images, arrays or paths."""


class TorchCaptionMetric(torch.nn.Module):
    """A metric that accumulates batches, as in torchmetrics.

    It is a module without weights, so it moves to a device with its parent module. With ``torch.distributed``,
    ``compute`` covers the batches of all processes.
    """

    is_differentiable = False
    full_state_update = False
    _place: torch.Tensor

    def __init__(self, planned: PlannedMetric) -> None:
        super().__init__()
        self._planned = planned
        self._rows: list[Any] = []
        self.higher_is_better = planned.metric.direction
        self.register_buffer("_place", torch.zeros(()), persistent=False)

    @property
    def device(self) -> torch.device:
        """Device of the values."""
        return self._place.device

    @abstractmethod
    def update(self, *batch: Any, **named: Any) -> None:
        """Add a batch."""

    @abstractmethod
    def _value(self, rows: Sequence[Any]) -> float | None:
        """Return the system-level value of accumulated entries."""

    def compute(self) -> torch.Tensor:
        """Return the value over all batches: a float64 scalar tensor (float32 on devices without float64).

        Raises:
            UsageError: There was no batch.
            MetricError: A caption has no score.
        """
        rows = self._rows
        if distributed.is_available() and distributed.is_initialized():
            parts: list[list[Any]] = [[] for _ in range(distributed.get_world_size())]
            distributed.all_gather_object(parts, rows)
            rows = [row for part in parts for row in part]
        return self._computed(rows)

    def forward(self, *batch: Any, **named: Any) -> torch.Tensor:
        """Add a batch, and return the value for this batch only."""
        before, self._rows = self._rows, []
        try:
            self.update(*batch, **named)
            return self._computed(self._rows)
        finally:
            self._rows = before + self._rows

    def reset(self) -> None:
        """Remove all batches."""
        self._rows = []

    def _scores(self, items: Items, context: Context) -> Scores:
        scores = score_metric(self._planned.metric, items, context)
        for item in np.flatnonzero(~np.isfinite(scores.values)).tolist():
            reason = scores.failures.get(item, "it is not finite")
            raise MetricError(f"{self._planned.name}: a caption has no score: {reason}")
        return scores

    def _computed(self, rows: Sequence[Any]) -> torch.Tensor:
        if not rows:
            raise UsageError(f"{self._planned.name}: no caption was added", "Call update before compute.")
        value = self._value(rows)
        if value is None:
            raise MetricError(f"{self._planned.name} has no value: {self._planned.aggregate.undefined}")
        dtype = torch.float32 if self.device.type == "mps" else torch.float64
        return torch.tensor(value, dtype=dtype, device=self.device)


class TorchTextMetric(TorchCaptionMetric):
    """A metric of captions and references; created by :func:`as_torchmetrics`.

    It stores captions until ``reset``, as some metrics have corpus-level values (CIDEr, BLEU).
    """

    def __init__(self, metric: str, **arguments: Any) -> None:
        entry = MetricEntry.model_validate({"metric": metric, **arguments})
        super().__init__(plan_metric(entry, frozenset({"references"})))

    def update(self, preds: Texts, target: str | Sequence[str | Sequence[str]] = ()) -> None:
        """Add captions.

        Args:
            preds: The captions.
            target: A list of references, or one text, for each caption; empty if the metric uses none.

        Raises:
            UsageError: The numbers of captions and references differ.
            DataError: References are empty.
        """
        candidates, references = _listed("captions", preds), _listed("references", target)
        if "references" not in self._planned.metric.needs:
            references = [()] * len(candidates)
        _require_as_many(candidates, references, "references")
        lists = [tuple(_listed("references", texts)) for texts in references]
        for number, texts in enumerate(lists if "references" in self._planned.metric.needs else ()):
            if fault := references_fault(texts):
                raise DataError(f"caption {number} of the batch: reference {fault}")
        self._rows += zip(map(_scored_text, candidates), lists, strict=True)

    def _value(self, rows: Sequence[tuple[str, tuple[str, ...]]]) -> float | None:
        items, _, _ = gather(CaptionRow(str(n), str(n), *row) for n, row in enumerate(rows))
        scores = self._scores(items, Context())
        scored = ScoredMetric(self._planned.name, self._planned.metric, self._planned.aggregation, scores)
        return scored.system_value(items.weights)


class CLIPScore(TorchCaptionMetric):
    """CLIP-S of images and captions, as a replacement for ``torchmetrics.multimodal.CLIPScore``.

    The defaults are those of torchmetrics: 100 times the cosine, without a prompt. torchmetrics clips a negative mean
    to 0; here, as in CLIP-S, each negative cosine is clipped. ``w=2.5, prompt="A photo depicts "`` gives CLIP-S as in
    its paper.

    Args:
        model_name_or_path: A model of ``bench ls models``, a CLIP model on the hub or in a folder, or an encoder.
        w: Factor of the cosine.
        prompt: Prefix of each caption.
        **model_args: Arguments of the model's adapter (``dtype``, ``batch_size``, ...).
    """

    def __init__(
        self,
        model_name_or_path: str | Encoder = "openai/clip-vit-large-patch14",
        *,
        w: float = 100.0,
        prompt: str = "",
        **model_args: Any,
    ) -> None:
        entry = MetricEntry.model_validate({"metric": "clip_s", "w": w, "prompt": prompt})
        super().__init__(plan_metric(entry, frozenset({"image", "encoder"})))
        self._model, self._arguments = model_name_or_path, model_args
        self._loaded: tuple[torch.device, Encoder] | None = None

    @property
    def encoder(self) -> Encoder:
        """The given encoder, or the model, loaded on this device at first use."""
        if isinstance(self._model, Encoder):
            return self._model
        if self._loaded is None or self._loaded[0] != self.device:
            spec = _spec_of(self._model, {"device": str(self.device), **self._arguments})
            encoder = load(spec, Encoder)
            require_family([self._planned], spec.name, encoder.family)
            self._loaded = self.device, encoder
        return self._loaded[1]

    def update(self, source: Images | Texts, target: Images | Texts) -> None:
        """Add images and captions, in either order.

        Args:
            source: Images: a tensor ``[n, c, h, w]`` or ``[c, h, w]``, or a list of tensors ``[c, h, w]``, of
                integers from 0 to 255; or a list of Pillow images, arrays, encoded images or paths.
            target: The same number of captions.

        Raises:
            UsageError: The numbers of images and captions differ, or an argument has another type.
            MetricError: A caption has no score: its image cannot be read.
        """
        images, texts = (target, source) if _are_texts(source) else (source, target)
        if _are_texts(images) or not _are_texts(texts):
            raise UsageError(f"{type(self).__name__} compares images with captions, not two of the same type")
        handles, captions = list(map(_handle, _listed("images", images))), _listed("captions", texts)
        _require_as_many(captions, handles, "images")
        rows = zip(map(_scored_text, captions), handles, strict=True)
        items, item_of_row, _ = gather(
            CaptionRow(str(n), str(n), caption, (), pixels=handle) for n, (caption, handle) in enumerate(rows)
        )
        scores = self._scores(items, Context(encoder=self.encoder))
        self._rows += scores.values[item_of_row].tolist()

    def _value(self, rows: Sequence[float]) -> float | None:
        return MEAN.corpus(Scores(np.array(rows)), np.ones(len(rows)))


def as_torchmetrics(metric: str, **arguments: Any) -> TorchTextMetric:
    """Return a metric of captions and references with the interface of torchmetrics.

    Args:
        metric: Name of the metric (``"cider"``).
        **arguments: Its settings.

    Raises:
        UsageError: Unknown metric or setting, or it needs a model or an image.

    Example:
        >>> cider = capbench.as_torchmetrics("cider")
        >>> cider.update(["a dog"], [["a dog runs", "the dog"]])
        >>> cider.compute()
    """
    return TorchTextMetric(metric, **arguments)


def _spec_of(model: str, arguments: dict[str, Any]) -> ModelSpec:
    """Return the spec of a model; a path or hub name that is not an alias is a CLIP model of transformers."""
    try:
        return resolve_model(model, arguments)
    except UsageError:
        if "/" not in model:
            raise
        return resolve_model("hf_clip", {"pretrained": model, **arguments})


def _listed(subject: str, value: Any) -> list[Any]:
    """Return texts or images as a list."""
    require_list(subject, value)
    is_one = isinstance(value, str) or (isinstance(value, torch.Tensor) and value.ndim == 3)
    return [value] if is_one else list(value)


def _scored_text(caption: Any) -> str:
    """Return a caption; captions without text become empty, as in released code."""
    return "" if candidate_fault(caption) else caption


def _require_as_many(captions: Sequence[Any], others: Sequence[Any], subject: str) -> None:
    if len(captions) != len(others):
        raise UsageError(f"captions and {subject} differ in number: {len(captions)} and {len(others)}")


def _are_texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list | tuple) and bool(value) and isinstance(value[0], str))


def _handle(image: Any) -> ImageHandle:
    if isinstance(image, torch.Tensor):
        whole = not image.is_floating_point() and image.numel() > 0
        if not whole or image.ndim != 3 or int(image.min()) < 0 or int(image.max()) > 255:
            raise UsageError(
                f"an image is a tensor of dtype {image.dtype} and shape {list(image.shape)}",
                "Give tensors [c, h, w] of integers from 0 to 255.",
            )
        pixels = image.cpu().numpy().astype(np.uint8)
        image = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    handle = handle_of(as_png(image) if is_decoded(image) else image)
    if not isinstance(handle, ImageHandle):
        raise UsageError(f"an image has the unknown type {type(image).__name__}", "Give a tensor [c, h, w].")
    return handle
