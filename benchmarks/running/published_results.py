"""What a task's published table prints for the results of a run."""

from __future__ import annotations

from collections.abc import Sequence

from ...tasks.schema import PublishedTable
from ..protocols.results import Result
from ..published.values import Published, find_in
from ..records.results import result_key
from .plan import PlannedRun


def published_results(plan: PlannedRun, results: Sequence[Result]) -> dict[str, Published]:
    """Return the published value of each result that the task's table has, by the key of the result."""
    table = plan.task.published
    if table is None:
        return {}
    found: dict[str, Published] = {}
    metrics = {one.name for one in plan.metrics}
    categories = {result.category for result in results if result.category and result.metric in metrics}
    for result in results:
        if table.categories is not None and result.category not in ("", *table.categories):
            # A system, or a part of the data that the paper does not have.
            continue
        if table.categories is not None and not result.category and categories != set(table.categories):
            continue
        look_up = _published_of_metric if plan.protocol.takes_metrics else _published_of_model
        one = look_up(plan, table, result)
        if one is not None:
            found[result_key(result)] = one
    return found


def _published_of_metric(plan: PlannedRun, table: PublishedTable, result: Result) -> Published | None:
    planned = next((one for one in plan.metrics if one.name == result.metric), None)
    if planned is None:
        # What people, or a judge whose verdicts are in the data, say.
        return find_in(table, result.label[0], result.statistic, result.category)
    # A variant of a metric that the table does not know has no published value.
    if not planned.default_settings:
        return None
    label: str | None = result.label[0]
    for need, model in (("encoder", plan.encoder), ("judge", plan.judge)):
        if need in planned.metric.needs:
            label = model.printed_as.get(table.paper, {}).get(result.label[0]) if model else None
    return None if label is None else find_in(table, label, result.statistic, result.category)


def _published_of_model(plan: PlannedRun, table: PublishedTable, result: Result) -> Published | None:
    names = plan.encoder.published_as.get(table.paper, ()) if plan.encoder else ()
    numbers = (find_in(table, result.label[0], result.statistic, result.category, name) for name in names)
    return next((one for one in numbers if one is not None), None)
