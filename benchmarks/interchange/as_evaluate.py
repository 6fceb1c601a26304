"""Our metrics as modules of the Hugging Face ``evaluate`` library."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np

from ...metrics import Context
from ...tasks.schema import MetricEntry
from ..inputs.items import CaptionRow, gather
from ..protocols.results import ScoredMetric
from ..running.planned_metrics import plan_metric


class CaptionMetric(evaluate.Metric):
    """A metric of capbench as an evaluation module; ``capbench.as_evaluate`` makes one.

    ``compute(predictions, references)`` takes captions and, for each, a list of references. It returns the
    system-level value under the metric's name, and the value of each caption under ``NAME_scores``.
    """

    def __init__(self, metric_name: str, **arguments: Any) -> None:
        self._name = metric_name
        self._plan = plan_metric(
            MetricEntry.model_validate({"metric": metric_name, **arguments}),
            frozenset({"references"}),
        )
        super().__init__(keep_in_memory=True)

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=type(self._plan.metric).__doc__ or "",
            citation=self._plan.metric.source,
            inputs_description="predictions: captions; references: a list of texts for each",
            features=datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
        )

    def _compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> dict[str, Any]:
        rows = [
            CaptionRow(str(n), str(n), candidate, tuple(texts))
            for n, (candidate, texts) in enumerate(zip(predictions, references, strict=True))
        ]
        items, item_of_row = gather(rows)
        scores = self._plan.metric.score(items, Context())
        scored = ScoredMetric(self._name, self._plan.metric, self._plan.aggregation, scores)
        values = [value if np.isfinite(value) else None for value in scores.values[item_of_row].tolist()]
        return {self._name: scored.system_value(items.weights), f"{self._name}_scores": values}


def as_evaluate(metric: str, **arguments: Any) -> CaptionMetric:
    """Return a metric of capbench as a module of the evaluate library, also for ``evaluate.combine``.

    Args:
        metric: Name of the metric (``"cider"``).
        **arguments: Its settings.

    Raises:
        UsageError: Unknown metric or setting.

    Example:
        >>> cider = capbench.as_evaluate("cider")
        >>> cider.compute(predictions=["a dog"], references=[["a dog runs", "the dog"]])
    """
    return CaptionMetric(metric, **arguments)
