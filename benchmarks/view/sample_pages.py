"""The pages of a sample with the explanation of a score, and the scatter plot of samples."""

import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ...boundary import Boundary
from ...errors import BenchError, MetricError
from ...metrics import Context, Items, Need, State
from ...metrics.cider import Cider
from ...metrics.contract import PARSEABLE
from ...tasks.schema import MetricEntry
from ..explaining.explain import EXPLAINERS
from ..explaining.explain import explain as explained
from ..explaining.explanations import ScoreExplanation
from ..inputs.settings import read_metric
from ..inputs.task_images import NoPicture, Picture
from ..records.record import Record
from ..running.planned_metrics import PlannedMetric, in_language, plan_metric
from ..store.store import Store, parse_store
from ..tables.pages.charts import scatter
from ..tables.text import texts_of
from .compare_pages import pair_address, place_in_comparison
from .filters import METRICS_DISAGREE, MODELS_DISAGREE, column_name
from .finding import ShownRun, comparable
from .sample_list import (
    MOST_RUNS,
    TITLES,
    SampleList,
    directed,
    label,
    main_texts,
    rank_text,
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
    if metric and (metric not in samples.metrics or run.record.registered_name(metric) not in EXPLAINERS):
        raise NoSuchPageError(f"metric '{metric}' is not explained")
    place = {"kept": {}} | listed.place_of(sample, metric) | place_in_comparison(site, key, sample, query)
    shown = _whole(site, run, samples, sample, row, state.values() | place["kept"])
    image = site.pictures.read(run, str(row["id"]), row.get("image"))
    return site.render(
        "sample.html", run=run, shown=shown, no_picture=image if isinstance(image, NoPicture) else None, **place,
        matches=[_matches(run, samples, metric, row)] if metric else [], matches_of=metric,
        models=_of_models(listed, sample, row, metric or state.sort),
    )  # fmt: skip


def _of_models(listed: SampleList, at: int, row: Mapping[str, Any], by: str) -> dict[str, Any] | None:
    """Return template values of a sample in every run of its task, this one first; None if no other run has it.

    Links keep filter and order, and those to its place in comparisons the metric ``by``, where the other run has it.
    """
    site, run, state = listed.site, listed.run, listed.state
    rows: list[dict[str, Any]] = []
    heads: dict[str, str] = {}
    captions: dict[str, list[str]] = {}
    models = Counter(other.model for other in [run, *comparable(run, site.runs.all()[0])])
    for other, samples in runs_of_task(site, run):
        sample = samples.find(str(row["id"]))
        if sample is None:
            continue
        x = by if by in samples.metrics else ""
        orders = [*samples.sortable, MODELS_DISAGREE]
        orders += [METRICS_DISAGREE] if len(directed(other, samples)) > 1 else []
        kept = state if state.sort in orders else replace(state, sort="", descending=False)
        name = other.name if models[other.model] > 1 else other.model
        captions.setdefault(" / ".join(main_texts(samples.rows([sample])[0])), []).append(name)
        heads |= {metric: label(other, metric) for metric in samples.metrics if metric not in heads}
        rows.append({
            "name": name, "scores": {metric: shown_number(samples, metric, sample) for metric in samples.metrics},
            "to": address("runs", other.key, "samples", sample, **kept.values()),
            "compare": "" if other.key == run.key else pair_address(at, a=run.key, b=other.key, x=x),
        })  # fmt: skip
    marked = mark_words(list(captions), texts_of(row.get("references")))
    shown = {
        "heads": heads, "rows": rows, "most": MOST_RUNS if models.total() > MOST_RUNS else 0,
        "captions": [(", ".join(names), parts) for names, parts in zip(captions.values(), marked, strict=True)],
    }  # fmt: skip
    return shown if len(rows) > 1 else None


def _matches(run: ShownRun, samples: RunSamples, metric: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return template values of the matches of a metric, or of the reason why there are none."""
    shown = {"label": label(run, metric), "anchor": _anchor(samples, metric), "explained": None, "fault": ""}
    try:
        return shown | {"explained": explain(run.record, metric, row, samples)}
    except BenchError as error:
        return shown | {"fault": error.in_one_line}


def _anchor(samples: RunSamples, metric: str) -> str:
    return f"matches-{samples.metrics.index(metric)}"


def _whole(
    site: Site, run: ShownRun, samples: RunSamples, sample: int, row: Mapping[str, Any], kept: Mapping[str, Any]
) -> dict[str, Any]:
    """Return template values for everything that the run recorded of a sample; links to matches keep parameters."""
    shown = summary(site, run, samples, sample, row)
    named_texts = [(title, texts_of(row[name])) for name, title in TITLES.items() if row.get(name) not in (None, [])]
    explainable = isinstance(row.get("candidate"), str) and bool(row.get("references"))
    for score in shown["scores"]:
        name = score["name"]
        rank = samples.rank(name, sample)
        score["rank"] = rank_text(*rank) if rank else "–"
        score["to"] = address("runs", run.key, "samples", sort=name)
        why = explainable and rank is not None and run.record.registered_name(name) in EXPLAINERS
        page = address("runs", run.key, "samples", sample, **kept, matches=name)
        score["why"] = f"{page}#{_anchor(samples, name)}" if why else ""
        score["directed"] = run.record.has_direction(name)
    known = {"id", "image", "failure", *TITLES, *samples.metrics}
    there = [
        name for name in samples.columns if name not in known and row[name] is not None and row[name] not in ("", [])
    ]
    # A choice has a system and scores of each caption.
    of_caption = [name for name in there if row.get("shares") and name.partition(".")[0] in ("systems", "scores")]
    labels = {name: run.record.metric_label(name.removeprefix("scores.")) for name in of_caption}
    choice = {"preferred": row.get("preferred"), "shares": row.get("shares") or ()}
    choice["notes"] = [(labels[name], list(map(_fact, row[name]))) for name in of_caption]
    facts = [(name, _fact(row[name])) for name in there if name not in (*choice, *of_caption)]
    return shown | {"image": row.get("image") or "–", "named_texts": named_texts, "facts": facts, "choice": choice}


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join("–" if item is None else _fact(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def picture(site: Site, key: str, text: str) -> Picture | NoPicture:
    """Return the image of a sample, or why there is none.

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
    # A sample of two metrics has its place in their comparison.
    of_metrics = run.record.protocol.subject == "metric" and {x, y} <= run.record.made_by.keys()
    pair = {"a": key, "b": key, "x": x, "y": y} if of_metrics and x != y else {}
    signs = {name: ">=" if run.record.higher_is_better(name) else "<=" for name in (x, y)}
    halves = {name: f"{column_name(name)} {signs[name]} {np.nanmedian(samples.numbers(name)):.6g}" for name in signs}
    far = {x: most_apart(by_x, by_y, _FAR), y: most_apart(by_y, by_x, _FAR)}
    return site.render(
        "scatter.html", run=run, x=x, y=y, labels={name: label(run, name) for name in known}, drawing=drawn,
        halves=halves, to=partial(address, "runs", key, "samples", **pair),
        ids=samples.column("id").take(np.array([sample for sample, *_ in drawn.points], int)).to_pylist(),
        far=[(name, list(_far(run, samples, (x, y), rows))) for name, rows in far.items()],
    )  # fmt: skip


def _far(run: ShownRun, samples: RunSamples, axes: Sequence[str], far: Sequence[int]) -> Iterator[dict[str, Any]]:
    for sample, row in zip(far, samples.rows(far), strict=True):
        places = [
            f"{label(run, name)} {shown_number(samples, name, sample)}, rank {rank_text(*rank)}"
            for name in axes
            if (rank := samples.rank(name, sample))
        ]
        yield {"id": str(row["id"]), "sample": sample, "text": next(iter(main_texts(row)), ""), "places": places}


_SAME = 1e-6
"""Maximum difference between explained and recorded score."""
_MOST_CHARACTERS, _MOST_COUNTED = 10 * PARSEABLE, 200_000
"""Of the texts of a sample that is explained, and samples of a run whose n-grams are counted."""
_LOCK = threading.Lock()


def explain(record: Record, metric: str, row: Mapping[str, Any], samples: RunSamples | None = None) -> ScoreExplanation:
    """Return the explanation of a score, by the metric's own matching, which must give the recorded score. Thread-safe.

    Nothing that a record names is fetched, run as code, or read outside of the folders that the user allows.

    Args:
        record: The run's record.
        metric: Name of a metric in the run.
        row: The sample.
        samples: All samples of the run, whose references decide the weights of CIDEr.

    Raises:
        BenchError: The sample has no single caption with references, a requirement is missing on this machine or not
            allowed, or the recomputed score differs.
    """
    candidate, references, score = row.get("candidate"), row.get("references"), row.get(metric)
    if not isinstance(candidate, str) or not references:
        raise MetricError("cannot explain: the sample has no caption with references")
    if score is None or not math.isfinite(score):
        raise MetricError("cannot explain: the sample has no score of this metric")
    if sum(map(len, (candidate, *references))) > _MOST_CHARACTERS:
        raise MetricError(f"cannot explain: caption and references have more than {_MOST_CHARACTERS:,} characters")
    named: dict[str, Any] = {} if row.get("objects") is None else {"objects": [frozenset(row["objects"])]}
    items = Items(["0"], [candidate], [tuple(references)], np.ones(1), **named)
    with _LOCK, Store(parse_store(None).file) as store:
        planned = _planned(record, metric, {"references", *named})
        cider = planned.metric if isinstance(planned.metric, Cider) and planned.metric.corpus_dependent else None
        state = _frequencies(samples, cider.tokenizer) if samples and cider else None
        explanation = explained(planned, items, Context(cache=store), state)
    if abs(explanation.value - score) > _SAME:
        raise MetricError(
            f"cannot explain: the recomputed score is {explanation.value:.4f}, but the recorded score is {score:.4f}",
            "Models, word lists or versions differ. Run the task again on this machine.",
        )
    return explanation


def _planned(record: Record, metric: str, offers: Set[str]) -> PlannedMetric:
    """Return a metric that needs no other columns, with the settings of the run, from the task or the metric's name.

    Raises:
        BenchError: The settings cannot be read or are not allowed, or the metric lacks something.
    """
    listed = record.config.get("metric_list", [])
    try:
        entries = [MetricEntry.model_validate({"metric": item} if isinstance(item, str) else item) for item in listed]
    except ValueError as error:
        raise BenchError(f"cannot read the settings of metric '{metric}': {error}") from error
    entry = next((entry for entry in entries if entry.called == metric), None) or read_metric(metric)
    if entry.metric not in EXPLAINERS:
        raise MetricError(f"metric '{metric}' is not explained: its settings are of '{entry.metric}'")
    entry = in_language(entry, str(record.config.get("language", "en")))
    Boundary.around().require(entry.arguments, f"metric '{metric}'", Path.cwd())
    planned = _plan(entry.model_dump_json(exclude_defaults=True))
    if needs := planned.metric.needs - offers:
        raise MetricError(
            f"{planned.metric.label} needs {', '.join(sorted(needs))}, which the samples of this run do not have",
            f"'bench explain --task {record.task} --sample ID --metric NAME' explains it.",
        )
    return planned


@lru_cache(8)
def _plan(entry: str) -> PlannedMetric:
    """Return a metric of an entry, as JSON; it keeps what it loads. Raises if it lacks something on this machine."""
    planned = plan_metric(MetricEntry.model_validate_json(entry), frozenset(get_args(Need)))
    planned.require()
    return planned


@lru_cache(4)
def _frequencies(samples: RunSamples, tokenizer: str) -> State:
    """Return the document frequencies of the n-grams in the references of a run's samples.

    Raises:
        MetricError: The run has too many.
    """
    if len(samples) > _MOST_COUNTED:
        raise MetricError(f"cannot explain: the n-grams of more than {_MOST_COUNTED:,} samples are not counted here")
    cider = Cider(tokenizer=tokenizer)
    columns = [samples.column(name).to_pylist() for name in ("references", *samples.rated)]
    rows = [
        (tuple(references), max((sum(rating is not None for rating in each or ()) for each in rated), default=1))
        for references, *rated in zip(*columns, strict=True)
        if references
    ]
    states: list[State] = []
    for start in range(0, len(rows), 10_000):
        references, weights = zip(*rows[start : start + 10_000], strict=True)
        blank = [""] * len(references)
        states.append(cider.state_map(Items(blank, blank, references, np.array(weights, np.float64)), Context()))
    return cider.condense(cider.join([cider.merge(states)]))
