"""The page of two runs side by side, or of two metrics of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ...errors import BenchError, DataError
from ..comparing.comparison import CompareSettings, Comparison, Pair, RankedValue, compare_runs
from ..statistics import Intervals
from ..tables.pages.rendering import ends, number
from .finding import ShownRun, comparable
from .sample_pages import label, shown_number, summary
from .samples import RunSamples, relative_ranks
from .site import STATIC_PAGES, NoSuchPageError, Site, address, page_number, page_of

PAGE = 12
"""Pairs of a page."""
MANY = 10_000
"""Samples from which on intervals are by influence functions: resamples would take longer than a page may."""
_KEPT = 32


@lru_cache(_KEPT)
def _compared(
    folders: tuple[Path, ...], fingerprints: tuple[str, ...], metrics: tuple[str, ...], intervals: Intervals
) -> Comparison | BenchError:
    """Return what ``bench compare`` says, or why it says nothing; kept, as each takes a while."""
    try:
        return compare_runs(folders, CompareSettings(metrics=metrics, intervals=intervals))[0]
    except BenchError as error:
        return error


def compare_page(site: Site, query: Mapping[str, str]) -> str:
    """Return the page of two runs side by side."""
    first, second = site.run(query.get("a", "")), site.run(query.get("b", ""))
    if first.record.task != second.record.task:
        raise NoSuchPageError("the two runs are of different tasks, and cannot be held against each other")
    of_models = first.record.protocol.subject == "model"
    sides = _sides(site, first, second, query, of_models)
    runs = tuple(dict.fromkeys((first.folder, second.folder)))
    metrics = tuple(dict.fromkeys(side.metric for side in sides))
    many = max(len(side.samples) for side in sides) >= MANY
    verdict = _compared(
        runs, (first.record.fingerprint, second.record.fingerprint), metrics, "influence" if many else "auto"
    )
    comparison = None if isinstance(verdict, BenchError) else verdict
    by: By = next((one for one in get_args(By) if one == query.get("by")), "either")
    found = differences(*sides, by)
    names = _names(sides)
    ahead = _ahead(sides[0], of_ranks=not of_models)
    page = page_of(page_number(query.get("page", "1")), len(found), PAGE, STATIC_PAGES if site.static else None)

    def values(**changes: Any) -> dict[str, object]:
        told = {"a": first.key, "b": second.key, "x": sides[0].metric, "y": sides[1].metric}
        return {**told, "by": "" if by == "either" else by, **changes}

    return site.render(
        "compare.html",
        **{
            part: {"run": side.run, "metric": side.metric, "name": name}
            for part, side, name in zip("ab", sides, names, strict=True)
        },
        of_models=of_models,
        selects=_selects(site, sides, of_models),
        fault=verdict.in_one_line if isinstance(verdict, BenchError) else "",
        comparison=comparison,
        compared=[_value(comparison, one) for one in comparison.compared] if comparison else [],
        sentence=_sentence(comparison) if comparison else "",
        by_influence=comparison is not None and comparison.settings.intervals == "influence",
        values=values,
        orders=[
            ("either", "the largest either way"),
            ("first", f"{names[0]} {ahead}"),
            ("second", f"{names[1]} {ahead}"),
        ],
        by=by,
        said=_said(found),
        found=_pairs(site, sides, names, found, range(page.first, page.last)),
        **page.links(lambda at: address("compare", **values(page=at if at > 1 else ""))),
    )


def _sides(
    site: Site, first: ShownRun, second: ShownRun, query: Mapping[str, str], of_models: bool
) -> tuple[Side, Side]:
    """Return what is compared: of captioners one metric of both runs, else a metric of each."""
    sides: list[Side] = []
    for run, name in ((first, "x"), (second, "y")):
        samples = site.runs.samples(run)
        known = [metric for metric in samples.metrics if metric in run.record.made_by]
        if not known:
            raise DataError("the samples of these runs have no scores to compare")
        if sides and of_models:
            chosen = sides[0].metric
        elif sides and first.key == second.key:
            chosen = query.get(name) or next((one for one in known if one != sides[0].metric), known[0])
        else:
            chosen = query.get(name) or known[0]
        if chosen not in known:
            raise NoSuchPageError(f"'{chosen}' is no metric of {run.name}", f"It has {', '.join(known)}.")
        sides.append(Side(run, samples, chosen))
    return sides[0], sides[1]


def _ahead(side: Side, *, of_ranks: bool) -> str:
    """Return what is said of a side that is ahead of the other one."""
    if of_ranks:
        return "ranks higher"
    return "better" if side.run.record.has_direction(side.metric) else "has more"


def _names(sides: tuple[Side, Side]) -> tuple[str, str]:
    """Return what tells two sides apart: the model, the metric, or else the run."""
    for names in (
        tuple(side.run.model for side in sides),
        tuple(label(side.run, side.metric) for side in sides),
        tuple(side.run.name for side in sides),
    ):
        if names[0] != names[1]:
            return names[0], names[1]
    return "the first", "the second"


def _selects(site: Site, sides: tuple[Side, Side], of_models: bool) -> list[dict[str, Any]]:
    runs = [sides[0].run, *comparable(sides[0].run, site.runs.all()[0])]
    choices = [(run.key, run.name) for run in runs]
    found = [
        {"name": name, "says": says, "choices": choices, "chosen": side.run.key}
        for name, says, side in (("a", "One", sides[0]), ("b", "The other", sides[1]))
    ]
    axes = [("x", "By", sides[0])]
    if not of_models:
        axes = [("x", "Metric of the one", sides[0]), ("y", "Metric of the other", sides[1])]
    for name, says, side in axes:
        metrics = [one for one in side.samples.metrics if one in side.run.record.made_by]
        shown = [(one, label(side.run, one)) for one in metrics]
        found.append({"name": name, "says": says, "choices": shown, "chosen": side.metric})
    return found


def _value(comparison: Comparison, one: RankedValue) -> dict[str, str]:
    decimals, scale = comparison.decimals, comparison.scale
    return {
        "label": one.label,
        "value": number(one.value * scale, decimals),
        "interval": ends(one.interval, scale, decimals),
        "letters": one.letters,
    }


def _sentence(comparison: Comparison) -> str:
    """Return the verdict in words."""
    labels = {one.name: one.label for one in comparison.compared}
    pair: Pair = comparison.pairs[0]
    decimals, scale, alpha = comparison.decimals, comparison.scale, comparison.settings.alpha
    by = " of ".join(filter(None, [comparison.statistic_label, comparison.metric_label]))
    difference = number(pair.value * scale, decimals)
    interval = ends(pair.interval, scale, decimals)
    if pair.p_holm is None:
        certainty = "whether they differ cannot be tested"
    elif pair.p_holm < alpha:
        p = "p < 0.0001" if pair.p_holm < 0.0001 else f"p = {pair.p_holm:.4f}"
        certainty = f"they differ at the level of {alpha:g} ({p})"
    else:
        certainty = f"no difference can be told at the level of {alpha:g} (p = {pair.p_holm:.4f})"
    return (
        f"{labels[pair.first]} is ahead of {labels[pair.second]} by {difference} in {by}, "
        f"{100 * (1 - alpha):g}% interval {interval}: {certainty}."
    )


def _said(found: Differences) -> str:
    if not len(found):
        return "The two have no sample in common that both scored."
    what = "of ranks, from 0 to 1, as the two metrics have scales of their own" if found.of_ranks else "of scores"
    marked = "" if found.of_ranks else "; words that only one has are marked"
    return f"{len(found):,} samples that both scored, by the difference {what}{marked}."


def _pairs(
    site: Site, sides: tuple[Side, Side], names: tuple[str, str], found: Differences, places: range
) -> list[dict[str, Any]]:
    """Return what is shown of some pairs of samples."""
    rows = found.rows[places.start : places.stop]
    shown = [
        [
            summary(site, side.run, side.samples, row, values)
            for row, values in zip(its_rows, side.samples.rows(its_rows), strict=True)
        ]
        for side, its_rows in zip(sides, rows.T.tolist(), strict=True)
    ]
    return [_pair(sides, names, found, at, (mine, theirs)) for at, mine, theirs in zip(places, *shown, strict=True)]


def _pair(
    sides: tuple[Side, Side],
    names: tuple[str, str],
    found: Differences,
    at: int,
    shown: tuple[dict[str, Any], dict[str, Any]],
) -> dict[str, Any]:
    rows = found.rows[at].tolist()
    texts = [" / ".join(one["texts"]) for one in shown]
    difference = found.differences[at]
    ahead = names[0] if difference > 0 else names[1]
    return {
        "id": shown[0]["id"],
        "picture": shown[0]["picture"] or shown[1]["picture"],
        "difference": f"{ahead} {_ahead(sides[0], of_ranks=found.of_ranks)} by {number(abs(difference), 4)}"
        if difference
        else "",
        "text": texts[0] if texts[0] == texts[1] and rows[0] == rows[1] else "",
        "scores": shown[0]["scores"],
        "to": [address("runs", side.run.key, "samples", row) for side, row in zip(sides, rows, strict=True)],
        "sides": [
            {
                "name": name,
                "label": label(side.run, side.metric),
                "value": shown_number(side.samples, side.metric, row),
                "words": its_words,
                "tag": tag,
                "to": address("runs", side.run.key, "samples", row),
            }
            for name, side, its_words, tag, row in zip(
                names, sides, word_differences(*texts), ("del", "ins"), rows, strict=True
            )
        ],
    }


By = Literal["either", "first", "second"]
"""Whose advantage comes first: whichever is greater, that of the first, that of the second."""


@dataclass(frozen=True)
class Side:
    """One of two things that are compared.

    Attributes:
        run: Its run.
        samples: The samples of that run.
        metric: The metric.
    """

    run: ShownRun
    samples: RunSamples
    metric: str


@dataclass(frozen=True)
class Differences:
    """Samples of which both sides have a score, the largest difference first.

    Attributes:
        rows: ``[n, 2]`` numbers of the samples in either run.
        differences: ``[n]`` by how much the first is better.
        of_ranks: Whether these are of ranks, from 0 to 1: the two metrics have scales of their own.
    """

    rows: np.ndarray
    differences: np.ndarray
    of_ranks: bool

    def __len__(self) -> int:
        return len(self.rows)


def differences(first: Side, second: Side, by: By) -> Differences:
    """Return the samples that two sides share, in order.

    Args:
        first: One of them.
        second: The other, of the same task.
        by: Which differences come first.
    """
    rows = _shared_rows(first.samples, second.samples)
    values = np.column_stack(
        [side.samples.numbers(side.metric)[rows[:, at]] for at, side in enumerate((first, second))]
    )
    there = np.isfinite(values).all(axis=1)
    rows, values = rows[there], values[there]
    of_ranks = first.metric != second.metric
    better = []
    for side, column in zip((first, second), values.T, strict=True):
        upwards = side.run.record.higher_is_better(side.metric)
        better.append((relative_ranks(column) if of_ranks else column) * (1 if upwards else -1))
    difference = better[0] - better[1]
    keys = {"either": -np.abs(difference), "first": -difference, "second": difference}
    order = np.argsort(keys[by], kind="stable")
    return Differences(rows[order], difference[order], of_ranks)


def _shared_rows(first: RunSamples, second: RunSamples) -> np.ndarray:
    """Return ``[n, 2]`` the numbers of the samples that both have, in the order of the first."""
    if first is second:
        return np.repeat(np.arange(len(first))[:, None], 2, axis=1)
    place = {identity: row for row, identity in enumerate(second.column("id"))}
    shared = [(row, place[identity]) for row, identity in enumerate(first.column("id")) if identity in place]
    return np.asarray(shared, np.int64).reshape(-1, 2)


Words = list[tuple[str, bool]]
"""Parts of a text, and whether the other text has each."""


def word_differences(first: str, second: str) -> tuple[Words, Words]:
    """Return two texts in parts, those that they share and those that one of them has alone, word by word."""
    words = first.split(), second.split()
    found: tuple[Words, Words] = [], []
    folded = [[one.lower().strip(".,;:!?\"'") for one in side] for side in words]
    matcher = SequenceMatcher(None, *folded, autojunk=False)
    for kind, *at in matcher.get_opcodes():
        for side, start, end in ((0, *at[:2]), (1, *at[2:])):
            if end > start:
                found[side].append((" ".join(words[side][start:end]), kind == "equal"))
    return found
