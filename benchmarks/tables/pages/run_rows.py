"""What pages show of a run: its results, failures and remarks, settings and costs."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
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
        "remark": "; ".join(filter(None, [result.reason or (interval.reason if interval else ""), result.remark])),
    }


def results_of(record: Record, pages: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Return template values of the table of results.

    Args:
        record: Record of the run.
        pages: Metric to the page that its name links to.
    """
    rows = [result_row(record, key) | {"to": pages.get(result.metric)} for key, result in record.results.items()]
    optional = ("interval", "letters", "printed", "remark")
    shown = {part for part in optional if any(row[part] not in ("", "–") for row in rows)}
    tested = _tested(record) if "letters" in shown else []
    return {"rows": rows, "shown": shown, "caption": _caption(record), "tested": tested}


def _caption(record: Record) -> str:
    """Return the table caption: level and method of intervals, and scale of values."""
    results = record.results.values()
    methods = {result.interval.method for result in results if result.interval} or {"bootstrap"}
    words = {
        "bootstrap": "bootstrap intervals",
        "influence": "intervals by influence functions",
        "wilson": "Wilson intervals",
    }
    scale = max((result.scale for result in results), default=1)
    factor = f" Values are multiplied by {scale:g}, except for counts." if scale != 1 else ""
    return f"{record.settings.level:.0%} {' and '.join(words[method] for method in sorted(methods))}.{factor}"


def _tested(record: Record) -> list[str]:
    """Return one sentence on significance letters per test setting, with its statistics."""
    labels = {result.statistic: result.label[1] for result in record.results.values()}
    by_test: dict[str, list[str]] = {}
    for statistic, test in record.significance.items():
        how = f"p ≥ {test.alpha}; {test.resamples:,} paired resamples, seed {test.seed}, Holm"
        by_test.setdefault(how, []).append(labels.get(statistic, statistic))
    return [
        f"{', '.join(statistics)}: metrics with a letter in common are not significantly different ({how})."
        for how, statistics in by_test.items()
    ]


Facts = list[tuple[str, object]]


def about_run(record: Record, key: str) -> dict[str, Facts]:
    """Return what decides the numbers of a run, and what they cost, as names and values by title.

    Args:
        record: Record of the run.
        key: What a page calls the run.
    """
    from_file = " (not used: the captions are from a file)" * (record.written_settings["model"] == "captions")
    model = {"model": record.parts.model, "prompt": record.prompt + from_file * bool(record.prompt)}
    model |= {"decoding": plain_text(record.decoding) + from_file} if record.decoding else {}
    settings = {
        "run": key,
        "task": f"{record.task}, version {record.version}",
        "documents": f"{record.documents.effective} of {record.documents.original}",
        "data": record.data_origin,
        **record.written_settings,
        "subset": record.subset is not None,
        "captions cut": {name: cut.to_json() for name, cut in record.truncation.items()},
        "generation": record.generation,
        "git": record.git_hash,
        "fingerprint": record.fingerprint,
        "checksum": record.checksum,
    }
    usage = {"model": record.generation.get("usage"), "judge": record.judging and record.judging.usage}
    cost = {f"usage of the {name}": value for name, value in usage.items() if value}
    timings = {"all": f"{record.seconds:.1f}"}
    for step, seconds in record.timings.items():
        timings |= seconds if isinstance(seconds, dict) else {step: seconds}
    cost |= {f"{name}, seconds": value for name, value in timings.items()}
    cost |= {f"store, {name}": value for name, value in record.store.items()}
    return {
        "Model": facts({name: value for name, value in model.items() if value}),
        "Settings": facts(settings),
        "Protocol": facts({"output_type": record.output_type, **record.protocol_choices}),
        "Metrics": facts(record.made_by),
        "Cost": facts(cost),
        "Software and machine": facts({**record.environment.machine, **record.environment.libraries}),
    }


def facts(entries: Mapping[str, Any]) -> Facts:
    """Return names and values of a record as text; an empty value is a dash."""
    return [(str(name), "–" if (shown := plain_text(value)) == "" else shown) for name, value in entries.items()]


def plain_text(value: Any) -> str:
    """Return a value of a record as text: nested ones as ``name: value`` unless empty, None as an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        texts = {name: "none" if item is None else plain_text(item) for name, item in value.items() if item != {}}
        return "; ".join(f"{name}: {text.removeprefix(f'{name}: ')}" for name, text in texts.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(plain_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
