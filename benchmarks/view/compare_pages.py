"""The page that compares two runs, or two metrics of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ...errors import BenchError, DataError
from ..comparing.comparison import CompareSettings, Comparison, compare_runs
from ..statistics import Intervals
from ..tables.pages.rendering import score
from .finding import ShownRun, comparable
from .sample_list import label, shown_number, summary
from .samples import RunSamples, relative_ranks, shared_rows
from .site import NoSuchPageError, Site, address
from .words import word_differences

PAGE = 12
"""Pairs per page."""
MANY = 10_000
"""Minimum number of samples for intervals by influence functions; a bootstrap would be too slow for a page."""
_KEPT = 32


@lru_cache(_KEPT)
def _compared(
    folders: tuple[Path, ...], fingerprints: tuple[str, ...], metrics: tuple[str, ...], intervals: Intervals
) -> Comparison | BenchError:
    """Return the result of ``bench compare``, or its error; cached, as it is slow."""
    try:
        return compare_runs(folders, CompareSettings(metrics=metrics, intervals=intervals))[0]
    except BenchError as error:
        return error


def compare_page(site: Site, query: Mapping[str, str]) -> str:
    """Return the page that compares two runs."""
    pairs = _PairList.read(site, query)
    sides, first, second = pairs.sides, *(side.run for side in pairs.sides)
    runs = tuple(dict.fromkeys((first.folder, second.folder)))
    metrics = tuple(dict.fromkeys(side.metric for side in sides))
    many = max(len(side.samples) for side in sides) >= MANY
    verdict = _compared(
        runs, (first.record.fingerprint, second.record.fingerprint), metrics, "influence" if many else "auto"
    )
    comparison = None if isinstance(verdict, BenchError) else verdict
    sample = query.get("sample", "")
    at = pairs.place(first.key, int(sample)) if sample.isascii() and sample.isdigit() and len(sample) < 16 else 0
    known = {run.key: run for run in (first, second, *comparable(first, site.runs.all()[0]))}
    # Its messages name folders, a page names runs.
    said = [verdict.in_one_line] if isinstance(verdict, BenchError) else verdict.notes
    for run in (first, second):
        said = [text.replace(str(run.folder), run.name) for text in said]
    page = site.page_of({"page": str((at or 0) // PAGE + 1), **query}, len(pairs.gaps), PAGE)
    return site.render(
        "compare.html", a=sides[0], b=sides[1], runs=known.values(), label=label, said=said, comparison=comparison,
        listed=pairs, ahead=_ahead(*sides), count=_count_text(len(pairs.gaps), of_ranks=_of_ranks(*sides)),
        pairs=_pairs(site, pairs, range(page.first, page.last)) if pairs.gaps.any() else [],
        **page.links(lambda at: pairs.address(page=at if at > 1 else "")),
    )  # fmt: skip


def place_in_comparison(site: Site, key: str, sample: int, query: Mapping[str, str]) -> dict[str, Any]:
    """Return URLs of a comparison and of the previous and next sample in it, the position, and what links keep.

    Args:
        site: Has the runs.
        key: Name of the sample's run in URLs, one of both.
        sample: The sample.
        query: Query parameters of a URL; without ``b`` it is of no comparison.

    Returns:
        Nothing if the sample is in no comparison.
    """
    if "b" not in query or key not in (query.get("a"), query["b"]):
        return {}
    pairs = _PairList.read(site, query)
    if (at := pairs.place(key, sample)) is None:
        return {}
    matches = query.get("matches", "")
    before, after = (
        pairs.sample_address(key, row, matches) if 0 <= row < len(pairs.gaps) else "" for row in (at - 1, at + 1)
    )
    here = f"{at + 1:,} of {_count_text(len(pairs.gaps), of_ranks=_of_ranks(*pairs.sides))}"
    back = pair_address(int(pairs.rows[at, 0]), **pairs.values)
    return {"back": back, "previous": before, "next": after, "here": here, "kept": pairs.values}


def pair_address(sample: int, **query: object) -> str:
    """Return the URL of a comparison at a sample of its first run."""
    return address("compare", sample=sample, **query) + f"#sample-{sample}"


def _sides(site: Site, query: Mapping[str, str]) -> tuple[Side, Side]:
    """Return the two sides: for captioners, one metric of both runs; else a metric of each run."""
    first, second = site.run(query.get("a", "")), site.run(query.get("b", ""))
    if first.record.task != second.record.task:
        raise NoSuchPageError("cannot compare runs of different tasks")
    of_models = first.record.protocol.subject == "model"
    runs, samples = (first, second), [site.runs.samples(run) for run in (first, second)]
    known, other = (
        [metric for metric in of_run.metrics if metric in run.record.made_by]
        for run, of_run in zip(runs, samples, strict=True)
    )
    if of_models:
        known = other = [metric for metric in known if metric in other]
    if not (known and other):
        raise DataError("the samples of these runs have no scores" + " of the same metric" * of_models)
    # Sample values of a corpus metric say little: those of BLEU-4 are mostly 0.
    means = [metric for metric in known if first.record.made_by[metric].get("aggregation") != "corpus"]
    x = query.get("x") or (means if of_models and means else known)[0]
    others = [metric for metric in other if first.key != second.key or metric != x]
    y = x if of_models else query.get("y") or (others or other)[0]
    sides: list[Side] = []
    for run, of_run, metrics, metric in zip(runs, samples, (known, other), (x, y), strict=True):
        if metric not in metrics:
            raise NoSuchPageError(f"{run.name} has no metric '{metric}'", f"Available: {', '.join(metrics)}.")
        sides.append(Side(run, of_run, metric, metrics))
    # They are called by their models, their metrics, or else by the runs, whichever differ.
    called = zip(*((side.run.model, label(side.run, side.metric), side.run.name) for side in sides), strict=True)
    names = next((pair for pair in called if pair[0] != pair[1]), ("the first", "the second"))
    first_side, second_side = (replace(side, name=name) for side, name in zip(sides, names, strict=True))
    return first_side, second_side


def _ahead(first: Side, second: Side) -> str:
    """Return the phrase for the side with the better or higher score."""
    if _of_ranks(first, second):
        return "ranks higher"
    return "better" if first.run.record.has_direction(first.metric) else "has more"


def _count_text(count: int, *, of_ranks: bool) -> str:
    if not count:
        return "The two have no scored samples in common."
    unit = "in relative rank (0 to 1), as the metrics have different scales" if of_ranks else "in score"
    marked = "" if of_ranks else "; differing words are marked"
    return f"{count:,} samples with scores on both sides, sorted by difference {unit}{marked}."


def _pairs(site: Site, listed: _PairList, places: range) -> list[dict[str, Any]]:
    """Return template values for pairs of samples."""
    sides, rows = listed.sides, listed.rows[places.start : places.stop]
    shown = [
        [
            summary(site, side.run, side.samples, row, values)
            for row, values in zip(its_rows, side.samples.rows(its_rows), strict=True)
        ]
        for side, its_rows in zip(sides, rows.T.tolist(), strict=True)
    ]
    pairs: list[dict[str, Any]] = []
    for place, both_rows, *both in zip(places, rows.tolist(), *shown, strict=True):
        texts = [" / ".join(sample["texts"]) for sample in both]
        difference = float(listed.gaps[place])
        ahead = f"{sides[difference <= 0].name} {_ahead(*sides)}"
        to = [listed.sample_address(side.run.key, place) for side in sides]
        values = [shown_number(side.samples, side.metric, row) for side, row in zip(sides, both_rows, strict=True)]
        pairs.append(both[0] | {name: both[0][name] or both[1][name] for name in ("picture", "references")} | {
            "difference": f"{ahead} by {score(abs(difference))}" if difference else "",
            "text": texts[0] if texts[0] == texts[1] and both_rows[0] == both_rows[1] else "",
            "to": to, "at": both_rows[0],
            "sides": list(zip(sides, to, values, word_differences(*texts), ("del", "ins"), strict=True)),
        })  # fmt: skip
    return pairs


By = Literal["either", "first", "second"]
"""Sort order: by absolute difference, by advantage of the first, or by advantage of the second side."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        run: Its run.
        samples: The samples of that run.
        metric: The metric.
        metrics: The metrics to choose from.
        name: What the page calls it.
    """

    run: ShownRun
    samples: RunSamples
    metric: str
    metrics: Sequence[str]
    name: str = ""


@dataclass(frozen=True)
class _PairList:
    """The samples with scores on both sides, sorted by decreasing difference.

    Attributes:
        sides: Both sides.
        by: The sort order.
        rows: ``[n, 2]`` indices of the samples in the first and the second run.
        gaps: ``[n]`` advantage of the first side.
    """

    sides: tuple[Side, Side]
    by: By
    rows: np.ndarray
    gaps: np.ndarray

    @classmethod
    def read(cls, site: Site, query: Mapping[str, str]) -> _PairList:
        """Return the list of the query parameters of a URL."""
        sides = _sides(site, query)
        by: By = next((choice for choice in get_args(By) if choice == query.get("by")), "either")
        rows = shared_rows(*(side.samples for side in sides))
        values = np.column_stack([side.samples.numbers(side.metric)[rows[:, at]] for at, side in enumerate(sides)])
        there = np.isfinite(values).all(axis=1)
        rows, values = rows[there], values[there]
        columns = [relative_ranks(column) if _of_ranks(*sides) else column for column in values.T]
        signs = [1 if side.run.record.higher_is_better(side.metric) else -1 for side in sides]
        gaps = signs[0] * columns[0] - signs[1] * columns[1]
        keys = {"either": -np.abs(gaps), "first": -gaps, "second": gaps}
        order = np.argsort(keys[by], kind="stable")
        return cls(sides, by, rows[order], gaps[order])

    @property
    def values(self) -> dict[str, str]:
        """The query parameters of the comparison."""
        (a, x), (b, y) = ((side.run.key, side.metric) for side in self.sides)
        return {"a": a, "b": b, "x": x, "y": y, "by": "" if self.by == "either" else self.by}

    def address(self, **changes: object) -> str:
        """Return the URL of the comparison with changes."""
        return address("compare", **{**self.values, **changes})

    def sample_address(self, key: str, place: int, matches: str = "") -> str:
        """Return the URL of the sample of a run at a place in the list."""
        return address("runs", key, "samples", self.rows[place, self._column(key)], **self.values, matches=matches)

    def place(self, key: str, sample: int) -> int | None:
        """Return the place of a sample of a run; None if it is not in the list."""
        places = np.flatnonzero(self.rows[:, self._column(key)] == sample)
        return int(places[0]) if places.size else None

    def _column(self, key: str) -> int:
        return int(key != self.sides[0].run.key)


def _of_ranks(first: Side, second: Side) -> bool:
    """Return whether differences are in relative ranks (0 to 1), as the metrics have different scales."""
    return first.metric != second.metric
