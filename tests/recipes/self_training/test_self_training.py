"""Whether loops of several seeds show that a turn is worth something, and how that is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from self_training import missing, table

from capbench.recipes.self_training.report import curve_of, draw_curves
from capbench.recipes.self_training.schema import load_loop


def rows(*values: float, low: float | None = 0.01) -> list[dict[str, Any]]:
    """Return the rows of a loop with such values by turn, and a second metric."""
    return [
        {
            "turn": turn, "task": "t", "metric": metric, "label": metric.upper(), "scale": scale, "statistic": "mean",
            "value": value, "low": value - 0.1, "high": value + 0.2,
            "difference": {"value": value - values[0], "low": low, "high": 1.0} if turn else None,
        }
        for turn, value in enumerate(values)
        for metric, value, scale in (("capture", value, 100), ("length", 10.0 + turn, 1))
    ]  # fmt: skip


def test_turn_is_worth_more_than_the_spread_of_seeds_or_it_is_said():
    clear = {0: rows(0.5, 0.56, 0.1), 1: rows(0.5, 0.57), 2: rows(0.5, 0.58)}
    assert missing(clear) == []
    within = {0: rows(0.5, 0.53), 1: rows(0.5, 0.56)}
    assert missing(within) == ["turn 1 gains 0.0450, not above 3 × its spread over seeds, 0.0212"]
    assert missing({0: rows(0.5, 0.49)}) == ["turn 1 gains -0.0100, not above 3 × its spread over seeds, 0.0000"]
    for low in (None, 0.0, -0.01):
        assert missing({**clear, 2: rows(0.5, 0.58, low=low)}) == [
            "seed 2: the interval of turn 1's gain is not above 0"
        ]
    assert load_loop("shapes_loop").loop.judge[0].metrics[0].startswith("capture")


def test_table_has_a_line_a_turn_with_the_spread_over_seeds():
    lines = table({0: rows(0.5, 0.56), 1: rows(0.5, 0.58)}).splitlines()
    assert lines == [
        "| turn | CAPTURE | LENGTH |", "|---|---|---|", "| 0 | 50.0 | 10.0 |", "| 1 | 57.0 ± 1.4 | 11.0 ± 0.0 |"
    ]  # fmt: skip


def test_curve_is_of_the_first_metric(tmp_path: Path):
    label, points = curve_of(rows(0.5, 0.6))
    assert label == "CAPTURE of t"
    assert [[row[key] for key in ("turn", "value", "low", "high")] for row in points] == [
        [0, 0.5, 0.4, 0.7],
        [1, 0.6, 0.5, 0.8],
    ]
    without = {"low": None, "high": None}
    draw_curves(
        tmp_path / "loop.svg",
        label,
        {"seed 0": points, "seed 1": [without | {"turn": 0, "value": 0.5}, without | {"turn": 1, "value": 0.7}]},
    )
    figure = (tmp_path / "loop.svg").read_text(encoding="utf-8")
    assert "<title" in figure
    assert "CAPTURE of t by turn" in figure
    assert "seed 0: 0.5, 0.6.\nseed 1: 0.5, 0.7." in figure
    assert ">turn<" in figure
    assert len(figure) < 60_000
