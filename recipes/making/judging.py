"""What capbench's own metrics say of each text of a maker, and of the steps from one to the next."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters.aliases import resolve_model
from ...adapters.encoders.clip_tokens import CONTEXT
from ...benchmarks.api import score
from ...benchmarks.inputs.metric_names import read_metric
from ...benchmarks.statistics.contract import UndefinedStatistic
from ...benchmarks.statistics.paired import SpreadEstimate, difference, paired_means
from ...errors import BenchError, UsageError
from ...metrics import metrics as known_metrics
from ...progress import Progress, silent
from .language import clip_tokens
from .rows import MakingRow, RowFile
from .schema import JudgingSettings, Maker
from .writing import value_at

_BESIDE = ("references", "boxes", "objects")
"""Values of rows that metrics look at, beside the text and the image."""
Row = dict[str, Any]
"""Of a table: ``metric``, ``text``, ``n``, ``value``, and against the text before ``difference``, ``low``, ``high``."""


def judged(maker: Maker, rows: RowFile, store: Path | None, progress: Progress = silent) -> tuple[list[Row], list[str]]:
    """Return the table of metrics, and remarks on metrics that could not be computed.

    Each metric sees the same rows for every text; what stands beside a text is the difference to the one before it,
    with a 95 % interval over rows.

    Args:
        maker: The maker.
        rows: Those that are written.
        store: The store's file.
        progress: Gives a reporter for a step.
    """
    table: list[Row] = []
    remarks: list[str] = []
    told = maker.judged
    if told is None:
        return table, remarks
    for metric in told.metrics:
        if lack := _lack(metric, rows):
            remarks.append(f"{metric}: {lack}")
            continue
        try:
            values = {name: _values(metric, key, rows, maker, store, progress) for name, key in told.texts.items()}
            table += _steps(metric, values)
        except BenchError as error:
            remarks.append(f"{metric}: {error.in_one_line}")
        except UndefinedStatistic as error:
            remarks.append(f"{metric}: {error}")
    return table, remarks


def require_judges(maker: Maker) -> None:
    """Raise if a metric that judges is not known, or what encodes for it is no encoder; nothing is loaded.

    Raises:
        BenchError: It names it.
    """
    if maker.judged is None:
        return
    for metric in maker.judged.metrics:
        _needs(metric)
    if (named := maker.judged.encoder) and (role := resolve_model(named.name, named.arguments).role) != "encoder":
        raise UsageError(f"the encoder of 'judged', '{named.name}', is a {role}")


def _lack(metric: str, rows: RowFile) -> str:
    """Return what the rows lack that a metric needs; empty for nothing."""
    needs = _needs(metric)
    for need in _BESIDE:
        if need in needs and need not in rows.keys:
            return f"the data have no {need}"
    return "the data have no images" if "image" in needs and not rows.have_images else ""


def _needs(metric: str) -> frozenset[str]:
    return getattr(known_metrics[str(read_metric(metric).metric)], "needs", frozenset[str]())


def _values(metric: str, key: str, rows: RowFile, maker: Maker, store: Path | None, progress: Progress) -> np.ndarray:
    """Return ``[n]`` the metric of each row's text; of several texts their mean, NaN where one has none."""
    encoder = maker.judged.encoder if maker.judged and maker.judged.encoder else maker.models.get("encoder")
    judge = maker.models.get("judge")
    needs = _needs(metric)
    found = score(
        _texts_of(rows, key),
        [metric],
        model=encoder.name if encoder and "encoder" in needs else None,
        model_args=encoder.arguments if encoder and "encoder" in needs else "",
        judge=judge.name if judge and "judge" in needs else None,
        judge_args=judge.arguments if judge and "judge" in needs else "",
        store=store,
        progress=progress,
    )
    (name,) = found.labels
    sums, counts = np.zeros(len(rows)), np.zeros(len(rows))
    for number, row in enumerate(rows):
        counts[number] = len(_texts(value_at(row, key)))
    of_row = np.repeat(np.arange(len(rows)), counts.astype(int))
    # What was left out has no row.
    values = np.full(len(of_row), math.nan)
    for one in found:
        value = one[name]
        values[int(one["id"])] = math.nan if value is None else value
    np.add.at(sums, of_row, values)
    with np.errstate(invalid="ignore"):
        return sums / counts


def _texts_of(rows: Iterable[MakingRow], key: str) -> Iterator[dict[str, Any]]:
    """Yield what metrics are given of each text of each row; the id is its number."""
    numbers = count()
    for row in rows:
        beside = {name: row.values[name] for name in _BESIDE if name in row.values}
        for text in _texts(value_at(row, key)):
            yield {"id": str(next(numbers)), "candidate": text, "image": row.image, **beside}


def _steps(metric: str, values: Mapping[str, np.ndarray]) -> list[Row]:
    usable = np.all([np.isfinite(one) for one in values.values()], axis=0)
    kept = {name: one[usable] for name, one in values.items()}
    count = int(usable.sum())
    if not count:
        return [{"metric": metric, "text": name, "n": 0, "value": None} for name in values]
    estimates = paired_means(kept, np.arange(count))
    table: list[Row] = []
    before: SpreadEstimate | None = None
    for name, estimate in estimates.items():
        row: Row = {"metric": metric, "text": name, "n": count, "value": estimate.value}
        if before is not None:
            step = difference(estimate, before)
            row |= {"difference": step.value, "low": _finite(step.interval.low), "high": _finite(step.interval.high)}
        table.append(row)
        before = estimate
    return table


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def lengths(told: JudgingSettings | None, rows: RowFile) -> list[Row]:
    """Return of each text how many there are, and how long they are: words, and tokens of CLIP."""
    return [_lengths_of(name, key, rows) for name, key in (told.texts.items() if told else ())]


def _lengths_of(name: str, key: str, rows: RowFile) -> Row:
    texts = words = tokens = most = over = 0
    for row in rows:
        for text in _texts(value_at(row, key)):
            length = clip_tokens(text)
            texts, words, tokens = texts + 1, words + len(text.split()), tokens + length
            most, over = max(most, length), over + (length > CONTEXT)
    return {
        "text": name,
        "texts": texts,
        "words": words / texts if texts else None,
        "tokens": tokens / texts if texts else None,
        "most_tokens": most,
        "over_context": over,
    }


def _texts(found: Any) -> list[str]:
    return [found] if isinstance(found, str) else list(found)
