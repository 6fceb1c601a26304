"""Explanation of the score of one caption, which may be of a task."""

from ...errors import UsageError, did_you_mean
from ...metrics import Context
from ...metrics.aloha import Aloha
from ...metrics.capture.metric import Capture
from ...metrics.capture.parsers import label_of
from ...metrics.dcscore import DcScore
from ...progress import Progress
from ...tasks.locate import DataLocations
from ..inputs.failures import FailureLog
from ..inputs.items import CaptionRow
from ..inputs.models import Models
from ..inputs.settings import RunSettings
from ..running.plan import PlannedRun
from ..running.planned_metrics import PlannedMetric
from ..running.runner import prepare
from ..store.store import Store
from .explanations import ScoreExplanation

Explainable = Capture | Aloha | DcScore
_HINT = "Choose CAPTURE, ALOHa or DCScore: --metric 'capture[key=value,...]', 'aloha[...]' or 'dcscore[...]'."


def require_explainable(planned: PlannedMetric) -> Explainable:
    """Return a metric that can be explained.

    Raises:
        UsageError: It cannot.
    """
    if not isinstance(planned.metric, Explainable):
        raise UsageError(f"metric '{planned.name}' cannot be explained", _HINT)
    return planned.metric


def explain(metric: Explainable, row: CaptionRow, context: Context) -> ScoreExplanation:
    """Return the explanation of a caption's score.

    Args:
        metric: A metric from :func:`require_explainable`.
        row: The caption and its references, with the image where the metric needs one.
        context: Cache, progress, and a judge where the metric needs one.

    Raises:
        MetricError: The caption has no score, or something is missing.
    """
    label, texts = metric.label, (row.candidate, row.references)
    if isinstance(metric, Aloha):
        explanation = metric.explain(*texts, context)
    elif isinstance(metric, DcScore):
        explanation = metric.explain(*texts, row.pixels, row.image, context)
    else:
        label, explanation = label_of(metric.of, []), metric.explain(*texts, context)
    return ScoreExplanation(label, *texts, explanation)


def find_sample(
    planned: PlannedRun, sample: str, models: Models, *, locations: DataLocations, store: Store, progress: Progress
) -> CaptionRow:
    """Return the caption of a task by id, as its protocol scores it.

    Raises:
        UsageError: There is none.
        BenchError: The data or the model fails.
    """
    failures = FailureLog(strict=False)
    job = prepare(planned, RunSettings(), models, locations=locations, cache=store, progress=progress)
    samples: list[str] = []
    for shard in planned.protocol.collect(job, failures):
        # Rows that are no single captions consist of items with separate ids.
        single = "candidate" in shard.columns
        ids = list(shard.columns["id"] if single else shard.items.ids)
        if sample in ids:
            at = ids.index(sample)
            item = int(shard.item_of_sample[at]) if single else at
            items = shard.items
            return CaptionRow(
                sample,
                items.image_names[item] if items.image_names else "",
                items.candidates[item],
                items.references[item],
                pixels=items.images[item] if items.images else None,
            )
        samples += ids
    reasons = [f"{failure.subject} {failure.reason}" for failure in failures.entries if failure.sample == sample]
    if reasons:
        raise UsageError(f"task '{planned.task.task}': sample '{sample}' is not scored: {reasons[0]}")
    raise UsageError(
        f"task '{planned.task.task}' has no sample '{sample}'.{did_you_mean(sample, samples)}",
        f"The task has {len(samples):,} samples; the first is '{samples[0] if samples else ''}'.",
    )
