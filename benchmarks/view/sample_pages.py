"""The pages of a sample, and the scatter plot of samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import BenchError
from ..tables.pages.charts import Scatter, scatter
from ..tables.text import texts_of
from .finding import Picture, ShownRun, comparable
from .matches import can_explain, explain
from .sample_list import (
    MOST_RUNS,
    TITLES,
    ListState,
    SampleList,
    label,
    main_texts,
    runs_of_task,
    shown_number,
    summary,
)
from .samples import RunSamples, most_apart
from .site import NoSuchPageError, Site, address
from .words import mark_words

_FAR = 5
"""Number of samples of each kind of disagreement below a scatter plot."""


def _sample(samples: RunSamples, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) < len(samples)):
        raise NoSuchPageError(f"the run has no sample '{text}'; its {len(samples):,} samples are numbered from 0")
    return int(text)


def sample_page(site: Site, key: str, text: str, query: Mapping[str, str]) -> str:
    """Return the page of a sample, with links to its neighbours in the list."""
    listed = SampleList.read(site, key, query)
    run, samples, state = listed.run, listed.samples, listed.state
    sample = _sample(samples, text)
    row = samples.rows([sample])[0]
    metric = query.get("matches", "")
    if metric and (metric not in samples.metrics or not can_explain(run.record, metric)):
        raise NoSuchPageError(f"metric '{metric}' has no matches to show", "Only CAPTURE and METEOR have matches.")
    shown = _whole(site, run, samples, sample, row, state)
    return site.render(
        "sample.html",
        run=run,
        shown=shown,
        **listed.place_of(sample),
        explained_any=any(score["why"] for score in shown["scores"]),
        matches=[_matches(run, samples, metric, row)] if metric else [],
        matches_of=metric,
        models=_of_models(site, run, row),
    )


def _of_models(site: Site, run: ShownRun, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return template values of a sample in every run of its task, this one first; None if no other run has it."""
    rows: list[dict[str, Any]] = []
    heads: dict[str, str] = {}
    captions: dict[str, list[str]] = {}
    models = Counter(other.model for other in [run, *comparable(run, site.runs.all()[0])])
    for other, samples in runs_of_task(site, run):
        sample = samples.find(str(row["id"]))
        if sample is None:
            continue
        name = other.name if models[other.model] > 1 else other.model
        captions.setdefault(" / ".join(main_texts(samples.rows([sample])[0])), []).append(name)
        heads |= {metric: label(other, metric) for metric in samples.metrics if metric not in heads}
        rows.append({
            "name": name, "scores": {metric: shown_number(samples, metric, sample) for metric in samples.metrics},
            "to": address("runs", other.key, "samples", sample),
            "compare": "" if other.key == run.key else site.comparison(run, other),
        })  # fmt: skip
    marked = mark_words(list(captions), texts_of(row.get("references")))
    shown = {
        "heads": heads,
        "rows": rows,
        "captions": [(", ".join(names), parts) for names, parts in zip(captions.values(), marked, strict=True)],
        "most": MOST_RUNS if models.total() > MOST_RUNS else 0,
    }
    return shown if len(rows) > 1 else None


def _matches(run: ShownRun, samples: RunSamples, metric: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return template values of the matches of a metric, or of the reason why there are none."""
    shown = {"label": label(run, metric), "anchor": _anchor(samples, metric), "explained": None, "fault": ""}
    try:
        return shown | {"explained": explain(run.record, metric, row)}
    except BenchError as error:
        return shown | {"fault": error.in_one_line}


def _anchor(samples: RunSamples, metric: str) -> str:
    return f"matches-{samples.metrics.index(metric)}"


def _whole(
    site: Site, run: ShownRun, samples: RunSamples, sample: int, row: Mapping[str, Any], state: ListState
) -> dict[str, Any]:
    """Return template values for everything that the run recorded of a sample."""
    shown = summary(site, run, samples, sample, row)
    named_texts = [(title, texts_of(row[name])) for name, title in TITLES.items() if row.get(name)]
    explainable = isinstance(row.get("candidate"), str) and bool(row.get("references"))
    for score in shown["scores"]:
        name = score["name"]
        rank = samples.rank(name, sample, rising=not run.record.higher_is_better(name))
        score["rank"] = _rank_text(*rank) if rank else "–"
        score["to"] = address("runs", run.key, "samples", sort=name)
        why = explainable and rank is not None and can_explain(run.record, name)
        page = address("runs", run.key, "samples", sample, **state.values(), matches=name)
        score["why"] = f"{page}#{_anchor(samples, name)}" if why else ""
        score["directed"] = run.record.has_direction(name)
    known = {"id", "image", "failure", *TITLES, *samples.metrics}
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
    known = samples.sortable
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
            "text": next(iter(main_texts(row)), ""),
            "x": shown_number(samples, x, sample),
            "y": shown_number(samples, y, sample),
        }
        for sample, row in zip(far, samples.rows(far), strict=True)
    ]
