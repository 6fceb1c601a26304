"""Prints the worst samples of a run on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...errors import UsageError, did_you_mean
from ..tables.text import readable, texts_of
from .finding import Runs, ShownRun
from .sample_list import TITLES, directed, label, shown_number


def worst_lines(runs: Runs, run: ShownRun, metric: str, count: int) -> Iterator[str]:
    """Yield lines about the samples that a metric scores worst.

    Args:
        runs: Where the run is.
        run: The run.
        metric: A metric, or a column of ratings; empty for the first metric.
        count: Maximum number of samples.

    Raises:
        UsageError: The samples have no such scores.
    """
    samples = runs.samples(run)
    metric = metric or next(iter([*directed(run, samples), *samples.sortable]), "")
    if metric not in samples.sortable:
        raise UsageError(
            f"--metric {metric}: the samples of this run have no such scores.{did_you_mean(metric, samples.sortable)}",
            f"Available: {', '.join(samples.sortable)}.",
        )
    order = samples.order(metric, descending=not run.record.higher_is_better(metric))
    scored = order[np.isfinite(samples.numbers(metric)[order])]
    worst = scored[:count].tolist()
    called = f"{run.record.alias}, {run.name}: {len(worst):,} worst of {len(scored):,} samples by {label(run, metric)}"
    yield _plain(called)
    for sample, row in zip(worst, samples.rows(worst), strict=True):
        yield f"\n{shown_number(samples, metric, sample)}  {_plain(row['id'])}"
        for column, title in TITLES.items():
            yield from (f"  {title.lower().removesuffix('s')}: {_plain(text)}" for text in texts_of(row.get(column)))


def _plain(text: object) -> str:
    """Return a text in one line, without characters that steer a terminal."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in " ".join(readable(text).split()))
