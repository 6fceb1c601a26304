"""The page of a run: everything that its record says, and the ends of its samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...protocols.results import Result
from ...published.values import load, papers
from ...records.entries import PublishedValue
from ...records.record import Record
from ..board import Board, BoardRun
from .charts import bubbles, score_histogram
from .markup import date, document, facts, ident, link, marks, model_of, number, scrolling, text
from .samples import Sample, ends_of_run


def run_page(run: BoardRun, board: Board) -> bytes:
    """Return the page of a run.

    Args:
        run: The run.
        board: The leaderboard, whose table of the task the page links back to.
    """
    record = run.record
    alias = record.alias
    sections = [
        ("results", "Results", _results(run)),
        ("significance", "Significance groups", _significance(record)),
        ("scores", "Scores of single captions", _charts(record)),
        ("samples", "Samples", _samples(run)),
        ("failures", "Failures and remarks", _failures(record)),
        ("checks", "Data checks", _checks(record)),
        ("settings", "Settings", _settings(run)),
        (
            "protocol",
            "Protocol",
            facts(_words({"output_type": record.output_type, **record.protocol_choices})),
        ),
        ("environment", "Environment and timings", _environment(record)),
    ]
    shown = [(name, head, body) for name, head, body in sections if body]
    main = "".join(
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{head}</h2>{body}</section>\n'
        for name, head, body in shown
    )
    contents = "".join(f'<li><a href="#{name}">{head}</a></li>' for name, head, _ in shown)
    back = link(_back(record, board), "Back to the leaderboard")
    body = (
        '<a class="skip" href="#main">Skip to the results</a>\n'
        '<header class="top"><div class="narrow"><div class="bar"><a class="brand" href="../index.html">capbench</a>'
        '<button type="button" class="button theme" id="theme">Theme</button></div>'
        f'<p class="small">{back}</p><h1>{text(alias)}</h1>'
        f'<p class="lead">{text(model_of(run))}, {date(run)} UTC</p>{marks(run.marks)}</div></header>\n'
        f'<div class="frame narrow"><nav class="contents" aria-label="Contents"><ul>{contents}</ul></nav>'
        f'<main id="main" tabindex="-1">\n{main}</main></div>\n'
        f'<footer class="foot"><div class="narrow">{back}</div></footer>'
    )
    return document(f"{alias}, {model_of(run)}: capbench", body)


def _back(record: Record, board: Board) -> str:
    version = str(record.version)
    found = [one.anchor for one in board.tables if (one.task, str(one.version)) == (record.task, version)]
    return f"../index.html#task-{ident(found[0])}" if found else "../index.html"


def _results(run: BoardRun) -> str:
    results = run.record.results
    reasons = {key: _reason(result) for key, result in results.items()}
    remarks = any(reasons.values())
    rows = "".join(
        f"<tr>{_result(result, run.record.published.get(key))}"
        f"{f'<td>{text(reasons[key])}</td>' if remarks else ''}</tr>\n"
        for key, result in results.items()
    )
    heads = ["Metric", "Statistic", "Value", "Interval", "Published", "Difference", "Paper", "n"]
    heads += ["Remark"] if remarks else []
    sides = {"Value", "Interval", "Published", "Difference", "n"}
    top = "".join(f'<th scope="col"{" class=number" if head in sides else ""}>{head}</th>' for head in heads)
    scale = max((result.scale for result in results.values()), default=1)
    factor = f" Values are shown times {scale:g}, counts as they are." if scale != 1 else ""
    table = (
        f"<table><caption>{run.record.settings.level:.0%} {_kinds(results.values())}.{factor}</caption>"
        f"<thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>"
    )
    return scrolling("Results", table)


def _kinds(results: Iterable[Result]) -> str:
    """Return in words how the intervals of results were made."""
    made = {result.interval.method for result in results if result.interval}
    words = {"bootstrap": "bootstrap intervals", "influence": "intervals by influence functions"}
    return " and ".join(words[method] for method in sorted(made)) or words["bootstrap"]


def _reason(result: Result) -> str:
    """Return why a result has no value, or its value no interval; empty if it has both."""
    return result.reason or (result.interval.reason if result.interval else "")


def _result(result: Result, printed: PublishedValue | None) -> str:
    """Return the cells of a result but for its remark."""

    def shown(value: float, sign: bool = False) -> str:
        return number(value * result.scale, 2 if result.scale == 100 else 4, sign)

    value, interval = result.value, result.interval
    ends = "–"
    if interval and interval.low is not None and interval.high is not None:
        ends = f"[{shown(interval.low)}, {shown(interval.high)}]"
    gap = shown(value - printed.value, sign=True) if printed and value is not None else "–"
    paper = f"{text(_citation(printed.paper))}, Table {text(printed.table)}" if printed else "–"
    return (
        f'<th scope="row">{text(result.label[0])}</th><td>{text(result.label[1])}</td>'
        f'<td class="number">{"–" if value is None else shown(value)}</td>'
        f'<td class="number">{ends}</td><td class="number">{text(printed.printed) if printed else "–"}</td>'
        f'<td class="number">{gap}</td><td>{paper}</td><td class="number">{result.n:,}</td>'
    )


def _citation(paper: str) -> str:
    return load(paper).citation if paper in papers() else paper


def _significance(record: Record) -> str:
    parts = []
    for statistic, one in record.significance.items():
        rows = "".join(
            f'<tr><th scope="row">{text(record.metric_label(metric))}</th><td>{text(letters)}</td></tr>'
            for metric, letters in one.groups.items()
        )
        caption = (
            f"{statistic}: metrics that share a letter do not differ at {one.alpha} "
            f"({one.resamples} paired resamples, seed {one.seed}, Holm)"
        )
        parts.append(
            scrolling(
                f"Significance groups by {statistic}",
                f'<table><caption>{text(caption)}</caption><thead><tr><th scope="col">Metric</th>'
                f'<th scope="col">Groups</th></tr></thead><tbody>{rows}</tbody></table>',
            )
        )
    return "".join(parts)


def _charts(record: Record) -> str:
    parts = []
    for place, (metric, one) in enumerate(record.histograms.items()):
        label = record.metric_label(metric)
        charts = score_histogram(label, one, f"score-{place}")
        if one.ratings:
            charts += bubbles(f"{label} by rating", one, f"rating-{place}", full=True)
        if one.word_counts:
            charts += bubbles(f"{label} by length", one, f"words-{place}", by="by_words", full=True)
        parts.append(f'<h3 class="hidden-text">{text(label)}</h3><div class="charts">{charts}</div>')
    return "".join(parts)


def _samples(run: BoardRun) -> str:
    parts = []
    for metric, ends in ends_of_run(run).items():
        label = text(run.record.metric_label(metric))
        lists = "".join(
            f'<div><h4>{head} by {label}</h4><ol class="samples">{"".join(map(_sample, samples))}</ol></div>'
            for head, samples in (("Highest", ends.highest), ("Lowest", ends.lowest))
        )
        parts.append(f'<h3>{label}</h3><div class="pair">{lists}</div>')
    return "".join(parts)


def _sample(sample: Sample) -> str:
    picture = ""
    if sample.picture:
        picture = f'<img src="{sample.picture}" alt="Picture of sample {text(sample.id)}" loading="lazy">'
    captions = "".join(f"<p>{text(one)}</p>" for one in sample.captions.get("candidate", ()))
    if candidates := sample.captions.get("candidates"):
        captions += f"<p>Candidates:</p>{_listed(candidates)}"
    if references := sample.captions.get("references"):
        captions += (
            f"<details><summary>{len(references)} reference{'s' if len(references) > 1 else ''}"
            f'<span class="hidden-text"> of {text(sample.id)}</span></summary>{_listed(references)}</details>'
        )
    return (
        f'<li><span class="score">{number(sample.score, 4)}</span><div><code>{text(sample.id)}</code>'
        f"{picture}{captions}</div></li>\n"
    )


def _listed(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(one)}</li>' for one in texts)}</ul>"


def _failures(record: Record) -> str:
    rows = [("metric", metric, "all", reason, "") for metric, reason in record.metric_errors.items()]
    rows += [("left out", metric, "all", reason, "") for metric, reason in record.metrics_left_out.items()]
    for kind, summaries in (
        ("failure", record.failures),
        ("counted as empty", record.coverage.empty),
        ("remark", record.remarks),
    ):
        rows += [
            (kind, one["stage"], f"{one['count']:,}", one["reason"], ", ".join(one["samples"][:5]))
            for one in summaries
        ]
    facts_ = ""
    if record.ruled_out:
        facts_ = (
            f"<p>{record.ruled_out:,} rated captions are references of their own image and were left out.</p>"
        )
    if not rows:
        return facts_ or "<p>None.</p>"
    body = "".join(
        f'<tr><th scope="row">{text(first)}</th>{"".join(f"<td>{text(one)}</td>" for one in rest)}</tr>\n'
        for first, *rest in rows
    )
    heads = "".join(
        f'<th scope="col">{one}</th>' for one in ("Kind", "Where", "Count", "Reason", "First ones")
    )
    table = (
        "<table><caption>What could not be used, and what was done to use the rest</caption><thead>"
        f"<tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )
    return facts_ + scrolling("Failures and remarks", table)


def _checks(record: Record) -> str:
    found = record.data_checks
    if not found:
        return "<p>The task checks nothing of its data.</p>"
    body = "".join(
        f'<tr><th scope="row">{text(one.check)}</th><td class="number">{text(one.expected)}</td>'
        f'<td class="number">{text(_plain(one.found))}</td><td>{"passed" if one.passed else "failed"}</td></tr>\n'
        for one in found
    )
    table = (
        '<table><caption>What the task expects of its data</caption><thead><tr><th scope="col">Check</th>'
        '<th scope="col" class="number">Expected</th><th scope="col" class="number">Found</th>'
        f'<th scope="col">Verdict</th></tr></thead><tbody>{body}</tbody></table>'
    )
    return scrolling("Data checks", table)


def _settings(run: BoardRun) -> str:
    record = run.record
    entries: dict[str, object] = {
        "run": run.key,
        "task": f"{record.task}, version {record.version}",
        "documents": f"{record.documents.effective} of {record.documents.original}",
        "data": record.data_origin,
        **_words(record.settings.values),
        "captions cut": _plain({name: one.to_json() for name, one in record.truncation.items()}),
        "generation": _plain(record.generation),
        "git": record.git_hash,
        "fingerprint": record.fingerprint,
        "checksum": record.checksum,
    }
    metrics = record.made_by
    return f"{facts(entries)}<h3>Metrics</h3>{facts(_words(metrics))}" if metrics else facts(entries)


def _environment(record: Record) -> str:
    timings, environment = record.timings, record.environment
    seconds = {f"{name}, seconds": value for name, value in timings.steps.items()}
    seconds |= {f"{name}, seconds": value for name, value in timings.metrics.items()}
    store = {f"store, {name}": value for name, value in record.store.items()}
    software = _words({**environment.machine, **environment.libraries})
    return (
        f'<div class="pair"><div><h3>Software and machine</h3>{facts(software)}</div>'
        f"<div><h3>Timings</h3>{facts(_words({**seconds, **store}))}</div></div>"
    )


def _words(entries: Mapping[str, Any]) -> dict[str, object]:
    return {str(name): _plain(value) for name, value in entries.items()}


def _plain(value: Any) -> object:
    """Return a value of a record in words: nested ones as ``name: value``, none as an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(
            f"{name}: {_plain(one) if one is not None else 'none'}" for name, one in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join(str(_plain(one)) for one in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
