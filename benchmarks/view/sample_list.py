"""The list of a run's samples, filtered and sorted as its URL asks; the worst ones are printed, too."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from ...errors import DataError, UsageError, did_you_mean
from ..tables.pages.charts import round_step
from ..tables.pages.rendering import score
from ..tables.text import readable, texts_of
from .filters import DISAGREEMENT, METRICS_DISAGREE, MODELS_DISAGREE, TITLES, FilterError, column_name, is_text
from .finding import Runs, ShownRun, comparable
from .samples import RunSamples, column_label, relative_ranks, shared_rows, spread
from .site import NoSuchPageError, Site, address

PAGE = 48
"""Samples per page."""
MOST_RUNS = 20
"""Maximum number of runs that a page shows beside one another: the newest, as each of them is read."""
_MAIN = ("candidate", "caption", "candidates")
_BARS = 20


@dataclass(frozen=True)
class ListState:
    """Filter, order and look of a list of samples, as URLs have it.

    Attributes:
        sort: A column of numbers; empty for the order of the run.
        descending: Whether the order is descending.
        query: A filter; empty for all samples.
        view: ``grid`` for a grid of pictures; empty for a list.
    """

    sort: str = ""
    descending: bool = False
    query: str = ""
    view: str = ""

    @classmethod
    def read(cls, query: Mapping[str, str], known: Sequence[str]) -> ListState:
        """Parse the query parameters of a URL.

        Args:
            query: The parameters.
            known: Columns that samples can be sorted by.

        Raises:
            NoSuchPageError: The sort column is invalid.
        """
        sort = query.get("sort", "")
        descending = sort not in known and sort.startswith("-")
        sort = sort.removeprefix("-") if descending else sort
        if sort and sort not in known:
            raise NoSuchPageError(
                f"cannot sort samples of this run by '{sort}'.{did_you_mean(sort, known)}",
                f"Known: {', '.join(known)}.",
            )
        return cls(sort, descending, query.get("q", "").strip(), "grid" if query.get("view") == "grid" else "")

    @property
    def sort_value(self) -> str:
        """The sort order as a query parameter."""
        return f"-{self.sort}" if self.descending else self.sort

    def values(self, page: int = 1, **changes: Any) -> dict[str, object]:
        """Return the state with changes, and a page number, as query parameters."""
        new = replace(self, **changes)
        return {"sort": new.sort_value, "q": new.query, "view": new.view, "page": page if page > 1 else ""}


@dataclass(frozen=True)
class SampleList:
    """The samples of a run in the order that a URL asks for.

    Attributes:
        site: Renders the pages.
        run: The run.
        samples: Its samples.
        state: Filter and order.
    """

    site: Site
    run: ShownRun
    samples: RunSamples
    state: ListState

    @classmethod
    def read(cls, site: Site, key: str, query: Mapping[str, str]) -> SampleList:
        """Return the list of a run, by its name in URLs and the query parameters of the URL."""
        run = site.run(key)
        samples = site.runs.samples(run)
        return cls(site, run, samples, ListState.read(query, [*samples.sortable, *DISAGREEMENT]))

    @cached_property
    def order(self) -> np.ndarray:
        """The indices of the listed samples.

        Raises:
            FilterError: The filter cannot be read.
            NoSuchPageError: They are sorted by a disagreement of one metric, or of one run.
        """
        state = self.state
        if state.sort not in DISAGREEMENT:
            # Kept in memory, unless the filter names what other runs decide.
            with suppress(FilterError):
                return self.samples.order(state.sort, descending=state.descending, query=state.query)
        elif state.sort not in self.extra:
            raise NoSuchPageError(f"cannot sort samples of this run by '{state.sort}': it takes two or more")
        return self.samples.sorted_rows(state.sort, state.descending, state.query, self.extra)

    @cached_property
    def extra(self) -> dict[str, Callable[[], np.ndarray]]:
        """The columns of disagreement, differences in relative rank (0 to 1): of several metrics, of several runs."""
        columns: dict[str, Callable[[], np.ndarray]] = {}
        if len(directed(self.run, self.samples)) > 1:
            columns[METRICS_DISAGREE] = cache(lambda: spread(self._ranks))
        if comparable(self.run, self.site.runs.all()[0]):
            columns[MODELS_DISAGREE] = cache(lambda: _mean_spread(self._of_models.values(), len(self.samples)))
        return columns

    @cached_property
    def _ranks(self) -> np.ndarray:
        """``[k, n]`` relative ranks of samples by the metrics that have a direction, 1 for the best; NaN unscored."""
        names = directed(self.run, self.samples)
        ranks = np.empty((len(names), len(self.samples)))
        for row, name in zip(ranks, names, strict=True):
            row[:] = _ranked(self.samples.numbers(name) * (1 if self.run.record.higher_is_better(name) else -1))
        return ranks

    def furthest(self, sample: int) -> list[str]:
        """Return the metrics of which the relative ranks of a sample are furthest apart, with its ranks, best first."""
        places = dict(zip(directed(self.run, self.samples), self._ranks[:, sample].tolist(), strict=True))
        there = {name: place for name, place in places.items() if math.isfinite(place)}
        if len(there) < 2:
            return []
        ends = max(there, key=there.__getitem__), min(there, key=there.__getitem__)
        ranks = {name: rank for name in ends if (rank := self.samples.rank(name, sample))}
        return [f"{label(self.run, name)} rank {rank_text(*rank)}" for name, rank in ranks.items()]

    @cached_property
    def _of_models(self) -> dict[str, tuple[list[str], np.ndarray]]:
        """By metric the runs of the task that have it, and their ``[k, n]`` scores of the samples; NaN unscored."""
        columns: dict[str, tuple[list[str], list[np.ndarray]]]
        columns = {name: ([], []) for name in directed(self.run, self.samples)}
        for other, samples in runs_of_task(self.site, self.run):
            rows = shared_rows(self.samples, samples)
            for name in columns.keys() & samples.metrics:
                values = np.full(len(self.samples), np.nan)
                values[rows[:, 0]] = samples.numbers(name)[rows[:, 1]]
                columns[name][0].append(other.model)
                columns[name][1].append(values)
        return {name: (models, np.array(values)) for name, (models, values) in columns.items()}

    def models_apart(self, sample: int) -> Iterator[str]:
        """Yield by metric the models with the highest and the lowest score of a sample, with both scores."""
        for name, (models, values) in self._of_models.items():
            of_sample = zip(values[:, sample].tolist(), models, strict=True)
            scored = sorted((value, model) for value, model in of_sample if math.isfinite(value))
            if len(scored) > 1 and scored[0][0] < scored[-1][0]:
                ends = (f"{model} {score(value)}" for value, model in (scored[-1], scored[0]))
                yield f"{label(self.run, name)}: {', '.join(ends)}"

    @cached_property
    def focus(self) -> str:
        """The column whose distribution is shown: that of the order, or the first one; empty without any."""
        if self.state.sort in self.samples.sortable:
            return self.state.sort
        return next(iter([*directed(self.run, self.samples), *self.samples.sortable]), "")

    def address(self, page: int = 1, **changes: Any) -> str:
        """Return the URL of the list with changes of its state."""
        return address("runs", self.run.key, "samples", **self.state.values(page=page, **changes))

    def count_text(self) -> str:
        """Return how many samples are listed, and in which order."""
        state, total = self.state, len(self.samples)
        parts = [f"{len(self.order):,} of {total:,} samples" if len(self.order) < total else f"{total:,} samples"]
        if state.query:
            parts.append(f"with {state.query}{' in any text' if is_text(state.query) else ''}")
        if state.sort:
            name = label(self.run, state.sort)
            parts.append(f"by {name}, {'highest' if state.descending else 'lowest'} first")
        return " ".join(parts)

    def place_of(self, sample: int, matches: str) -> dict[str, Any]:
        """Return URLs of the list and of the previous and next sample with their matches, and the position in it."""
        order = np.zeros(0, np.int64)
        # A filter that cannot be read is the list's to show.
        with suppress(FilterError):
            order = self.order
        places = np.flatnonzero(order == sample)
        if not places.size:
            here = f"sample {sample + 1:,} of {len(self.samples):,}"
            return {"back": self.address(), "previous": "", "next": "", "here": here}
        at = int(places[0])
        kept = self.state.values() | {"matches": matches}
        before, after = (
            address("runs", self.run.key, "samples", order[row], **kept) if 0 <= row < len(order) else ""
            for row in (at - 1, at + 1)
        )
        here = f"{at + 1:,} of {self.count_text()}"
        return {"back": self.address(at // PAGE + 1), "previous": before, "next": after, "here": here}

    def presets(self) -> list[tuple[str, str, bool]]:
        """Return the name and the URL of each preset, and whether it is the one that is shown."""
        states: dict[str, dict[str, Any]] = {"all": {"sort": "", "query": ""}}
        if self.focus:
            worst = self.run.record.higher_is_better(self.focus)
            name = label(self.run, self.focus)
            states[f"worst by {name}"] = {"sort": self.focus, "descending": not worst}
            states[f"best by {name}"] = {"sort": self.focus, "descending": worst}
        for name in self.extra:
            states[name.replace("_", " ")] = {"sort": name, "descending": True}
        if self.run.record.failures:
            states["failed"] = {"sort": "", "query": "failure"}
        if self.run.record.empty_count and "candidate" in self.samples.names:
            states["counted as empty"] = {"sort": "", "query": "empty"}
        ascending = replace(self.state, descending=False)
        shown = {name: replace(ascending, **changes) for name, changes in states.items()}
        return [(name, self.address(**vars(state)), state == self.state) for name, state in shown.items()]

    def histogram(self) -> dict[str, Any] | None:
        """Return template values of the distribution of the focus over the listed samples; None without values.

        A bar links to the list narrowed to it. Edges are round numbers, so that a filter names them as they are.
        """
        column = self.state.sort if self.state.sort in self.extra else self.focus
        if not column:
            return None
        values = (self.extra[column]() if column in self.extra else self.samples.numbers(column))[self.order]
        values = values[np.isfinite(values)]
        if not values.size:
            return None
        low, high = float(values.min()), float(values.max())
        step = round_step((high - low) / _BARS or 1)
        # One more at either end, as a quotient of floats may be on the other side of a whole number.
        texts = [f"{at * step:.10g}" for at in range(math.floor(low / step) - 1, math.floor(high / step) + 3)]
        bins = [
            (text, after) for text, after in itertools.pairwise(texts) if float(after) > low and float(text) <= high
        ]
        counts = np.bincount(np.searchsorted([float(start) for start, _ in bins], values, side="right") - 1)
        name = column_name(column)
        # A narrower choice of the same column takes the place of the wider one.
        earlier = rf"(?:^|\s*\band\s+){re.escape(name)} >= \S+ and {re.escape(name)} < \S+$"
        rest = re.sub(earlier, "", self.state.query)
        rest = f"({rest}) and " if re.search(r"\bor\b", rest) else f"{rest} and " if rest else ""
        bars = [
            {
                "low": left, "high": right, "count": f"{count:,}", "height": round(100 * count / counts.max(), 1),
                "to": self.address(query=f"{rest}{name} >= {left} and {name} < {right}"),
            }
            for (left, right), count in zip(bins, counts.tolist(), strict=True)
        ]  # fmt: skip
        ends = bins[0][0], bins[-1][1]
        return {"label": label(self.run, column), "name": name, "rest": rest, "bars": bars, "ends": ends}


def samples_page(site: Site, key: str, query: Mapping[str, str]) -> str:
    """Return one page of the list of samples."""
    listed = SampleList.read(site, key, query)
    run, samples, state = listed.run, listed.samples, listed.state
    fault = None
    try:
        order = listed.order
    except FilterError as error:
        fault, listed = error, replace(listed, state=replace(state, query=""))
        order = listed.order
    page = site.page_of(query, len(order), PAGE)
    wanted = order[page.first : page.last].tolist()
    apart = {METRICS_DISAGREE: listed.furthest, MODELS_DISAGREE: listed.models_apart}
    columns = [*(name for name in listed.extra if name == state.sort), *samples.sortable]
    rows = [
        summary(site, run, samples, sample, row)
        | {
            "to": address("runs", key, "samples", sample, **listed.state.values()),
            "extra": score(float(listed.extra[state.sort]()[sample])) if state.sort in listed.extra else "",
            "places": apart[state.sort](sample) if state.sort in apart else [],
        }
        for sample, row in zip(wanted, samples.rows(wanted), strict=True)
    ]
    return site.render(
        "samples.html", run=run, listed=listed, state=state, fault=fault, rows=rows, histogram=listed.histogram(),
        count=listed.count_text(), heads=[(name, label(run, name), *_sorted_by(listed, name)) for name in columns],
        names={"numbers": [*samples.sortable, *listed.extra], "texts": samples.names},
        **page.links(lambda at: listed.address(at)),
    )  # fmt: skip


def _sorted_by(listed: SampleList, name: str) -> tuple[str, str]:
    """Return the URL of the list sorted by a column, the other way round if it is, and how it is sorted now."""
    state = listed.state
    first = name in DISAGREEMENT or not listed.run.record.higher_is_better(name)
    descending = not state.descending if state.sort == name else first
    now = "" if state.sort != name else "descending" if state.descending else "ascending"
    return listed.address(sort=name, descending=descending), now


def runs_of_task(site: Site, run: ShownRun) -> Iterator[tuple[ShownRun, RunSamples]]:
    """Yield a run, and the newest other runs of its task that have samples; one is in memory at a time."""
    for other in [run, *comparable(run, site.runs.all()[0])[: MOST_RUNS - 1]]:
        # A run without samples, or with changed ones, has nothing to show.
        with suppress(DataError):
            yield other, site.runs.samples(other)


def directed(run: ShownRun, samples: RunSamples) -> list[str]:
    """Return the metrics of which more, or less, is better."""
    return [name for name in samples.metrics if run.record.has_direction(name)]


def _mean_spread(columns: Iterable[tuple[list[str], np.ndarray]], count: int) -> np.ndarray:
    """Return the greatest difference in relative rank between two runs of each sample, the mean over metrics."""
    spreads = np.vstack([np.full((0, count), np.nan), *(spread(_ranked(values)) for _, values in columns)])
    known = np.isfinite(spreads).sum(axis=0)
    return np.divide(np.nansum(spreads, axis=0), known, out=np.full(count, np.nan), where=known > 0)


def _ranked(values: np.ndarray) -> np.ndarray:
    """Return relative ranks of values, of any shape, among the finite ones; NaN for others."""
    there = np.isfinite(values)
    ranks = np.full(values.shape, np.nan)
    ranks[there] = relative_ranks(values[there])
    return ranks


def label(run: ShownRun, name: str) -> str:
    """Return the label of a column of numbers."""
    return column_label(run.record, name)


def summary(site: Site, run: ShownRun, samples: RunSamples, sample: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return template values of a sample in a list."""
    identity = str(row["id"])
    has_picture = site.pictures.may_have(run, identity)
    return {
        "id": identity,
        "picture": address("runs", run.key, "pictures", sample) if has_picture else "",
        "texts": main_texts(row),
        "references": texts_of(row.get("references")),
        "empty": row.get("candidate") == "",
        "failure": row.get("failure"),
        "scores": [
            {"name": name, "label": label(run, name), "value": shown_number(samples, name, sample)}
            for name in samples.sortable
        ],
    }


def main_texts(row: Mapping[str, Any]) -> list[str]:
    """Return the caption of a sample, or its captions; none where the run recorded no texts."""
    return next((texts_of(row[name]) for name in _MAIN if row.get(name)), [])


def shown_number(samples: RunSamples, name: str, sample: int) -> str:
    """Return a formatted value of a sample; counts have no decimals."""
    return score(float(samples.numbers(name)[sample]), 0 if samples.counts(name) else 4)


def rank_text(rank: int, equal: int, ranked: int) -> str:
    """Return a rank, of how many samples, and by how many it is shared."""
    return f"{rank:,} of {ranked:,}" + (f", shared by {equal:,}" if equal > 1 else "")


def worst_lines(runs: Runs, run: ShownRun, metric: str, count: int) -> Iterator[str]:
    """Yield lines about the samples that a metric scores worst.

    Args:
        runs: Where the run is.
        run: The run.
        metric: A metric, or a column of ratings; empty for the first metric.
        count: Maximum number of samples.

    Raises:
        UsageError: The samples have no such scores.
    """
    samples = runs.samples(run)
    metric = metric or next(iter([*directed(run, samples), *samples.sortable]), "")
    if metric not in samples.sortable:
        raise UsageError(
            f"--metric {metric}: the samples of this run have no such scores.{did_you_mean(metric, samples.sortable)}",
            f"Available: {', '.join(samples.sortable)}.",
        )
    order = samples.order(metric, descending=not run.record.higher_is_better(metric))
    scored = order[np.isfinite(samples.numbers(metric)[order])]
    worst = scored[:count].tolist()
    called = f"{run.record.alias}, {run.name}: {len(worst):,} worst of {len(scored):,} samples by {label(run, metric)}"
    yield _plain(called)
    for sample, row in zip(worst, samples.rows(worst), strict=True):
        image = f", image {row['image']}" if row.get("image") not in (None, row["id"]) else ""
        yield f"\n{shown_number(samples, metric, sample)}  {_plain(row['id'] + image)}"
        for column, title in TITLES.items():
            yield from (f"  {title.lower().removesuffix('s')}: {_plain(text)}" for text in texts_of(row.get(column)))


def _plain(text: object) -> str:
    """Return a text in one line, without characters that steer a terminal."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in " ".join(readable(text).split()))
