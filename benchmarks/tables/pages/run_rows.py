"""Rows of a run's pages: its results, failures and remarks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...published.values import citation
from ...records.record import Record
from ..text import decimals_for
from .rendering import difference, ends, number

_FIRST = 5


FailureRow = tuple[str, str, str, str, Sequence[str]]
"""Kind (``metric``, ``left out``, ``failure``, ``counted as empty`` or ``remark``), the metric or step, number of
samples (``all`` for a metric), reason, and the first of the samples."""


def failure_rows(record: Record) -> list[FailureRow]:
    """Return the failures and remarks of a run: metrics first, then samples by reason."""
    metrics = {"metric": record.metric_errors, "left out": record.metrics_left_out}
    samples = {"failure": record.failures, "counted as empty": record.empty_captions, "remark": record.remarks}
    rows: list[FailureRow] = [
        (kind, metric, "all", reason, ()) for kind, reasons in metrics.items() for metric, reason in reasons.items()
    ]
    return rows + [
        (kind, row["stage"], f"{row['count']:,}", row["reason"], row["samples"][:_FIRST])
        for kind, summaries in samples.items()
        for row in summaries
    ]


def result_row(record: Record, key: str) -> dict[str, Any]:
    """Return the texts of a result, empty where there is no value.

    Args:
        record: Record of the run.
        key: Key of the result.
    """
    result, printed = record.results[key], record.published.get(key)
    value, interval, scale = result.value, result.interval, result.scale
    decimals = decimals_for(scale, [value])
    return {
        "metric": result.label[0],
        "statistic": result.label[1],
        "value": number(None if value is None else value * scale, decimals),
        "interval": ends(interval, scale, decimals),
        "letters": record.letters(result),
        "printed": printed.printed if printed else "",
        "gap": difference((value - printed.value) * scale, decimals) if printed and value is not None else "",
        "paper": f"{citation(printed.paper)}, Table {printed.table}" if printed else "",
        "n": f"{result.n:,}",
        "reason": result.reason or (interval.reason if interval else ""),
        "remark": result.remark,
    }


Facts = list[tuple[str, object]]


def about_run(record: Record, key: str) -> dict[str, Facts]:
    """Return what decides the numbers of a run, and what they cost, as names and values.

    Args:
        record: Record of the run.
        key: What a page calls the run.

    Returns:
        ``settings``, ``metrics``, ``protocol``, ``software`` (and machine) and ``timings``.
    """
    settings = {
        "run": key,
        "task": f"{record.task}, version {record.version}",
        "documents": f"{record.documents.effective} of {record.documents.original}",
        "data": record.data_origin,
        **record.written_settings,
        "captions cut": {name: cut.to_json() for name, cut in record.truncation.items()},
        "generation": record.generation,
        "git": record.git_hash,
        "fingerprint": record.fingerprint,
        "checksum": record.checksum,
    }
    timings: dict[str, float] = {}
    for step, seconds in record.timings.items():
        timings |= seconds if isinstance(seconds, dict) else {step: seconds}
    return {
        "settings": facts(settings),
        "metrics": facts(record.made_by),
        "protocol": facts({"output_type": record.output_type, **record.protocol_choices}),
        "software": facts({**record.environment.machine, **record.environment.libraries}),
        "timings": facts(
            {f"{name}, seconds": value for name, value in timings.items()}
            | {f"store, {name}": value for name, value in record.store.items()}
        ),
    }


def facts(entries: Mapping[str, Any]) -> Facts:
    """Return names and values of a record as text; an empty value is a dash."""
    return [(str(name), "–" if (shown := plain_text(value)) == "" else shown) for name, value in entries.items()]


def plain_text(value: Any) -> object:
    """Return a value of a record as text: nested ones as ``name: value``, None as an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {plain_text(item) if item is not None else 'none'}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(plain_text(item)) for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
