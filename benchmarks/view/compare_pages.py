"""The page of two runs side by side, or of two metrics of one run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from ...errors import BenchError, DataError
from ..comparing.comparison import CompareSettings, Comparison, Pair, RankedValue, compare_runs
from ..tables.pages.rendering import number
from .finding import ShownRun
from .sample_pages import label, shown_number, summary
from .sides import By, Differences, Side, comparable, differences, word_differences
from .site import STATIC_PAGES, Site
from .state import NoSuchPageError, address, page_number, page_of

PAGE = 12
"""Pairs of a page."""
MANY = 10_000
"""Samples from which on intervals are by influence functions: resamples would take longer than a page may."""
_KEPT = 32


@dataclass
class Verdicts:
    """Comparisons that were made, as each takes a while. Threads may share it."""

    _known: OrderedDict[tuple[Any, ...], Comparison | BenchError] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, first: Side, second: Side) -> Comparison:
        """Return what ``bench compare`` says of two sides, of :data:`MANY` samples with ``--intervals influence``.

        Raises:
            BenchError: They cannot be compared.
        """
        key = tuple((side.run.folder, side.run.record.fingerprint, side.metric) for side in (first, second))
        with self._lock:
            if key not in self._known:
                self._known[key] = _compared(first, second)
                if len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            found = self._known[key]
        if isinstance(found, BenchError):
            raise found
        return found


def _compared(first: Side, second: Side) -> Comparison | BenchError:
    folders = list(dict.fromkeys((first.run.folder, second.run.folder)))
    metrics = tuple(dict.fromkeys((first.metric, second.metric)))
    intervals = "influence" if max(len(first.samples), len(second.samples)) >= MANY else "auto"
    try:
        return compare_runs(folders, CompareSettings(metrics=metrics, intervals=intervals))[0]
    except BenchError as error:
        return error


def compare_page(site: Site, verdicts: Verdicts, query: Mapping[str, str]) -> str:
    """Return the page of two runs side by side."""
    first, second = site.run(query.get("a", "")), site.run(query.get("b", ""))
    if first.record.task != second.record.task:
        raise NoSuchPageError("the two runs are of different tasks, and cannot be held against each other")
    of_models = first.record.protocol.subject == "model"
    sides = _sides(site, first, second, query, of_models)
    comparison = fault = None
    try:
        comparison = verdicts.of(*sides)
    except BenchError as error:
        fault = error.in_one_line
    by: By = next((one for one in get_args(By) if one == query.get("by")), "either")
    found = differences(*sides, by)
    names = _names(sides)
    ahead = _ahead(sides[0], of_ranks=not of_models)
    page = page_of(page_number(query.get("page", "1")), len(found), PAGE, STATIC_PAGES if site.static else None)

    def values(**changes: Any) -> dict[str, object]:
        told = {"a": first.key, "b": second.key, "x": sides[0].metric, "y": sides[1].metric}
        return {**told, "by": "" if by == "either" else by, **changes}

    def to(at: int) -> str:
        return address("compare", **values(page=at if at > 1 else "")) if 0 < at <= page.pages else ""

    return site.render(
        "compare.html",
        a=_shown(sides[0], names[0]),
        b=_shown(sides[1], names[1]),
        of_models=of_models,
        selects=_selects(site, sides, of_models),
        fault=fault,
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
        first=page.first + 1,
        previous=to(page.number - 1),
        next=to(page.number + 1),
        here=f"{page.number:,} of {page.pages:,}",
    )  # fmt: skip


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


def _shown(side: Side, name: str) -> dict[str, Any]:
    return {"run": side.run, "metric": side.metric, "name": name}


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


def _decimals(comparison: Comparison) -> int:
    return 2 if comparison.scale > 1 or max(abs(one.value) for one in comparison.compared) > 10 else 4


def _value(comparison: Comparison, one: RankedValue) -> dict[str, str]:
    decimals, scale = _decimals(comparison), comparison.scale
    return {
        "label": one.label,
        "value": number(one.value * scale, decimals),
        "interval": _ends(one.interval.low, one.interval.high, scale, decimals),
        "letters": one.letters,
    }


def _ends(low: float | None, high: float | None, scale: float, decimals: int) -> str:
    if low is None or high is None:
        return "–"
    return f"[{number(low * scale, decimals)}, {number(high * scale, decimals)}]"


def _sentence(comparison: Comparison) -> str:
    """Return the verdict in words."""
    labels = {one.name: one.label for one in comparison.compared}
    pair: Pair = comparison.pairs[0]
    decimals, scale, alpha = _decimals(comparison), comparison.scale, comparison.settings.alpha
    by = " of ".join(filter(None, [comparison.statistic_label, comparison.metric_label]))
    difference = number(pair.value * scale, decimals)
    interval = _ends(pair.interval.low, pair.interval.high, scale, decimals)
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
