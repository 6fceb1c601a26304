"""The pages of a run's samples: the list, a single sample, and a scatter plot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ...errors import BenchError, DataError
from ..tables.pages.charts import Scatter, scatter
from ..tables.pages.rendering import number
from ..tables.text import texts_of
from .finding import Picture, ShownRun, comparable
from .matches import can_explain, explain
from .samples import RunSamples, most_apart
from .site import STATIC_PAGES, ListState, NoSuchPageError, Site, address
from .words import mark_words

PAGE = 24
"""Samples per page."""
_MOST_RUNS = 20
"""Maximum number of runs on the page of a sample: the newest, as each of them is read."""
_FAR = 5
"""Number of samples of each kind of disagreement below a scatter plot."""
_MAIN = ("candidate", "caption", "candidates")
_TITLES = {
    "candidate": "Caption", "caption": "Caption", "candidates": "Captions", "references": "References",
    "negatives": "Negatives", "unchanged": "Caption before the change",
}  # fmt: skip
_STATIC_SAMPLES = 1_000
"""Maximum number of samples with links to their neighbours in an export, so that all are exported."""


def samples_page(site: Site, key: str, query: Mapping[str, str]) -> str:
    """Return one page of the list of samples."""
    run = site.run(key)
    samples = site.runs.samples(run)
    state = ListState.read(query, sortable(samples))
    order = _order(samples, state)
    page = site.page_of(query, len(order), PAGE)
    wanted = order[page.first : page.last].tolist()
    listed = [
        summary(site, run, samples, sample, row)
        | {"to": address("runs", key, "samples", sample, **({} if site.static else state.values()))}
        for sample, row in zip(wanted, samples.rows(wanted), strict=True)
    ]

    return site.render(
        "samples.html",
        run=run,
        state=state,
        sorts=[(name, label(run, name)) for name in sortable(samples)],
        listed=listed,
        count=_count_text(run, state, len(order), len(samples), page.pages * PAGE),
        **page.links(lambda at: address("runs", key, "samples", **state.values(page=at))),
    )


def sortable(samples: RunSamples) -> list[str]:
    """Return the numeric columns of samples: metrics and ratings."""
    return [*samples.rated, *samples.metrics]


def _order(samples: RunSamples, state: ListState) -> np.ndarray:
    return samples.order(state.sort, descending=state.descending, query=state.query, failed=state.failed)


def label(run: ShownRun, name: str) -> str:
    """Return the label of a metric or a column of ratings."""
    kind, _, aspect = name.partition(".")
    if kind == "ratings":
        return f"human rating, {aspect}" if aspect else "human rating"
    return run.record.metric_label(name)


def _count_text(run: ShownRun, state: ListState, matching: int, total: int, shown: int) -> str:
    parts = [f"{matching:,} of {total:,} samples" if matching < total else f"{total:,} samples"]
    if state.query:
        parts.append(f"with “{state.query}”")
    if state.failed:
        parts.append("with failures")
    if state.sort:
        parts.append(f"by {label(run, state.sort)}, {'highest' if state.descending else 'lowest'} first")
    count = " ".join(parts)
    return f"{count} (first {shown:,} exported)" if matching > shown else count


def summary(site: Site, run: ShownRun, samples: RunSamples, sample: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return template values of a sample in a list."""
    identity = str(row["id"])
    has_picture = site.pictures.may_have(run, identity)
    return {
        "id": identity,
        "picture": address("runs", run.key, "pictures", sample) if has_picture else "",
        "texts": _main_texts(row),
        "failure": row.get("failure"),
        "scores": [
            {"name": name, "label": label(run, name), "value": shown_number(samples, name, sample)}
            for name in sortable(samples)
        ],
    }


def _main_texts(row: Mapping[str, Any]) -> list[str]:
    """Return the caption of a sample, or its captions; none where the run recorded no texts."""
    return next((texts_of(row[name]) for name in _MAIN if row.get(name)), [])


def shown_number(samples: RunSamples, name: str, sample: int) -> str:
    """Return a formatted value of a sample; counts have no decimals."""
    value = float(samples.numbers(name)[sample])
    return number(value if math.isfinite(value) else None, 0 if samples.counts(name) else 4)


def _sample(samples: RunSamples, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) < len(samples)):
        raise NoSuchPageError(f"the run has no sample '{text}'; its {len(samples):,} samples are numbered from 0")
    return int(text)


def sample_page(site: Site, key: str, text: str, query: Mapping[str, str]) -> str:
    """Return the page of a sample, with links to its neighbours in the list."""
    run = site.run(key)
    samples = site.runs.samples(run)
    sample = _sample(samples, text)
    state = ListState.read(query, sortable(samples))
    row = samples.rows([sample])[0]
    metric = query.get("matches", "")
    if metric and (metric not in samples.metrics or not can_explain(run.record, metric)):
        raise NoSuchPageError(f"metric '{metric}' has no matches to show", "Only CAPTURE and METEOR have matches.")
    shown = _whole(site, run, samples, sample, row, state)
    explainable = [score["name"] for score in shown["scores"] if score["why"]]
    # An exported page has all matches, as a page a metric would double the number of files.
    explained = explainable if site.static else [metric] if metric else []
    return site.render(
        "sample.html",
        run=run,
        shown=shown,
        **_place_in_list(site, run, samples, state, sample),
        explained_any=bool(explainable),
        matches=[_matches(run, samples, name, row) for name in explained],
        matches_of=metric,
        models=_of_models(site, run, sample, row),
    )


def _of_models(site: Site, run: ShownRun, sample: int, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return template values of a sample in every run of its task, this one first; None if no other run has it."""
    others = comparable(run, site.runs.all()[0])
    shown: list[tuple[ShownRun, RunSamples, int]] = []
    for other in [run, *others[: _MOST_RUNS - 1]]:
        # A run without samples, or with changed ones, has nothing to show here.
        with suppress(DataError):
            samples = site.runs.samples(other)
            index = sample if other.key == run.key else samples.find(str(row["id"]))
            if index is not None:
                shown.append((other, samples, index))
    if len(shown) < 2:
        return None
    metrics = list(dict.fromkeys(name for _, samples, _ in shown for name in samples.metrics))
    rows: list[dict[str, Any]] = []
    captions: dict[str, list[str]] = {}
    models = Counter(other.model for other, *_ in shown)
    for other, samples, index in shown:
        name = other.model if models[other.model] == 1 else other.name
        texts = _main_texts(samples.rows([index])[0])
        captions.setdefault(" / ".join(texts), []).append(name)
        scores = [shown_number(samples, metric, index) if metric in samples.metrics else "–" for metric in metrics]
        rows.append({
            "name": name, "scores": scores, "to": address("runs", other.key, "samples", index),
            "compare": "" if other.key == run.key else site.comparison(run, other),
        })  # fmt: skip
    marked = mark_words(list(captions), texts_of(row.get("references")))
    return {
        "metrics": [next(label(other, metric) for other, of, _ in shown if metric in of.metrics) for metric in metrics],
        "rows": rows,
        "captions": [(", ".join(names), parts) for names, parts in zip(captions.values(), marked, strict=True)],
        "left_out": max(len(others) + 1 - _MOST_RUNS, 0),
    }


def _matches(run: ShownRun, samples: RunSamples, metric: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return template values of the matches of a metric, or of the reason why there are none."""
    shown = {"label": label(run, metric), "anchor": _anchor(samples, metric), "explained": None, "fault": ""}
    try:
        return shown | {"explained": explain(run.record, metric, row)}
    except BenchError as error:
        return shown | {"fault": error.in_one_line}


def _anchor(samples: RunSamples, metric: str) -> str:
    return f"matches-{samples.metrics.index(metric)}"


def _place_in_list(site: Site, run: ShownRun, samples: RunSamples, state: ListState, sample: int) -> dict[str, str]:
    """Return URLs of the list and of the previous and next sample, and the position in the list."""
    order = _order(samples, state)
    at = int(places[0]) if (places := np.flatnonzero(order == sample)).size else None
    page = at // PAGE + 1 if at is not None else 1
    back = address("runs", run.key, "samples", **state.values(page=min(page, STATIC_PAGES) if site.static else page))
    if at is None or (site.static and len(samples) > _STATIC_SAMPLES):
        return {"back": back, "previous": "", "next": "", "here": f"sample {sample + 1:,} of {len(samples):,}"}
    before, after = (
        address("runs", run.key, "samples", order[number], **state.values()) if 0 <= number < len(order) else ""
        for number in (at - 1, at + 1)
    )
    here = f"{at + 1:,} of {_count_text(run, state, len(order), len(samples), len(order))}"
    return {"back": back, "previous": before, "next": after, "here": here}


def _whole(
    site: Site, run: ShownRun, samples: RunSamples, sample: int, row: Mapping[str, Any], state: ListState
) -> dict[str, Any]:
    """Return template values for everything that the run recorded of a sample."""
    shown = summary(site, run, samples, sample, row)
    named_texts = [(title, texts_of(row[name])) for name, title in _TITLES.items() if row.get(name)]
    explainable = isinstance(row.get("candidate"), str) and bool(row.get("references"))
    for score in shown["scores"]:
        name = score["name"]
        rank = samples.rank(name, sample, rising=not run.record.higher_is_better(name))
        score["rank"] = _rank_text(*rank) if rank else "–"
        score["to"] = address("runs", run.key, "samples", sort=name)
        why = explainable and rank is not None and can_explain(run.record, name)
        page = "" if site.static else address("runs", run.key, "samples", sample, **state.values(), matches=name)
        score["why"] = f"{page}#{_anchor(samples, name)}" if why else ""
        score["directed"] = run.record.has_direction(name)
    known = {"id", "image", "failure", *_TITLES, *samples.metrics}
    facts = [
        (name, _fact(row[name]))
        for name in samples.columns
        if name not in known and row[name] is not None and row[name] not in ("", [])
    ]
    return shown | {"image": row.get("image") or "–", "named_texts": named_texts, "facts": facts}


def _rank_text(rank: int, equal: int, ranked: int) -> str:
    return f"{rank:,} of {ranked:,}" + (f", shared by {equal:,}" if equal > 1 else "")


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join("–" if item is None else _fact(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def picture(site: Site, key: str, text: str) -> Picture:
    """Return the image of a sample, or a placeholder.

    Raises:
        NoSuchPageError: There is no such sample.
    """
    run = site.run(key)
    samples = site.runs.samples(run)
    row = samples.rows([_sample(samples, text)])[0]
    return site.pictures.read(run, str(row["id"]), row.get("image"))


def scatter_page(site: Site, key: str, query: Mapping[str, str]) -> str:
    """Return the scatter plot of one column of values against another."""
    run = site.run(key)
    samples = site.runs.samples(run)
    known = sortable(samples)
    if not known:
        raise NoSuchPageError("the samples of this run have no scores")
    x, y = query.get("x", known[0]), query.get("y", known[1 % len(known)])
    for name in (x, y):
        if name not in known:
            raise NoSuchPageError(f"this run has no metric '{name}'", f"Available: {', '.join(known)}.")
    drawn = scatter(samples.numbers(x), samples.numbers(y))
    # Higher is better.
    by_x, by_y = (samples.numbers(name) * (1 if run.record.higher_is_better(name) else -1) for name in (x, y))
    return site.render(
        "scatter.html",
        run=run,
        x=x,
        y=y,
        x_label=label(run, x),
        y_label=label(run, y),
        choices=[(name, label(run, name)) for name in known],
        drawing=drawn,
        count=_point_count_text(drawn, label(run, x)),
        to=lambda sample: address("runs", key, "samples", sample),
        far=[
            (f"Ranked higher by {label(run, x)}", _far(run, samples, x, y, most_apart(by_x, by_y, _FAR))),
            (f"Ranked higher by {label(run, y)}", _far(run, samples, x, y, most_apart(by_y, by_x, _FAR))),
        ],
    )


def _point_count_text(drawn: Scatter, x: str) -> str:
    if not drawn.total:
        return "No sample has both values."
    count = f"{drawn.total:,} samples"
    if len(drawn.points) < drawn.total:
        count += f", of which {len(drawn.points):,} are drawn (random selection with a fixed seed)"
    if drawn.spread:
        count += f"; points have horizontal jitter, as many have the same {x}"
    return count


def _far(run: ShownRun, samples: RunSamples, x: str, y: str, far: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": str(row["id"]),
            "to": address("runs", run.key, "samples", sample),
            "text": next(iter(_main_texts(row)), ""),
            "x": shown_number(samples, x, sample),
            "y": shown_number(samples, y, sample),
        }
        for sample, row in zip(far, samples.rows(far), strict=True)
    ]
