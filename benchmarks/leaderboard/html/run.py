"""The page of a run: everything that its record says, and the ends of its samples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...published_values import load, papers
from ...recorded_results import metric_label, scale_of
from ..board import Board, BoardRun
from .charts import bubbles, histograms, score_histogram
from .markup import date, document, facts, ident, link, marks, model_of, number, scrolling, text
from .samples import Sample, ends_of_run


def run_page(run: BoardRun, board: Board) -> bytes:
    """Return the page of a run.

    Args:
        run: The run.
        board: The leaderboard, whose table of the task the page links back to.
    """
    record = run.record
    alias = str(record["task_alias"])
    sections = [
        ("results", "Results", _results(run)),
        ("significance", "Significance groups", _significance(record)),
        ("scores", "Scores of single captions", _charts(record)),
        ("samples", "Samples", _samples(run)),
        ("failures", "Failures and remarks", _failures(record)),
        ("checks", "Data checks", _checks(record)),
        ("settings", "Settings", _settings(run)),
        ("protocol", "Protocol", facts(_words(_protocol(record)))),
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


def _back(record: Mapping[str, Any], board: Board) -> str:
    version = str(record.get("versions", {}).get(record["task"]))
    found = [one.anchor for one in board.tables if (one.task, str(one.version)) == (record["task"], version)]
    return f"../index.html#task-{ident(found[0])}" if found else "../index.html"


def _results(run: BoardRun) -> str:
    record = run.record
    values = record["results"][record["task"]]
    published = record.get("published", {})

    def shown(value: Any, factor: float, sign: bool = False) -> str:
        decimals = 2 if factor == 100 else 4
        return number(value * factor, decimals, sign) if isinstance(value, int | float) else "–"

    def rows() -> Iterator[str]:
        for key, one in record["intervals"].items():
            value, scale = values.get(f"{key},none"), scale_of(record, one["metric"])
            printed = published.get(key)
            gap = where = ""
            if printed:
                where = f"{text(_citation(printed['paper']))}, Table {text(printed['table'])}"
                if value is not None:
                    gap = shown(value - printed["value"], scale, sign=True)
            interval = (
                f"[{shown(one['low'], scale)}, {shown(one['high'], scale)}]"
                if one["low"] is not None
                else "–"
            )
            names = [text(label) for label in one["label"]]
            reason = f"<td>{text(one['reason'])}</td>"
            yield (
                f'<tr><th scope="row">{names[0]}</th><td>{names[1]}</td><td class="number">{shown(value, scale)}</td>'
                f'<td class="number">{interval}</td><td class="number">'
                f"{text(printed['printed']) if printed else '–'}</td>"
                f'<td class="number">{gap or "–"}</td><td>{where or "–"}</td>'
                f'<td class="number">{one["n"]:,}</td>'
                f"{reason if remarks else ''}</tr>\n"
            )

    remarks = any(one["reason"] for one in record["intervals"].values())
    heads = ["Metric", "Statistic", "Value", "Interval", "Published", "Difference", "Paper", "n"]
    heads += ["Remark"] if remarks else []
    sides = {"Value", "Interval", "Published", "Difference", "n"}
    top = "".join(f'<th scope="col"{" class=number" if head in sides else ""}>{head}</th>' for head in heads)
    scales = {scale_of(record, one["metric"]) for one in record["intervals"].values()}
    factor = (
        f" Values are shown times {max(scales):g}, counts as they are." if max(scales, default=1) != 1 else ""
    )
    level = record.get("config", {}).get("level")
    interval = f"{level:.0%} bootstrap intervals." if isinstance(level, float) else "Bootstrap intervals."
    table = (
        f"<table><caption>{interval}{factor}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{''.join(rows())}</tbody></table>"
    )
    return scrolling("Results", table)


def _citation(paper: str) -> str:
    return load(paper).citation if paper in papers() else paper


def _significance(record: Mapping[str, Any]) -> str:
    found = record.get("significance") or {}
    parts = []
    for statistic, one in found.items():
        groups = one.get("groups", {})
        rows = "".join(
            f'<tr><th scope="row">{text(metric_label(record, metric))}</th><td>{text(letters)}</td></tr>'
            for metric, letters in groups.items()
        )
        caption = (
            f"{statistic}: metrics that share a letter do not differ at {one.get('alpha')} "
            f"({one.get('resamples')} paired resamples, seed {one.get('seed')}, Holm)"
        )
        parts.append(
            scrolling(
                f"Significance groups by {statistic}",
                f'<table><caption>{text(caption)}</caption><thead><tr><th scope="col">Metric</th>'
                f'<th scope="col">Groups</th></tr></thead><tbody>{rows}</tbody></table>',
            )
        )
    return "".join(parts)


def _charts(record: Mapping[str, Any]) -> str:
    parts = []
    for place, (metric, one) in enumerate(histograms(record).items()):
        label = metric_label(record, metric)
        charts = score_histogram(label, one, f"score-{place}")
        if one.ratings:
            charts += bubbles(f"{label} by rating", one, f"rating-{place}", full=True)
        if one.word_counts:
            charts += bubbles(f"{label} by length", one, f"words-{place}", by="words", full=True)
        parts.append(f'<h3 class="hidden-text">{text(label)}</h3><div class="charts">{charts}</div>')
    return "".join(parts)


def _samples(run: BoardRun) -> str:
    parts = []
    for metric, ends in ends_of_run(run).items():
        label = text(metric_label(run.record, metric))
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


def _failures(record: Mapping[str, Any]) -> str:
    rows = [("metric", one["metric"], "all", one["reason"], "") for one in record.get("metric_errors", ())]
    rows += [
        ("left out", metric, "all", reason, "")
        for metric, reason in record.get("metrics_left_out", {}).items()
    ]
    for kind, key in (("failure", "failures"), ("remark", "remarks")):
        rows += [
            (kind, one["stage"], f"{one['count']:,}", one["reason"], ", ".join(one["samples"][:5]))
            for one in record.get(key, ())
        ]
    facts_ = ""
    if ruled_out := record.get("ruled_out"):
        facts_ = f"<p>{ruled_out:,} rated captions are references of their own image and were left out.</p>"
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


def _checks(record: Mapping[str, Any]) -> str:
    found = record.get("data_checks", ())
    if not found:
        return "<p>The task checks nothing of its data.</p>"
    body = "".join(
        f'<tr><th scope="row">{text(one["check"])}</th><td class="number">{text(one["expected"])}</td>'
        f'<td class="number">{text(_plain(one["found"]))}</td><td>{"passed" if one["passed"] else "failed"}</td></tr>\n'
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
    task = record["task"]
    counts = record.get("n-samples", {}).get(task, {})
    entries: dict[str, object] = {
        "run": run.key,
        "task": f"{task}, version {record.get('versions', {}).get(task)}",
        "documents": f"{counts.get('effective')} of {counts.get('original')}",
        "data": record.get("data_origin"),
        **_words(record.get("config", {})),
        "captions cut": _plain(record.get("truncation")),
        "generation": _plain(record.get("generation")),
        "git": record.get("git_hash"),
        "fingerprint": record.get("fingerprint"),
        "checksum": record.get("checksum"),
    }
    metrics = record.get("fingerprint_parts", {}).get("metrics", {})
    return f"{facts(entries)}<h3>Metrics</h3>{facts(_words(metrics))}" if metrics else facts(entries)


def _protocol(record: Mapping[str, Any]) -> Mapping[str, Any]:
    task = record.get("fingerprint_parts", {}).get("task", {})
    return {"output_type": task.get("output_type"), **(task.get("protocol") or {})}


def _environment(record: Mapping[str, Any]) -> str:
    environment = dict(record.get("environment", {}))
    libraries = environment.pop("libraries", {})
    timings = dict(record.get("timings", {}))
    each = timings.pop("each_metric", {})
    seconds = {f"{name}, seconds": value for name, value in timings.items()}
    seconds |= {f"{name}, seconds": value for name, value in each.items()}
    store = {f"store, {name}": value for name, value in record.get("store", {}).items()}
    return (
        f'<div class="pair"><div><h3>Software and machine</h3>{facts(_words({**environment, **libraries}))}</div>'
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
