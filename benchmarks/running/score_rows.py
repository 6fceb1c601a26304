"""Scores captions that come as plain rows, outside any task."""

from __future__ import annotations

import atexit
import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ...allocation import seldom_collected
from ...boundary import Boundary
from ...drafts import temporary_folder
from ...errors import DataError, UsageError
from ...metrics import Need
from ...named_rows import SeenNames
from ...progress import Progress
from ...rows import BadRow
from ..inputs.empty_captions import EmptyCaption, scored_caption
from ..inputs.failures import FailureLog, FailureSummary, describe, outcome, summarise
from ..inputs.items import (
    CaptionRow,
    gathered,
    image_key,
    objects_fault,
    printable,
    references_fault,
    references_of,
)
from ..inputs.metric_names import read_metric
from ..inputs.models import Models, NamedModels
from ..inputs.pixels import boxes_fault, boxes_of, handle_of, handle_within
from ..inputs.shard_progress import ShardProgress
from ..protocols.job import SHARD, SHARD_OF_IMAGES, Shard, Summary
from ..protocols.results import ScoredMetric
from ..store.store import Store
from ..tables.html_table import html_lines, html_output, html_table
from .engaging import Engaged
from .planned_metrics import OF_MODELS, PlannedMetric, plan_metric, require_family, require_one
from .shards.carrying_out import Elsewhere, Hands, InProcess
from .shards.codec import Originals
from .shards.folder_shelf import folder_in_run
from .shards.gathering import Gathering
from .shards.models import model_identities
from .shards.opening import work_of_rows
from .shards.placing import Placing, is_of_all
from .shards.results import Results, Together
from .shards.shelf import Columns, MemoryShelf, Shelf
from .shards.work import RunWork

if TYPE_CHECKING:
    import pandas


_COLUMNS = {
    "candidate": "'candidate' or 'caption' (a text)",
    "references": "'references' (a list of texts)",
    "objects": "'objects' (a list of names)",
    "image": "'image' (a path)",
    "boxes": "'boxes' (a list of boxes: left, top, right, bottom)",
}
_CANDIDATES = ("candidate", "caption")
"""What rows call the caption that is scored; captions of other harnesses (``bench import``) have the second name."""
_FIRST = 5
"""Captions that a notebook shows."""
_KEPT = ("id", "image", "candidate")
"""What is told of each row beside its scores."""
_OFFERS: frozenset[Need] = frozenset({"references", "objects", "image", "boxes"})


@dataclass(frozen=True)
class ScoreTable:
    """Scores of captions.

    Attributes:
        system: System-level value of each metric; None where the metric failed.
        labels: Each metric's name as papers print it.
        aggregations: How each system-level value was made: ``mean`` or ``corpus``.
        counts: How many captions each metric scored.
        failures: What could not be scored: stage, reason, count, first samples.
        empty: Captions that say nothing, or are none, and were scored as empty ones; as ``failures``.
        metric_errors: Metrics that failed as a whole, with the reason.
        remarks: What was done to read what was scored, where that was not as usual; as ``failures``.
    """

    system: dict[str, float | None]
    labels: dict[str, str]
    aggregations: dict[str, str]
    counts: dict[str, int]
    failures: list[FailureSummary]
    empty: list[FailureSummary]
    metric_errors: dict[str, str]
    remarks: list[FailureSummary]
    _scores: Callable[[], Iterator[tuple[Columns, Mapping[str, np.ndarray]]]]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, without all of them in memory."""
        for columns in self.pieces():
            yield from (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def pieces(self) -> Iterator[dict[str, Sequence[Any]]]:
        """Yield the columns of the rows, those of a shard at a time: texts, and numbers or None."""
        for columns, scores in self._scores():
            values = {name: _values(given) for name, given in scores.items()}
            yield {**{name: columns[name] for name in _KEPT}, **values}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A dict a caption: id, image, candidate and a value a metric (None where it has none)."""
        return list(self)

    def summary(self) -> list[dict[str, Any]]:
        """Return a dict a metric: its name, label, system-level value, how that was made, and of how many captions."""
        return [
            {
                "metric": name,
                "label": self.labels[name],
                "value": value,
                "aggregation": self.aggregations[name],
                "n": self.counts[name],
                "empty": sum(one["count"] for one in self.empty),
            }
            for name, value in self.system.items()
        ]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the values of metrics, the first captions, and what was left out."""
        shown = [{**one, "value": _shown(one["value"])} for one in self.summary()]
        first = [{name: _shown(value) for name, value in row.items()} for row in islice(self, _FIRST)]
        told = [f"{outcome(one)}: {describe(one)}" for one in self.failures]
        told += [f"counted as empty: {describe(one)}" for one in self.empty]
        told += [f"metric {name} failed: {reason}" for name, reason in self.metric_errors.items()]
        return html_output(
            html_table(shown, ("metric", "label", "aggregation")),
            html_table(first, _KEPT, "the first captions"),
            html_lines(told),
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame."""
        import pandas

        return pandas.DataFrame(self.rows)


@seldom_collected()
def score_rows(
    rows: Iterable[Mapping[str, Any] | BadRow],
    metrics: Sequence[str],
    *,
    boundary: Boundary,
    named: NamedModels,
    models: Models,
    store: Store,
    strict: bool,
    empty_caption: EmptyCaption,
    progress: Progress,
    elsewhere: Engaged,
) -> ScoreTable:
    """Score rows of ``id, image, candidate, references, objects``; see :func:`capbench.score`.

    ``models`` are those of ``named`` that are loaded here.
    """
    if not metrics:
        raise UsageError("no metric was named", "'bench ls metrics' lists what there is.")
    failures = FailureLog(strict)
    offers: frozenset[Need] = _OFFERS.union(need for need in OF_MODELS if getattr(named, need) is not None)
    names = list(dict.fromkeys(metrics))
    planned = [plan_metric(read_metric(name), offers) for name in names]
    if twice := [name for name, count in Counter(one.name for one in planned).items() if count > 1]:
        raise UsageError(f"two metrics are called '{twice[0]}'", "Give the second one another 'label'.")
    require_one(planned)
    if named.encoder is not None:
        require_family(planned, named.encoder.name, named.encoder.family)
    needs = frozenset[str]().union(*(plan.metric.needs for plan in planned))
    samples = _samples(rows, failures, needs, boundary, empty_caption)
    size = SHARD_OF_IMAGES if "image" in needs else SHARD
    first = deque(islice(samples, size + 1))
    several = len(first) > size
    shelf, hands = _hands(planned, names, models, store, progress, elsewhere, several)
    every = chain((first.popleft() for _ in range(len(first))), samples)
    in_memory = any(is_of_all(one.metric) for one in planned)
    gathering = Gathering(shelf, "image" in needs, in_memory, several)
    placing = Placing(planned, gathering, model_identities(named, models))
    shards = gathering.gather(_shards(every, size, failures, needs))
    results = Results(hands.carry_out(placing.units(shards)), planned, gathering)
    together = results.together()
    for name, lost in together.lost.items():
        for identity, reason in lost:
            failures.add(identity, "metric", f"{name}: {reason}")
    return ScoreTable(
        system={one.name: _system_value(gathering, results, together, one) for one in planned},
        labels={one.name: one.metric.label for one in planned},
        aggregations={one.name: one.aggregation for one in planned},
        counts=together.counted,
        failures=summarise(failures.entries),
        empty=summarise(failures.empty),
        metric_errors=together.errors,
        remarks=summarise(together.remarks),
        _scores=partial(_by_shard, gathering, results, together.errors),
    )


def _system_value(
    gathering: Gathering, results: Results, together: Together, planned: PlannedMetric
) -> float | None:
    if planned.name in together.errors:
        return None
    if (sums := together.sums.get(planned.name)) is not None:
        value = planned.aggregate.value(sums)
        return value if math.isfinite(value) else None
    scores = results.scores(planned, parts=True)
    scored = ScoredMetric(planned.name, planned.metric, planned.aggregation, scores)
    return scored.system_value(gathering.weights)


def _by_shard(
    gathering: Gathering, results: Results, errors: Mapping[str, str]
) -> Iterator[tuple[Columns, dict[str, np.ndarray]]]:
    """Yield what is known of the rows of each shard, and the scores of each metric."""
    shelf = gathering.shelf
    for shard in gathering.shards:
        item_of_sample = shelf.arrays(shard.samples)["item_of_sample"]
        yield (
            shelf.columns(shard.columns),
            {
                one.name: np.full(len(item_of_sample), np.nan)
                if one.name in errors
                else results.values(shard, one.name)[item_of_sample]
                for one in results.metrics
            },
        )


def _hands(
    planned: Sequence[PlannedMetric],
    names: Sequence[str],
    models: Models,
    store: Store,
    progress: Progress,
    elsewhere: Engaged,
    is_large: bool,
) -> tuple[Shelf, Hands]:
    """Return what texts and scores are put on, and who carries out the units."""
    engine = None if elsewhere.only_shards and not is_large else elsewhere.engine
    call = elsewhere.call
    if engine is None and elsewhere.objects is None and not is_large:
        shelf: Shelf = MemoryShelf()
    else:
        if engine is None or elsewhere.folder is None:
            # The rows are read from it as long as the table is there, and it goes with the process.
            stack = ExitStack()
            atexit.register(stack.close)
            folder = stack.enter_context(temporary_folder())
        else:
            folder = folder_in_run(elsewhere.folder)
        place = elsewhere.place(folder)
        shelf = place.shelf(Originals())
        if engine is not None and call is not None:
            return shelf, Elsewhere(
                engine, work_of_rows(names, place, call), shelf, models, elsewhere.folder, progress
            )
    return shelf, InProcess(RunWork(planned, shelf, models, store, ShardProgress(progress)), models)


def _shards(
    samples: Iterator[CaptionRow], size: int, failures: FailureLog, needs: frozenset[str]
) -> Generator[Shard, None, Summary]:
    """Yield the rows to score, so many at a time.

    Raises:
        DataError: None says anything.
    """
    count, said = 0, False
    while some := list(islice(samples, size)):
        count += len(some)
        said = said or any(sample.candidate for sample in some)
        items, item_of_sample, numbers = gathered(some)
        columns = {name: [getattr(row, name) for row in some] for name in _KEPT}
        yield Shard(items, item_of_sample, columns, item_numbers=numbers)
        # The next one is made beside nothing.
        del some, items, columns
    if not said:
        first = next(iter((*failures.entries, *failures.empty)), None)
        raise DataError(
            "no row can be scored" + (f"; {first.sample}: {first.subject} {first.reason}" if first else ""),
            f"A row needs {', '.join(_COLUMNS[one] for one in ('candidate', *sorted(needs & _COLUMNS.keys())))}.",
        )
    return Summary(count)


def _samples(
    rows: Iterable[Mapping[str, Any] | BadRow],
    failures: FailureLog,
    needs: frozenset[str],
    boundary: Boundary,
    rule: EmptyCaption,
) -> Iterator[CaptionRow]:
    seen = SeenNames()
    for number, row in enumerate(rows):
        if isinstance(row, BadRow):
            failures.add(row.place, "data", row.reason)
            continue
        if not isinstance(row, Mapping):
            raise UsageError(
                f"row {number} is no mapping with 'candidate' (or 'caption') and 'references': {row!r:.80}"
            )
        identity = str(number) if row.get("id") is None else printable(str(row["id"]))
        references = references_of(row.get("references", []))
        if identity in seen:
            failures.add(identity, "data", "has an id that occurred before; the first one was kept")
        elif len(named := [name for name in _CANDIDATES if name in row]) != 1:
            failures.add(identity, "data", _unclear(named, row))
        elif "references" in needs and (fault := references_fault(references)):
            failures.add(identity, "reference", fault)
        elif "objects" in needs and (fault := objects_fault(row.get("objects"))):
            failures.add(identity, "objects", fault)
        elif "image" in needs and handle_of(row.get("image")) is None:
            here = row.get("image") is not None
            failures.add(identity, "image", "is neither a path nor encoded bytes" if here else "is missing")
        elif "boxes" in needs and (fault := boxes_fault(row.get("boxes"))):
            failures.add(identity, "image", fault)
        elif (candidate := scored_caption(row[named[0]], identity, "candidate", rule, failures)) is not None:
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


def _unclear(named: Sequence[str], row: Mapping[str, Any]) -> str:
    """Return why it is not clear what a row's caption is."""
    if named:
        return f"has both {' and '.join(map(repr, named))}: which of them is scored?"
    return f"has no column 'candidate' or 'caption'; its columns are {', '.join(map(str, row))}"


def _shown(value: Any) -> str:
    """Return a value as a notebook shows it."""
    return "-" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def _values(scores: np.ndarray) -> list[float | None]:
    """Return scores, None where there is none."""
    found: list[float | None] = scores.tolist()
    for row in np.flatnonzero(~np.isfinite(scores)).tolist():
        found[row] = None
    return found
