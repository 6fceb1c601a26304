"""Caption metrics, one file a metric."""

import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from ..registry import Registry
from .contract import (
    MEAN,
    Aggregate,
    Cache,
    Context,
    CorpusMetric,
    Metric,
    Need,
    NoCache,
    State,
    add_sums,
    require_settings,
)
from .items import Items, Scores

metrics: Registry[type[Metric]] = Registry(
    "metric",
    {
        "aloha": "capbench.metrics.aloha:Aloha",
        **{f"amber_{name}": f"capbench.metrics.amber:Amber{name.title()}" for name in ("chair", "cover", "hal", "cog")},
        "autodq": "capbench.metrics.autodq:AutoDq",
        "autodq_precision": "capbench.metrics.autodq:AutoDqPrecision",
        "autodq_recall": "capbench.metrics.autodq:AutoDqRecall",
        "bertscore": "capbench.metrics.bertscore:BertScore",
        **{f"bleu_{n}": f"capbench.metrics.bleu:Bleu{n}" for n in (1, 2, 3, 4)},
        "caparena_auto": "capbench.metrics.caparena_auto:CapArenaAuto",
        "capture": "capbench.metrics.capture.metric:Capture",
        "chair_i": "capbench.metrics.chair:ChairI",
        "chair_s": "capbench.metrics.chair:ChairS",
        "checklist_coverage": "capbench.metrics.checklist:ChecklistCoverage",
        "checklist_precision": "capbench.metrics.checklist:ChecklistPrecision",
        "cider": "capbench.metrics.cider:Cider",
        "clair": "capbench.metrics.clair:Clair",
        "clip_f1": "capbench.metrics.clip_f1:ClipF1",
        "clip_precision": "capbench.metrics.clip_f1:ClipPrecision",
        "clip_recall": "capbench.metrics.clip_f1:ClipRecall",
        "clip_s": "capbench.metrics.clip_s:ClipS",
        "dcscore": "capbench.metrics.dcscore:DcScore",
        "emscore": "capbench.metrics.emscore:EmScore",
        "emscore_ref": "capbench.metrics.emscore:EmScoreRef",
        "factual_spice": "capbench.metrics.graph_spice:FactualSpice",
        "fleur": "capbench.metrics.fleur:Fleur",
        "gpt4_eval": "capbench.metrics.gpt4_eval:Gpt4Eval",
        "incorrect_ending": "capbench.metrics.incorrect_ending:IncorrectEnding",
        "itm_score": "capbench.metrics.itm_score:ItmScore",
        "length": "capbench.metrics.length:Length",
        "meteor": "capbench.metrics.meteor.metric:Meteor",
        "mid": "capbench.metrics.mid:Mid",
        "pac_emscore": "capbench.metrics.emscore:PacEmScore",
        "pac_emscore_ref": "capbench.metrics.emscore:PacEmScoreRef",
        "pac_s": "capbench.metrics.pac_s:PacS",
        "polos": "capbench.metrics.polos.metric:Polos",
        "recorded": "capbench.metrics.recorded:Recorded",
        "refclip_s": "capbench.metrics.clip_s:RefClipS",
        "reffleur": "capbench.metrics.fleur:RefFleur",
        "refpac_s": "capbench.metrics.pac_s:RefPacS",
        **{f"rep_{n}": f"capbench.metrics.rep:Rep{n}" for n in (1, 2, 3, 4)},
        "rouge_l": "capbench.metrics.rouge_l:RougeL",
        "soft_spice": "capbench.metrics.graph_spice:SoftSpice",
        "spice": "capbench.metrics.spice:Spice",
        "vdc_accuracy": "capbench.metrics.vdcscore:VdcAccuracy",
        "vdcscore": "capbench.metrics.vdcscore:VdcScore",
    },
    entry_points="capbench.metrics",
)

register_metric = metrics.register
"""A decorator that registers a metric: ``@capbench.register_metric("word_overlap")`` above its class.

Raises:
    UsageError: The name is taken.
"""

EVALUATE_PREFIX = "evaluate:"
"""``evaluate:NAME`` is a metric of the evaluate library: a hub name, or a local folder or script."""


DIRECTION = "higher_is_better"
"""Settings that a task file, or a user, may give to every metric."""


def build_metric(name: str, arguments: Mapping[str, Any]) -> Metric:
    """Build a metric by name.

    Args:
        name: A registered name, or ``evaluate:NAME``.
        arguments: Its settings. ``higher_is_better`` may be given for every metric, and may differ from its own
            direction only where it takes that as a setting.

    Raises:
        UsageError: The name, or a setting, is not known, or the metric has another direction.
        ValueError: A setting has a value that the metric does not take.
    """
    if name.startswith(EVALUATE_PREFIX):
        from .hf_evaluate import EvaluateMetric

        return EvaluateMetric(name.removeprefix(EVALUATE_PREFIX), **arguments)
    return configured(metrics[name], name, arguments)


def configured(built: type[Metric], name: str, arguments: Mapping[str, Any]) -> Metric:
    """Build a metric of a class.

    Args:
        built: The class.
        name: What messages call it.
        arguments: As of :func:`build_metric`.

    Raises:
        UsageError: A setting is not known, or the metric has another direction.
        ValueError: A setting has a value that the metric does not take.
    """
    known = inspect.signature(built).parameters
    direction = None if DIRECTION in known else arguments.get(DIRECTION)
    if direction is not None:
        arguments = {setting: value for setting, value in arguments.items() if setting != DIRECTION}
    require_settings(f"metric '{name}'", built, arguments)
    metric = built(**arguments)
    if direction not in (None, metric.higher_is_better):
        raise UsageError(
            f"metric '{name}': {DIRECTION} is {str(metric.higher_is_better).lower()} by its definition, "
            f"not {str(direction).lower()}.",
            f"Leave {DIRECTION} out; it is a setting of '{EVALUATE_PREFIX}NAME' and of metrics that take it as one.",
        )
    return metric


__all__ = [
    "MEAN",
    "Aggregate",
    "Cache",
    "Context",
    "CorpusMetric",
    "Items",
    "Metric",
    "Need",
    "NoCache",
    "Scores",
    "State",
    "add_sums",
    "build_metric",
    "metrics",
    "register_metric",
]
