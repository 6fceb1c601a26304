"""The page of a run: everything that its record says, and the ends of its samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...protocols.results import Result
from ...published.values import load, papers
from ...records.record import Record
from ...tables.failure_rows import failure_rows
from ...tables.pages.rendering import difference, number
from ...tables.results import decimals_of
from ..board import Board, BoardRun
from .charts import Chart, bubbles, score_histogram
from .names import address, date, model_of, task_id
from .rendering import rendered
from .samples import CAPTION_COLUMNS, Sample, ends_of_run

_WORDS = "length"
"""The metric that is the number of words, and says nothing by that number."""


def run_page(run: BoardRun, board: Board) -> bytes:
    """Return the page of a run.

    Args:
        run: The run.
        board: The leaderboard, whose table of the task the page links back to.
    """
    record = run.record
    results = [_result(record, key) for key in record.results]
    return rendered(
        "run.html",
        up="../",
        back=address(_back(record, board)),
        alias=record.alias,
        model=model_of(run),
        began=date(run),
        marks=run.marks,
        results=results,
        with_interval=any(one.interval for one in results),
        with_letters=any(one.letters for one in results),
        with_printed=any(one.printed for one in results),
        with_remark=any(one.remark for one in results),
        caption=_caption(record),
        tested=_tested(record) if any(one.letters for one in results) else [],
        charts=_charts(record),
        samples=_samples(run),
        failures=failure_rows(record),
        ruled_out=record.ruled_out,
        checks=[(one.check, one.expected, _plain(one.found), one.passed) for one in record.data_checks],
        settings=_settings(run),
        metrics=_facts(record.made_by),
        protocol=_facts({"output_type": record.output_type, **record.protocol_choices}),
        software=_facts({**record.environment.machine, **record.environment.libraries}),
        timings=_timings(record),
    )


def _back(record: Record, board: Board) -> str:
    version = str(record.version)
    for table in board.tables:
        if table.task == record.task and str(table.version) == version:
            return f"../index.html#{task_id(table)}"
    return "../index.html"


def _caption(record: Record) -> str:
    results = record.results.values()
    scale = max((result.scale for result in results), default=1)
    factor = f" Values are shown times {scale:g}, counts as they are." if scale != 1 else ""
    return f"{record.settings.level:.0%} {_kinds(results)}.{factor}"


def _kinds(results: Iterable[Result]) -> str:
    """Return in words how the intervals of results were made."""
    made = {result.interval.method for result in results if result.interval}
    words = {"bootstrap": "bootstrap intervals", "influence": "intervals by influence functions"}
    return " and ".join(words[method] for method in sorted(made)) or words["bootstrap"]


def _reason(result: Result) -> str:
    """Return why a result has no value, or its value no interval; empty if it has both."""
    return result.reason or (result.interval.reason if result.interval else "")


class _Row(NamedTuple):
    """A row of the table of results; what it does not have is empty."""

    metric: str
    statistic: str
    value: str
    interval: str
    letters: str
    printed: str
    gap: str
    paper: str
    n: str
    remark: str


def _result(record: Record, key: str) -> _Row:
    result, printed = record.results[key], record.published.get(key)
    scale, decimals = result.scale, decimals_of(result)
    value, interval = result.value, result.interval
    ends = ""
    if interval and interval.low is not None and interval.high is not None:
        ends = f"[{number(interval.low * scale, decimals)}, {number(interval.high * scale, decimals)}]"
    return _Row(
        *result.label,
        "–" if value is None else number(value * scale, decimals),
        ends,
        record.letters(result),
        printed.printed if printed else "",
        difference((value - printed.value) * scale, decimals) if printed and value is not None else "",
        f"{_citation(printed.paper)}, Table {printed.table}" if printed else "",
        f"{result.n:,}",
        _reason(result),
    )


def _citation(paper: str) -> str:
    return load(paper).citation if paper in papers() else paper


def _tested(record: Record) -> list[str]:
    """Return how the letters were made: once a setting, with the statistics that it was made for."""
    labels = {result.statistic: result.label[1] for result in record.results.values()}
    found: dict[str, list[str]] = {}
    for statistic, one in record.significance.items():
        how = f"{one.alpha} ({one.resamples:,} paired resamples, seed {one.seed}, Holm)"
        found.setdefault(how, []).append(labels.get(statistic, statistic))
    return [
        f"Metrics that share a letter by {', '.join(statistics)} do not differ at {how}."
        for how, statistics in found.items()
    ]


def _charts(record: Record) -> list[tuple[str, list[Chart]]]:
    """Return the drawings of each metric's scores."""
    drawn = []
    for place, (metric, one) in enumerate(record.histograms.items()):
        label = record.metric_label(metric)
        charts = [score_histogram(label, one, f"score-{place}")]
        if one.ratings:
            charts.append(bubbles(f"{label} by rating", one, f"rating-{place}", full=True))
        if one.word_counts and record.registered_name(metric) != _WORDS:
            charts.append(bubbles(f"{label} by length", one, f"words-{place}", by="by_words", full=True))
        drawn.append((label, charts))
    return drawn


def _samples(run: BoardRun) -> list[tuple[str, bool, list[_Sample]]]:
    """Return the samples at either end, each once, those first that are there by most metrics.

    Returns:
        Name of the end, whether references are open there (the lowest say most), and its samples.
    """
    ends = ends_of_run(run)
    if not ends:
        return []
    lowest = {metric: one.lowest for metric, one in ends.items()}
    highest = {metric: one.highest for metric, one in ends.items()}
    return [("Lowest", True, _once(run.record, lowest)), ("Highest", False, _once(run.record, highest))]


class _Sample(NamedTuple):
    """A sample at an end of some metrics, with what each gave it."""

    id: str
    picture: str
    scores: list[tuple[str, str]]
    candidate: Sequence[str] | None
    candidates: Sequence[str] | None
    references: Sequence[str] | None


def _once(record: Record, by_metric: Mapping[str, Iterable[Sample]]) -> list[_Sample]:
    found: dict[str, _Sample] = {}
    for metric, samples in by_metric.items():
        label = record.metric_label(metric)
        for one in samples:
            if one.id not in found:
                found[one.id] = _Sample(one.id, one.picture, [], *map(one.captions.get, CAPTION_COLUMNS))
            found[one.id].scores.append((label, number(one.score, 4)))
    return sorted(found.values(), key=lambda one: -len(one.scores))


def _settings(run: BoardRun) -> list[tuple[str, object]]:
    record = run.record
    return _facts(
        {
            "run": run.key,
            "task": f"{record.task}, version {record.version}",
            "documents": f"{record.documents.effective} of {record.documents.original}",
            "data": record.data_origin,
            **record.settings.values,
            "captions cut": {name: one.to_json() for name, one in record.truncation.items()},
            "generation": record.generation,
            "git": record.git_hash,
            "fingerprint": record.fingerprint,
            "checksum": record.checksum,
        }
    )


def _timings(record: Record) -> list[tuple[str, object]]:
    timings = record.timings
    seconds = {f"{name}, seconds": value for name, value in {**timings.steps, **timings.metrics}.items()}
    return _facts({**seconds, **{f"store, {name}": value for name, value in record.store.items()}})


def _facts(entries: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return names and values of a record in words; an empty value is a dash."""
    return [(str(name), "–" if (shown := _plain(value)) == "" else shown) for name, value in entries.items()]


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
