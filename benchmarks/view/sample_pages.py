"""The pages of a sample with the matches of CAPTURE and METEOR, and the scatter plot of samples."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ...errors import BenchError, MetricError
from ...tasks.schema import MetricEntry
from ..explaining.explanations import HOWS as CAPTURE_HOWS
from ..explaining.explanations import ReferenceMatches, TextSpan, reference_matches
from ..inputs.settings import read_metric
from ..inputs.task_images import NoPicture, Picture
from ..records.record import Record
from ..tables.pages.charts import Scatter, scatter
from ..tables.text import texts_of
from .finding import ShownRun, comparable
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

if TYPE_CHECKING:
    from ...metrics.capture.metric import Capture
    from ...metrics.meteor.metric import Alignment

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
    image = site.pictures.read(run, str(row["id"]), row.get("image"))
    return site.render(
        "sample.html",
        run=run,
        shown=shown,
        no_picture=image if isinstance(image, NoPicture) else None,
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


METEOR_HOWS: Mapping[str, str] = {
    "exact": "the same word",
    "stem": "the same stem",
    "synonym": "synonyms",
    "paraphrase": "paraphrases, of one word or several",
}
_SAME = 1e-6
"""Maximum difference between explained and recorded score; both are from 0 to 1."""


@dataclass(frozen=True)
class SampleExplanation:
    """Explanation of a score.

    Attributes:
        hows: Types of matches, each with its meaning.
        method: How the score is aggregated over references.
        of_references: Matches with each reference.
    """

    hows: Mapping[str, str]
    method: str
    of_references: Sequence[ReferenceMatches]


_Explained = tuple[SampleExplanation, float]
"""An explanation, and the recomputed score."""


def can_explain(record: Record, metric: str) -> bool:
    """Return whether matches of a metric can be explained, given its requirements are installed."""
    return record.registered_name(metric) in _EXPLAINERS


def explain(record: Record, metric: str, row: Mapping[str, Any]) -> SampleExplanation:
    """Return the matches of a metric in a sample, by its own matching, which must give the recorded score. Thread-safe.

    Args:
        record: The run's record.
        metric: Name of CAPTURE or METEOR in the run.
        row: The sample.

    Raises:
        BenchError: The sample has no single caption with references, a requirement is missing on this machine, or the
            recomputed score differs.
    """
    candidate, references, score = row.get("candidate"), row.get("references"), row.get(metric)
    if not isinstance(candidate, str) or not references:
        raise MetricError("cannot explain: the sample has no caption with references")
    if score is None or not math.isfinite(score):
        raise MetricError("cannot explain: the sample has no score of this metric")
    with _LOCK:
        explanation, value = _EXPLAINERS[record.registered_name(metric)](record, metric, candidate, references)
    if abs(value - score) > _SAME:
        raise MetricError(
            f"cannot explain: the recomputed score is {value:.4f}, but the recorded score is {score:.4f}",
            "Models, word lists or versions differ. Run the task again on this machine.",
        )
    return explanation


def _capture_matches(record: Record, metric: str, candidate: str, references: Sequence[str]) -> _Explained:
    from ...metrics import Context
    from ..store.store import Store, parse_store

    with Store(parse_store(None).file) as store:
        scorer = _capture(_entry(record, metric).model_dump_json(exclude_defaults=True))
        matches = scorer.explain(candidate, references, Context(cache=store))
    parts = [reference_matches(candidate, *pair) for pair in zip(references, matches, strict=True)]
    method = f"the mean over references of {_what_capture_is(scorer)}"
    hows = {str(how): meaning for how, meaning in CAPTURE_HOWS.items()}
    return SampleExplanation(hows, method, parts), sum(match.value for match in matches) / len(matches)


def _meteor_matches(record: Record, metric: str, candidate: str, references: Sequence[str]) -> _Explained:
    from ...metrics.meteor.metric import explain

    alignments = explain(candidate, references)
    explanation = SampleExplanation(METEOR_HOWS, "the maximum over references", list(map(_of_meteor, alignments)))
    return explanation, max(alignment.value for alignment in alignments)


_EXPLAINERS = {"capture": _capture_matches, "meteor": _meteor_matches}
_LOCK = threading.Lock()


@cache
def _capture(entry: str) -> Capture:
    """Return CAPTURE with the settings of a metric, as JSON."""
    from ...metrics.capture.metric import Capture
    from ..running.planned_metrics import plan_metric

    planned = plan_metric(MetricEntry.model_validate_json(entry), frozenset({"references"}))
    if planned.error:
        message, _, hint = planned.error.partition("\n")
        raise MetricError(message, hint)
    if not isinstance(planned.metric, Capture):
        raise MetricError("the metric is not capbench's CAPTURE")
    return planned.metric


def _entry(record: Record, metric: str) -> MetricEntry:
    """Return a metric with the settings of the run, from the task or from the metric's name.

    Raises:
        BenchError: The settings cannot be read.
    """
    listed = record.config.get("metric_list", [])
    try:
        entries = [MetricEntry.model_validate({"metric": item} if isinstance(item, str) else item) for item in listed]
    except ValueError as error:
        raise BenchError(f"cannot read the settings of metric '{metric}': {error}") from error
    return next((entry for entry in entries if entry.called == metric), None) or read_metric(metric)


def _what_capture_is(scorer: Capture) -> str:
    kind, _, name = scorer.of.rpartition("_")
    spelled = name.capitalize() if name == "f1" else name
    if kind:
        return f"the {spelled} of {kind}s"
    weights = " : ".join(f"{weight:g}" for weight in scorer.weights.values())
    return f"the {spelled} of objects, attributes and relations, weighted {weights}"


def _of_meteor(alignment: Alignment) -> ReferenceMatches:
    spans: list[list[TextSpan]] = []
    counts: dict[str, str] = {}
    for name, words, places in (
        ("caption", alignment.candidate, [(pair.candidate, pair.how) for pair in alignment.aligned]),
        ("reference", alignment.reference, [(pair.reference, pair.how) for pair in alignment.aligned]),
    ):
        spans.append(list(_marked(words, places)))
        counts[f"aligned words of the {name}"] = f"{sum(end - start for (start, end), _ in places)} of {len(words)}"
    return ReferenceMatches(alignment.value, spans[0], spans[1], counts | {"chunks": str(alignment.chunks)})


def _marked(words: Sequence[str], places: Sequence[tuple[tuple[int, int], str]]) -> Iterator[Any]:
    """Yield spans of unmarked words and marked phrases."""
    end = 0
    for (start, stop), how in sorted(places):
        if start > end:
            yield TextSpan(" ".join(words[end:start]) + " ", None)
        yield TextSpan(" ".join(words[start:stop]), how)  # type: ignore[arg-type]
        yield TextSpan(" ", None)
        end = stop
    if end < len(words):
        yield TextSpan(" ".join(words[end:]), None)
