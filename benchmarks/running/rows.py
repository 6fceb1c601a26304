"""Captions in plain rows, without a task: the input, and its items."""

import atexit
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters.images.handles import as_png, is_decoded
from ...boundary import Boundary
from ...errors import DataError, UsageError
from ...metrics import Need
from ...rows import BadRow
from ...tasks.schema import MetricEntry
from ..inputs.failures import FailureLog, summarise
from ..inputs.images import boxes_fault, boxes_of, handle_of, handle_within
from ..inputs.items import (
    CaptionRow,
    EmptyCaption,
    gather,
    image_key,
    objects_fault,
    printable,
    references_fault,
    references_of,
    scored_caption,
)
from ..inputs.models import NamedModels
from ..inputs.settings import read_metric
from ..protocols.job import SHARD, SHARD_OF_IMAGES, Shard, Shards, Summary
from .execution import Execution, open_shard_map
from .planned_metrics import OF_MODELS, PlannedMetric, finds_by_id, plan_metric, require_family, require_one
from .score_table import KEPT, ScoreTable
from .scoring import Scored, Scorer, score_shards

Rows = Iterable[Mapping[str, Any] | BadRow]
"""Rows of captions; an unreadable one is a ``BadRow``."""
Column = Sequence[Any] | Mapping[Any, Any]
"""A value for each caption: in order, or by id."""

_COLUMNS = {
    "candidate": "'candidate' or 'caption' (a text)",
    "references": "'references' (a list of texts)",
    "objects": "'objects' (a list of names)",
    "image": "'image' (a path)",
    "boxes": "'boxes' (a list of boxes: left, top, right, bottom)",
}
_OFFERS: frozenset[Need] = frozenset({"references", "objects", "image", "boxes"})
_HOW = "score(predictions=CAPTIONS, references=LISTS, images=IMAGES, metrics=...), or score(ROWS, metrics)."
_HOW_BY_ID = (
    "score(predictions={ID: [CAPTION]}, references={ID: [TEXT, ...]}, ...), compute_score(GTS, RES, METRIC), or lists."
)
_NAMED_IDS = 3


def plan_rows(metrics: Sequence[str | MetricEntry], named: NamedModels) -> list[PlannedMetric]:
    """Return metrics that score plain rows.

    Args:
        metrics: Their names, or entries.
        named: The models, as they were named.

    Raises:
        UsageError: None is named, two have the same name, or one is unknown or has an unmet need.
        MetricError: No metric can run on this machine.
    """
    if not metrics:
        raise UsageError("no metric was named", "Name one; 'bench ls metrics' lists the metrics.")
    offers: frozenset[Need] = _OFFERS.union(need for need in OF_MODELS if getattr(named, need) is not None)
    planned: list[PlannedMetric] = []
    for metric in dict.fromkeys(metrics):
        planned.append(plan_metric(read_metric(metric) if isinstance(metric, str) else metric, offers))
        if planned[-1].name in [other.name for other in planned[:-1]]:
            raise UsageError(f"two metrics are called '{planned[-1].name}'", "Give the second one another 'label'.")
    require_one(planned)
    if named.encoder is not None:
        require_family(planned, named.encoder.name, named.encoder.family)
    return planned


def score_rows(
    rows: Rows, scorer: Scorer, failures: FailureLog, rule: EmptyCaption, named: NamedModels, execution: Execution
) -> ScoreTable:
    """Score plain rows; see :func:`capbench.score`.

    Args:
        rows: The rows, ``id, image, candidate, references, objects, boxes``.
        scorer: The metrics, with the models that are loaded here.
        failures: Receives rows that cannot be scored.
        rule: The rule for an empty or invalid caption.
        named: The names of the models.
        execution: How the run is executed.

    Raises:
        DataError: No row can be scored.
    """
    metrics = scorer.metrics
    needs = frozenset[str]().union(*(planned.metric.needs for planned in metrics))

    def over_shards(shards: Shards) -> Scored:
        stack = ExitStack()
        # The table reads its rows from it; it is deleted with the process.
        atexit.register(stack.close)
        mapped = open_shard_map(execution, named, secrets.token_hex(16), scorer, stack)
        return mapped.score(shards, failures, "image" in needs)

    shards = _collect(rows, needs, finds_by_id(metrics), rule, execution.shard_rows, failures)
    is_mapped = execution.maps(is_large=False)
    scored = over_shards(shards) if is_mapped else score_shards(scorer, shards, failures, over_shards)
    collected = scored.corpus.collected
    table = ScoreTable(
        {}, {}, {}, dict(scored.counts), summarise(failures.entries), summarise(failures.empty), {},
        summarise(scored.remarks), scored.corpus.columns, {}, {},
    )  # fmt: skip
    for planned, metric in zip(metrics, scored.metrics, strict=True):
        table.system[metric.name] = metric.value_of_all(collected.weights)
        table.labels[metric.name] = planned.metric.label
        table.aggregations[metric.name] = planned.aggregation
        table.values[metric.name] = None if metric.scores is None else collected.of_samples(metric.scores.values)
        if metric.scores is None:
            table.metric_errors[metric.name] = metric.error
        elif (cut := metric.scores.parts.get("truncated")) is not None:
            is_cut = (cut > 0) & np.isfinite(metric.scores.values)
            table.truncated[metric.name] = int(np.count_nonzero(collected.of_samples(is_cut)))
    return table


def _collect(
    rows: Rows, needs: frozenset[str], by_id: bool, rule: EmptyCaption, shard_rows: int | None, failures: FailureLog
) -> Shards:
    """Yield the rows to score, a shard at a time."""
    size = shard_rows or (SHARD_OF_IMAGES if "image" in needs else SHARD)
    samples, has_words = caption_rows(rows, needs, rule, failures), False
    while some := list(islice(samples, size)):
        items, item_of_sample, numbers = gather(some, by_id)
        has_words = has_words or any(items.candidates)
        ids, images, candidates = zip(*map(attrgetter(*KEPT), some), strict=True)
        columns = {"id": ids, "image": images, "candidate": candidates}
        yield Shard(items, item_of_sample, columns, item_numbers=numbers)
        # Release the shard before the next one is made.
        del some, items, columns, ids, images, candidates
    if not has_words:
        first = next(iter((*failures.entries, *failures.empty)), None)
        raise DataError(
            "no row can be scored" + (f"; {first.sample}: {first.subject} {first.reason}" if first else ""),
            f"A row needs {', '.join(_COLUMNS[need] for need in ('candidate', *sorted(needs & _COLUMNS.keys())))}.",
        )
    return Summary(effective=0)


def caption_rows(rows: Rows, needs: frozenset[str], rule: EmptyCaption, failures: FailureLog) -> Iterator[CaptionRow]:
    """Yield the captions of plain rows.

    Args:
        rows: The rows; see :func:`capbench.score`.
        needs: The columns that metrics need.
        rule: The rule for an empty or invalid caption.
        failures: Receives rows that cannot be scored, by id or number.

    Raises:
        UsageError: A row is no mapping.
    """
    boundary, seen = Boundary.around(Path.cwd()) if "image" in needs else None, set[str]()
    checked: Any = None
    fault_of_references: str | None = None
    for number, row in enumerate(rows):
        if isinstance(row, BadRow):
            failures.add(row.place, "data", row.reason)
            continue
        if not isinstance(row, Mapping):
            raise UsageError(
                f"row {number} must be a mapping with 'candidate' (or 'caption') and 'references', not {row!r:.80}"
            )
        identity = str(number) if row.get("id") is None else printable(str(row["id"]))
        references = references_of(row.get("references", []))
        # Captions of an image follow each other, with equal references.
        if "references" in needs and (type(references) is not list or references != checked):
            checked, fault_of_references = references, references_fault(references)
        # Rows of other harnesses (bench import) have a caption.
        column = "candidate" if "candidate" in row else "caption"
        if identity in seen:
            failures.add(identity, "data", "has an id that occurred before; the first one was kept")
        elif (column == "caption") != ("caption" in row):
            columns = ", ".join(map(str, row))
            both = "has both 'candidate' and 'caption': which of them is scored?"
            fault = both if "caption" in row else f"has no column 'candidate' or 'caption'; its columns are {columns}"
            failures.add(identity, "data", fault)
        elif fault_of_references:
            failures.add(identity, "reference", fault_of_references)
        elif "objects" in needs and (fault := objects_fault(row.get("objects"))):
            failures.add(identity, "objects", fault)
        elif "image" in needs and handle_of(row.get("image")) is None:
            here = row.get("image") is not None
            failures.add(identity, "image", "is neither a path nor encoded bytes" if here else "is missing")
        elif "boxes" in needs and (fault := boxes_fault(row.get("boxes"))):
            failures.add(identity, "image", fault)
        elif (candidate := scored_caption(row[column], identity, "candidate", rule, failures)) is not None:
            seen.add(identity)
            yield CaptionRow(
                identity,
                identity if row.get("image") is None else image_key(row["image"]),
                candidate,
                tuple(references) if "references" in needs else (),
                frozenset(row["objects"]) if "objects" in needs else None,
                handle_within(row["image"], boundary) if boundary else None,
                boxes_of(row["boxes"]) if "boxes" in needs else None,
            )


def given_rows(rows: Rows | None, predictions: Column | None, references: Column | None, images: Column | None) -> Rows:
    """Return the input as rows, with undecoded images; see :func:`capbench.score`.

    Raises:
        UsageError: Both rows and predictions are given, or neither; lengths of lists or ids of mappings differ; or an
            id has more than one caption.
    """
    if (rows is None) == (predictions is None):
        raise UsageError(f"score needs rows or predictions{'' if rows is None else ', not both'}", _HOW)
    if isinstance(rows, Mapping):
        raise UsageError("rows are a list, not a mapping by id", _HOW_BY_ID)
    if rows is not None:
        if references is not None or images is not None:
            raise UsageError("rows contain their references and images; do not pass these separately", _HOW)
        return _encoded(rows)
    named = {"candidate": predictions, "references": references, "image": images}
    columns: dict[str, Any] = {name: column for name, column in named.items() if column is not None}
    if any(isinstance(column, Mapping) for column in columns.values()):
        columns = _joined(columns)
    lists = {name: _listed(name, column) for name, column in columns.items()}
    if len({*map(len, lists.values())}) > 1:
        counts = ", ".join(f"{len(column):,} of '{name}'" for name, column in lists.items())
        raise UsageError(f"predictions, references and images differ in number: {counts}", _HOW)
    return _encoded(dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))


def require_list(subject: str, column: Any) -> None:
    """Raise if a column is a mapping by id, which would be iterated as ids.

    Args:
        subject: Description of the column.
        column: The column.

    Raises:
        UsageError: It is a mapping.
    """
    if isinstance(column, Mapping):
        raise UsageError(
            f"{subject} must be a list, not a mapping by id",
            "capbench.score takes {ID: [CAPTION]} with {ID: [TEXT, ...]}, and joins them.",
        )


def _joined(columns: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return columns by id as lists in the order of the captions, with a column of ids."""
    by_id = {name: column for name, column in columns.items() if isinstance(column, Mapping)}
    if others := columns.keys() - by_id.keys():
        raise UsageError(f"'{next(iter(by_id))}' is a mapping by id, but '{min(others)}' is a list", _HOW_BY_ID)
    ids = dict.fromkeys(identity for column in by_id.values() for identity in column)
    for name, column in by_id.items():
        if missing := [identity for identity in ids if identity not in column]:
            more = f", and {len(missing) - _NAMED_IDS} more" if len(missing) > _NAMED_IDS else ""
            named = ", ".join(map(repr, missing[:_NAMED_IDS]))
            raise UsageError(f"'{name}' has no entry for {named}{more}", _HOW_BY_ID)
    lists = {name: [_texts_of(column[identity]) for identity in ids] for name, column in by_id.items()}
    return {**lists, "id": list(ids), "candidate": list(map(_only, ids, lists["candidate"]))}


def _texts_of(value: Any) -> Any:
    """Return the texts of COCO's annotations (``{"caption": TEXT, ...}``), or any other value as it is."""
    if isinstance(value, list) and value and all(isinstance(entry, Mapping) and "caption" in entry for entry in value):
        return [entry["caption"] for entry in value]
    return value


def _only(identity: Any, captions: Any) -> str:
    """Return the caption of an id."""
    texts = [captions] if isinstance(captions, str) else captions
    if not isinstance(texts, list | tuple) or len(texts) != 1 or not isinstance(texts[0], str):
        raise UsageError(f"id {identity!r} must have exactly one caption, not {captions!r:.80}", _HOW_BY_ID)
    return texts[0]


def _listed(name: str, column: Sequence[Any]) -> Sequence[Any]:
    """Return a column; a reference that is one text becomes the list of it, and a list of one caption the caption."""
    if isinstance(column, str | bytes):
        raise UsageError(f"'{name}' must be a list, not one text", _HOW)
    if name == "candidate":
        return [value[0] if isinstance(value, list | tuple) and len(value) == 1 else value for value in column]
    if name != "references":
        return list(column)
    return [[value] if isinstance(value, str) else value for value in column]


def _encoded(rows: Rows) -> Iterator[Mapping[str, Any] | BadRow]:
    for row in rows:
        if isinstance(row, Mapping) and (image := row.get("image")) is not None and is_decoded(image):
            row = {**row, "image": as_png(image)}
        yield row
