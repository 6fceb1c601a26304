"""Scores of captions in plain rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..inputs.failures import FailureSummary, describe, outcome

if TYPE_CHECKING:
    import pandas

KEPT = ("id", "image", "candidate")
"""The columns of each row next to its scores."""
_FIRST = 5
"""Number of captions in a notebook's table."""


@dataclass(frozen=True)
class ScoreTable:
    """Scores of captions.

    Attributes:
        system: System-level value of each metric; None where the metric failed.
        labels: Each metric's name as papers print it.
        aggregations: The aggregation of each system-level value: ``mean`` or ``corpus``.
        counts: Number of captions that each metric scored.
        failures: Rows that could not be scored: stage, reason, count, first samples.
        empty: Empty or invalid captions, which were scored as empty ones; as ``failures``.
        metric_errors: Metrics that failed as a whole, with the reason.
        remarks: Unusual steps in reading the input; as ``failures``.
        columns: Yields the columns of the rows, shard by shard.
        truncated: Number of scored captions that were cut to the encoder's context, by metrics that know it.
        values: Value of each row by each metric, not finite where it has none; None where the metric failed.
    """

    system: dict[str, float | None]
    labels: dict[str, str]
    aggregations: dict[str, str]
    counts: dict[str, int]
    failures: list[FailureSummary]
    empty: list[FailureSummary]
    metric_errors: dict[str, str]
    remarks: list[FailureSummary]
    columns: Callable[[], Iterator[Mapping[str, Sequence[Any]]]]
    values: dict[str, np.ndarray | None]
    truncated: dict[str, int]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, without all of them in memory."""
        for columns in self.pieces():
            yield from (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def pieces(self) -> Iterator[dict[str, Sequence[Any]]]:
        """Yield the columns of the rows, those of a shard at a time: texts, and numbers or None."""
        first = 0
        for columns in self.columns():
            end = first + len(columns["id"])
            piece: dict[str, Sequence[Any]] = {name: columns[name] for name in KEPT}
            for name, values in self.values.items():
                scores = np.full(end - first, np.nan) if values is None else values[first:end]
                piece[name] = [score if math.isfinite(score) else None for score in scores.tolist()]
            yield piece
            first = end

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A dict per caption: id, image, candidate and a value per metric (None where it has none)."""
        return list(self)

    def summary(self) -> list[dict[str, Any]]:
        """Return a dict per metric: name, label, system-level value, aggregation, number of captions."""
        return [
            {
                "metric": name,
                "label": self.labels[name],
                "value": value,
                "aggregation": self.aggregations[name],
                "n": self.counts[name],
                "empty": sum(entry["count"] for entry in self.empty),
            }
            for name, value in self.system.items()
        ]

    def truncations(self) -> list[str]:
        """Return a line for each metric that saw only the beginning of some captions."""
        return [
            f"{name}: {cut:,} of {self.counts[name]:,} captions ({cut / self.counts[name]:.1%}) are longer than the "
            "encoder's context and were cut"
            for name, cut in self.truncated.items()
            if cut
        ]

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: the values of metrics, the first captions, and the excluded rows."""
        from ..tables.text import html_lines, html_output, html_table

        shown = [{**row, "value": _shown(row["value"])} for row in self.summary()]
        first = [{name: _shown(value) for name, value in row.items()} for row in islice(self, _FIRST)]
        lines = [f"{outcome(failure)}: {describe(failure)}" for failure in self.failures]
        lines += [f"counted as empty: {describe(entry)}" for entry in self.empty]
        lines += self.truncations()
        lines += [f"metric {name} failed: {reason}" for name, reason in self.metric_errors.items()]
        return html_output(
            html_table(shown, ("metric", "label", "aggregation")),
            html_table(first, KEPT, "the first captions"),
            html_lines(lines),
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame."""
        import pandas

        return pandas.DataFrame(self.rows)


def _shown(value: Any) -> str:
    """Return a value for a notebook."""
    return "-" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)
