"""Caption metrics, one file a metric."""

from __future__ import annotations

from ..registry import Registry
from .contract import Cache, Context, Metric, NoCache
from .items import Items, Scores

metrics: Registry[type[Metric]] = Registry(
    "metric",
    {
        "bleu_1": "capbench.metrics.bleu:Bleu1",
        "bleu_2": "capbench.metrics.bleu:Bleu2",
        "bleu_3": "capbench.metrics.bleu:Bleu3",
        "bleu_4": "capbench.metrics.bleu:Bleu4",
        "cider": "capbench.metrics.cider:Cider",
        "length": "capbench.metrics.length:Length",
        "meteor": "capbench.metrics.meteor:Meteor",
        "rouge_l": "capbench.metrics.rouge_l:RougeL",
    },
    entry_points="capbench.metrics",
)

register_metric = metrics.register

__all__ = ["Cache", "Context", "Items", "Metric", "NoCache", "Scores", "metrics", "register_metric"]
