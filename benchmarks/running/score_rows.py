"""Scores captions that come as plain rows, outside any task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adapters import Encoder, Judge
from ...errors import DataError, UsageError
from ...metrics import Need
from ...progress import Progress
from ...rows import BadRow
from ...tasks.boundary import Boundary
from ..inputs.empty_captions import EmptyCaption, scored_caption
from ..inputs.failures import FailureLog, FailureSummary, summarise
from ..inputs.items import (
    CaptionRow,
    gather,
    image_key,
    objects_fault,
    printable,
    references_fault,
    references_of,
)
from ..inputs.metric_names import read_metric
from ..inputs.pixels import boxes_fault, boxes_of, handle_of, handle_within
from ..protocols.results import ScoredMetric
from ..store.store import Store
from .planned_metrics import plan_metric, require_family, require_one
from .scoring import remarks_of, score_items

if TYPE_CHECKING:
    import pandas


_COLUMNS = {
    "candidate": "'candidate' (a text)",
    "references": "'references' (a list of texts)",
    "objects": "'objects' (a list of names)",
    "image": "'image' (a path)",
    "boxes": "'boxes' (a list of boxes: left, top, right, bottom)",
}
_OFFERS: frozenset[Need] = frozenset({"references", "objects", "image", "boxes"})


@dataclass(frozen=True)
class ScoreTable:
    """Scores of captions.

    Attributes:
        rows: A dict a caption: id, image, candidate and a value a metric (None where it has none).
        system: System-level value of each metric; None where the metric failed.
        labels: Each metric's name as papers print it.
        aggregations: How each system-level value was made: ``mean`` or ``corpus``.
        failures: What could not be scored: stage, reason, count, first samples.
        empty: Captions that say nothing, or are none, and were scored as empty ones; as ``failures``.
        metric_errors: Metrics that failed as a whole, with the reason.
        remarks: What was done to read what was scored, where that was not as usual; as ``failures``.
    """

    rows: list[dict[str, Any]]
    system: dict[str, float | None]
    labels: dict[str, str]
    aggregations: dict[str, str]
    failures: list[FailureSummary]
    empty: list[FailureSummary]
    metric_errors: dict[str, str]
    remarks: list[FailureSummary]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame."""
        import pandas

        return pandas.DataFrame(self.rows)


def score_rows(
    rows: Iterable[Mapping[str, Any] | BadRow],
    metrics: Sequence[str],
    *,
    boundary: Boundary,
    encoder: Encoder | None = None,
    judge: Judge | None = None,
    store: Store,
    strict: bool,
    empty_caption: EmptyCaption,
    progress: Progress,
) -> ScoreTable:
    """Score rows of ``id, image, candidate, references, objects``; see :func:`capbench.score`."""
    if not metrics:
        raise UsageError("no metric was named", "'bench ls metrics' lists what there is.")
    failures = FailureLog(strict)
    models: dict[Need, object] = {"encoder": encoder, "judge": judge}
    offers: frozenset[Need] = _OFFERS.union(need for need, model in models.items() if model is not None)
    planned = [plan_metric(read_metric(name), offers) for name in dict.fromkeys(metrics)]
    require_one(planned)
    if encoder is not None:
        require_family(planned, getattr(encoder, "name", "the model"), encoder.family)
    needs = frozenset[str]().union(*(plan.metric.needs for plan in planned))
    samples = list(_samples(rows, failures, needs, boundary, empty_caption))
    if not any(sample.candidate for sample in samples):
        first = next(iter((*failures.entries, *failures.empty)), None)
        raise DataError(
            "no row can be scored" + (f"; {first.sample}: {first.subject} {first.reason}" if first else ""),
            f"A row needs {', '.join(_COLUMNS[one] for one in ('candidate', *sorted(needs & _COLUMNS.keys())))}.",
        )
    items, item_of_sample = gather(samples)
    scored, _ = score_items(
        items,
        planned,
        cache=store,
        failures=failures,
        progress=progress,
        encoder=encoder,
        judge=judge,
    )
    return ScoreTable(
        rows=[
            {"id": s.id, "image": s.image, "candidate": s.candidate}
            | {one.name: _value(one, item) for one in scored}
            for s, item in zip(samples, item_of_sample, strict=True)
        ],
        system={one.name: one.system_value(items.weights) for one in scored},
        labels={one.name: one.metric.label for one in scored},
        aggregations={one.name: one.aggregation for one in scored},
        failures=summarise(failures.entries),
        empty=summarise(failures.empty),
        metric_errors={one.name: one.error for one in scored if one.scores is None},
        remarks=summarise(remarks_of(items, scored)),
    )


def _samples(
    rows: Iterable[Mapping[str, Any] | BadRow],
    failures: FailureLog,
    needs: frozenset[str],
    boundary: Boundary,
    rule: EmptyCaption,
) -> Iterable[CaptionRow]:
    seen: set[str] = set()
    for number, row in enumerate(rows):
        if isinstance(row, BadRow):
            failures.add(row.place, "data", row.reason)
            continue
        if not isinstance(row, Mapping):
            raise UsageError(f"row {number} is no mapping with 'candidate' and 'references': {row!r:.80}")
        identity = str(number) if row.get("id") is None else printable(str(row["id"]))
        references = references_of(row.get("references", []))
        if identity in seen:
            failures.add(identity, "data", "has an id that occurred before; the first one was kept")
        elif "candidate" not in row:
            failures.add(
                identity, "data", f"has no column 'candidate'; its columns are {', '.join(map(str, row))}"
            )
        elif "references" in needs and (fault := references_fault(references)):
            failures.add(identity, "reference", fault)
        elif "objects" in needs and (fault := objects_fault(row.get("objects"))):
            failures.add(identity, "objects", fault)
        elif "image" in needs and handle_of(row.get("image")) is None:
            here = row.get("image") is not None
            failures.add(identity, "image", "is neither a path nor encoded bytes" if here else "is missing")
        elif "boxes" in needs and (fault := boxes_fault(row.get("boxes"))):
            failures.add(identity, "image", fault)
        elif (
            candidate := scored_caption(row["candidate"], identity, "candidate", rule, failures)
        ) is not None:
            seen.add(identity)
            image = identity if row.get("image") is None else image_key(row["image"])
            yield CaptionRow(
                identity,
                image,
                candidate,
                tuple(references) if "references" in needs else (),
                objects=frozenset(row["objects"]) if "objects" in needs else None,
                pixels=handle_within(row["image"], boundary) if "image" in needs else None,
                boxes=boxes_of(row["boxes"]) if "boxes" in needs else None,
            )


def _value(scored: ScoredMetric, item: int) -> float | None:
    if scored.scores is None or not np.isfinite(scored.scores.values[item]):
        return None
    return float(scored.scores.values[item])
