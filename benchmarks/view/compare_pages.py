"""The page that compares two runs, or two metrics of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ...errors import BenchError, DataError
from ..comparing.comparison import CompareSettings, Comparison, Pair, compare_runs
from ..statistics import Intervals
from ..tables.pages.rendering import ends, number
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
    first, second = site.run(query.get("a", "")), site.run(query.get("b", ""))
    if first.record.task != second.record.task:
        raise NoSuchPageError("cannot compare runs of different tasks")
    of_models = first.record.protocol.subject == "model"
    sides = _sides(site, first, second, query, of_models)
    runs = tuple(dict.fromkeys((first.folder, second.folder)))
    metrics = tuple(dict.fromkeys(side.metric for side in sides))
    many = max(len(side.samples) for side in sides) >= MANY
    verdict = _compared(
        runs, (first.record.fingerprint, second.record.fingerprint), metrics, "influence" if many else "auto"
    )
    comparison = None if isinstance(verdict, BenchError) else verdict
    by: By = next((choice for choice in get_args(By) if choice == query.get("by")), "either")
    rows, gaps = differences(*sides, by)
    ahead = _ahead(*sides)
    page = site.page_of(query, len(gaps), PAGE)

    def values(**changes: Any) -> dict[str, object]:
        params = {"a": first.key, "b": second.key, "x": sides[0].metric, "y": sides[1].metric}
        return {**params, "by": "" if by == "either" else by, **changes}

    return site.render(
        "compare.html",
        a=sides[0],
        b=sides[1],
        of_models=of_models,
        selects=_selects(site, sides, of_models),
        fault=verdict.in_one_line if isinstance(verdict, BenchError) else "",
        comparison=comparison,
        sentence=_sentence(comparison) if comparison else "",
        orders=[
            (name, address("compare", **values(by=choice)), choice == by)
            for choice, name in zip(
                get_args(By),
                ("largest absolute difference", f"{sides[0].name} {ahead}", f"{sides[1].name} {ahead}"),
                strict=True,
            )
        ],
        count=_count_text(len(gaps), of_ranks=_of_ranks(*sides)),
        pairs=_pairs(site, sides, rows, gaps, range(page.first, page.last)),
        **page.links(lambda at: address("compare", **values(page=at if at > 1 else ""))),
    )


def _sides(
    site: Site, first: ShownRun, second: ShownRun, query: Mapping[str, str], of_models: bool
) -> tuple[Side, Side]:
    """Return the two sides: for captioners, one metric of both runs; else a metric of each run."""
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
    for names in (
        [side.run.model for side in sides],
        [side.label for side in sides],
        [side.run.name for side in sides],
        ["the first", "the second"],
    ):
        if names[0] != names[1]:
            break
    first_side, second_side = (replace(side, name=name) for side, name in zip(sides, names, strict=True))
    return first_side, second_side


def _ahead(first: Side, second: Side) -> str:
    """Return the phrase for the side with the better or higher score."""
    if _of_ranks(first, second):
        return "ranks higher"
    return "better" if first.run.record.has_direction(first.metric) else "has more"


_Menu = tuple[str, str, list[tuple[str, str]], str]
"""Name and title of a menu, its choices (value and text), and the chosen value."""


def _selects(site: Site, sides: tuple[Side, Side], of_models: bool) -> list[_Menu]:
    runs = [sides[0].run, *comparable(sides[0].run, site.runs.all()[0])]
    choices = [(run.key, run.name) for run in runs]
    menus = [("a", "First run", choices, sides[0].run.key), ("b", "Second run", choices, sides[1].run.key)]
    axes = ("Metric",) if of_models else ("First metric", "Second metric")
    for name, title, side in zip("xy", axes, sides, strict=False):
        menus.append((name, title, [(metric, label(side.run, metric)) for metric in side.metrics], side.metric))
    return menus


def _sentence(comparison: Comparison) -> str:
    """Return the result of the test as a sentence."""
    labels = {entry.name: entry.label for entry in comparison.compared}
    pair: Pair = comparison.pairs[0]
    decimals, scale, alpha = comparison.decimals, comparison.scale, comparison.settings.alpha
    by = " of ".join(filter(None, [comparison.statistic_label, comparison.metric_label]))
    difference = number(pair.value * scale, decimals)
    interval = ends(pair.interval, scale, decimals)
    certainty = "the difference cannot be tested"
    if pair.p_holm is not None:
        p = "p < 0.0001" if pair.p_holm < 0.0001 else f"p = {pair.p_holm:.4f}"
        certainty = f"{'' if pair.p_holm < alpha else 'not '}significant at the {alpha:g} level ({p})"
    return (
        f"{labels[pair.first]} is ahead of {labels[pair.second]} by {difference} in {by}, "
        f"{100 * (1 - alpha):g}% interval {interval}: {certainty}."
    )


def _count_text(count: int, *, of_ranks: bool) -> str:
    if not count:
        return "The two have no scored samples in common."
    unit = "in relative rank (0 to 1), as the metrics have different scales" if of_ranks else "in score"
    marked = "" if of_ranks else "; differing words are marked"
    return f"{count:,} samples with scores on both sides, sorted by difference {unit}{marked}."


def _pairs(
    site: Site, sides: tuple[Side, Side], rows: np.ndarray, gaps: np.ndarray, places: range
) -> list[dict[str, Any]]:
    """Return template values for pairs of samples."""
    rows = rows[places.start : places.stop]
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
        difference = float(gaps[place])
        ahead = f"{sides[difference <= 0].name} {_ahead(*sides)}"
        to = [address("runs", side.run.key, "samples", row) for side, row in zip(sides, both_rows, strict=True)]
        values = [shown_number(side.samples, side.metric, row) for side, row in zip(sides, both_rows, strict=True)]
        pairs.append(
            both[0]
            | {
                "picture": both[0]["picture"] or both[1]["picture"],
                "difference": f"{ahead} by {number(abs(difference), 4)}" if difference else "",
                "text": texts[0] if texts[0] == texts[1] and both_rows[0] == both_rows[1] else "",
                "to": to,
                "sides": list(zip(sides, to, values, word_differences(*texts), ("del", "ins"), strict=True)),
            }
        )
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

    @property
    def label(self) -> str:
        """Label of the metric."""
        return label(self.run, self.metric)


def _of_ranks(first: Side, second: Side) -> bool:
    """Return whether differences are in relative ranks (0 to 1), as the metrics have different scales."""
    return first.metric != second.metric


def differences(first: Side, second: Side, by: By) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples with scores on both sides, sorted by decreasing difference.

    Args:
        first: The first side.
        second: The second side, of the same task.
        by: The sort order.

    Returns:
        ``[n, 2]`` indices of the samples in the first and the second run, and ``[n]`` advantage of the first side.
    """
    rows = shared_rows(first.samples, second.samples)
    values = np.column_stack(
        [side.samples.numbers(side.metric)[rows[:, at]] for at, side in enumerate((first, second))]
    )
    there = np.isfinite(values).all(axis=1)
    rows, values = rows[there], values[there]
    columns = [relative_ranks(column) if _of_ranks(first, second) else column for column in values.T]
    signs = [1 if side.run.record.higher_is_better(side.metric) else -1 for side in (first, second)]
    difference = signs[0] * columns[0] - signs[1] * columns[1]
    keys = {"either": -np.abs(difference), "first": -difference, "second": difference}
    order = np.argsort(keys[by], kind="stable")
    return rows[order], difference[order]
