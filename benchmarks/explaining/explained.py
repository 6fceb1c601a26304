"""How a metric came to the score of one caption, as text or as a page: the metrics that can be explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...errors import UsageError
from ...metrics import Context, Metric
from ...metrics.aloha.metric import Aloha
from ...metrics.capture.choices import label_of
from ...metrics.capture.metric import Capture
from ...metrics.dcscore.metric import DcScore
from ..inputs.items import CaptionRow
from ..running.planned_metrics import PlannedMetric
from . import as_html, as_text

_HINT = "CAPTURE, ALOHa and DCScore can: --metric 'capture[key=value,...]', 'aloha[...]' or 'dcscore[...]'."


@dataclass(frozen=True)
class Explained:
    """An explanation.

    Attributes:
        text: Gives it for a terminal; takes ``colour``.
        html: Gives it as a page; takes ``title``, what the caption is of.
    """

    text: Callable[..., str]
    html: Callable[..., str]


def require_explainable(planned: PlannedMetric) -> Metric:
    """Return a metric that can be explained.

    Raises:
        UsageError: It cannot.
    """
    if not isinstance(planned.metric, Capture | Aloha | DcScore):
        raise UsageError(f"metric '{planned.name}' cannot be explained", _HINT)
    return planned.metric


def explain(metric: Metric, row: CaptionRow, context: Context) -> Explained:
    """Return how a metric came to the score of a caption.

    Args:
        metric: One that :func:`require_explainable` let through.
        row: The caption and its references, with the image where the metric looks at one.
        context: Cache, progress, and a judge where the metric asks one.

    Raises:
        MetricError: The caption has no score, or something is missing.
    """
    texts = row.candidate, row.references
    if isinstance(metric, Aloha):
        matched = metric.explain(*texts, context)
        given = metric.label, *texts, matched
        return Explained(partial(as_text.objects_as_text, *given), partial(as_html.objects_as_html, *given))
    if isinstance(metric, DcScore):
        given = metric.label, *texts, metric.explain(*texts, row.pixels, row.image, context)
        return Explained(partial(as_text.facts_as_text, *given), partial(as_html.facts_as_html, *given))
    assert isinstance(metric, Capture)  # noqa: S101 - no other is let through
    given = label_of(metric.number, []), *texts, metric.explain(*texts, context)
    return Explained(partial(as_text.as_text, *given), partial(as_html.as_html, *given))
