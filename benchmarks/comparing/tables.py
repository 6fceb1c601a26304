"""Renders comparisons: a table of the metrics, and one of their pairs."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..statistics.bootstrap import least_p
from ..tables.results import tabulated
from ..tables.text import csv_text, show_interval, show_number
from .comparison import Comparison, Pair

_LONGEST_NAME = 20
"""Characters; longer names of models and metrics are numbered, so that tables of pairs are narrow."""


def render_comparisons(comparisons: Sequence[Comparison], fmt: str = "github") -> str:
    """Return comparisons as text.

    Args:
        comparisons: The comparisons.
        fmt: ``github`` and ``latex`` give two tables a comparison, on the scale that papers print, ``github`` with
            a legend; ``json`` a list of comparisons, and ``csv`` one table with a row a metric and a row a pair
            (column ``kind``), both with plain values.
    """
    if fmt == "json":
        listed = list(map(asdict, comparisons))
        return json.dumps(listed, indent=2, ensure_ascii=False, allow_nan=False)
    if fmt == "csv":
        return _csv(comparisons)
    tables = [
        tabulated(rows, fmt)
        for comparison in comparisons
        for rows in (_compared_rows(comparison), _pair_rows(comparison))
        if rows
    ]
    return "\n\n".join([*tables, *([_legend(comparisons)] if fmt == "github" else [])])


def _legend(comparisons: Sequence[Comparison]) -> str:
    """Return the legend of the tables, and notes on them."""
    alphas = ", ".join(f"{alpha:g}" for alpha in sorted({comparison.settings.alpha for comparison in comparisons}))
    subjects = " or ".join(dict.fromkeys(f"{comparison.subject}s" for comparison in comparisons))
    return (
        f"Group: {subjects} with a letter in common are not significantly different (p (Holm) ≥ {alphas})\n"
        "p: probability of a difference this large under the null hypothesis, ≤ the least that resamples can give; "
        "(Holm): corrected for the number of pairs"
        + "".join(f"\n{comparison.task}: {note}" for comparison in comparisons for note in comparison.notes)
    )


def _compared_rows(comparison: Comparison) -> list[dict[str, str]]:
    decimals, is_numbered = comparison.decimals, _is_numbered(comparison)
    rows = []
    for number, entry in enumerate(comparison.compared):
        first = number == 0
        row = {"Task": comparison.alias if first else ""}
        if comparison.subject == "model":
            row["Metric"] = comparison.metric_label if first else ""
        rows.append(
            {
                **row,
                comparison.subject.capitalize(): f"{number + 1}. {entry.label}" if is_numbered else entry.label,
                comparison.statistic_label: show_number(entry.value * comparison.scale, decimals),
                _interval_label(comparison): show_interval(entry.interval, comparison.scale, decimals, "-"),
                "Group": entry.letters,
                "n": f"{comparison.n:,}",
            }
        )
    return rows


def _pair_rows(comparison: Comparison) -> list[dict[str, str]]:
    decimals, is_numbered = comparison.decimals, _is_numbered(comparison)
    labels = {entry.name: str(at) if is_numbered else entry.label for at, entry in enumerate(comparison.compared, 1)}

    def is_least(pair: Pair) -> bool:
        resamples = pair.interval.resamples
        return bool(resamples and pair.p and pair.p < 1.01 * least_p(resamples, comparison.images))

    return [
        {
            "Pair": f"{labels[pair.first]} - {labels[pair.second]}",
            "Difference": show_number(pair.value * comparison.scale, decimals),
            _interval_label(comparison): show_interval(pair.interval, comparison.scale, decimals, "-"),
            "p": _p(pair.p, is_least=is_least(pair)),
            "p (Holm)": _p(pair.p_holm, is_least=is_least(pair)),
            **{f"p ({test})": _p(p) for test, p in pair.classical.items()},
        }
        for pair in comparison.pairs
    ]


def _is_numbered(comparison: Comparison) -> bool:
    """Return whether pairs are of numbers, as names are too long."""
    return max(len(entry.label) for entry in comparison.compared) > _LONGEST_NAME


def _csv(comparisons: Sequence[Comparison]) -> str:
    rows: list[dict[str, Any]] = []
    for comparison in comparisons:
        common = {name: getattr(comparison, name) for name in ("task", "metric", "statistic", "n")}
        rows += [
            {**common, "kind": comparison.subject, "first": entry.name, "value": entry.value,
             "low": entry.interval.low, "high": entry.interval.high, "group": entry.letters}
            for entry in comparison.compared
        ]  # fmt: skip
        rows += [
            {**common, "kind": "pair", "first": pair.first, "second": pair.second, "value": pair.value,
             "low": pair.interval.low, "high": pair.interval.high, "p": pair.p, "p_holm": pair.p_holm,
             **{f"p_{test.lower().replace(' ', '_').replace('-', '_')}": p
                for test, p in pair.classical.items()}}
            for pair in comparison.pairs
        ]  # fmt: skip
    columns = ["task", "metric", "statistic", "kind", "first", "second", "value", "low", "high", "group"]
    columns += ["p", "p_holm"]
    columns += list(dict.fromkeys(key for row in rows for key in row if key not in (*columns, "n")))
    return csv_text(rows, [*columns, "n"])


def _interval_label(comparison: Comparison) -> str:
    return f"{100 * (1 - comparison.settings.alpha):g}% CI"


def _p(p: float | None, *, is_least: bool = False) -> str:
    """Return a p-value, with ≤ where it is the least that the resamples can give."""
    if p is None:
        return "-"
    if p < 0.0001:
        return "<0.0001"
    return f"≤{math.ceil(p * 1e4) / 1e4:.4f}" if is_least else f"{p:.4f}"
