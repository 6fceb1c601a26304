"""Metrics as modules of the Hugging Face ``evaluate`` library."""

from typing import Any

import datasets
import evaluate
import numpy as np

from ...errors import DataError
from ...metrics import Context
from ...tasks.schema import MetricEntry
from ..inputs.items import CaptionRow, gather, references_fault
from ..protocols.job import ScoredMetric
from ..running.planned_metrics import plan_metric
from ..running.rows import require_list
from ..running.scoring import score_metric


class CaptionMetric(evaluate.Metric):
    """A metric of capbench as an evaluation module; created by ``capbench.as_evaluate``.

    ``compute(predictions, references)`` takes captions and a list of references for each. It returns the
    system-level value under the metric's name, scores of captions under ``NAME_scores``, and reasons for missing
    scores under ``NAME_failures``.
    """

    def __init__(self, metric_name: str, **arguments: Any) -> None:
        self._name = metric_name
        self._plan = plan_metric(
            MetricEntry.model_validate({"metric": metric_name, **arguments}), frozenset({"references"})
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

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add a batch of lists.

        Raises:
            UsageError: An argument is a mapping by id.
        """
        require_list("predictions", predictions)
        require_list("references", references)
        super().add_batch(predictions=predictions, references=references, **kwargs)

    def _compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> dict[str, Any]:
        reasons: dict[int, str] = {}
        if "references" in self._plan.metric.needs:
            faults = {number: references_fault(texts) for number, texts in enumerate(references)}
            reasons = {number: fault for number, fault in faults.items() if fault}
        rows = {
            number: CaptionRow(str(number), str(number), candidate, tuple(texts))
            for number, (candidate, texts) in enumerate(zip(predictions, references, strict=True))
            if number not in reasons
        }
        if not rows:
            raise DataError(f"no caption can be scored; caption 0: {reasons.get(0, 'there is none')}")
        items, item_of_row, _ = gather(rows.values())
        scores = score_metric(self._plan.metric, items, Context())
        scored = ScoredMetric(self._name, self._plan.metric, self._plan.aggregation, scores)
        values: dict[int, float] = {}
        for number, item in zip(rows, item_of_row.tolist(), strict=True):
            if np.isfinite(scores.values[item]):
                values[number] = float(scores.values[item])
            else:
                reasons[number] = scores.failures.get(item, "the metric gave no finite value")
        places = range(len(predictions))
        return {
            self._name: scored.system_value(items.weights),
            f"{self._name}_scores": [values.get(number) for number in places],
            f"{self._name}_failures": [reasons.get(number) for number in places],
        }


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
