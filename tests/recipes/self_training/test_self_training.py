"""The curve of a self-training loop: its values by turn, and the figure."""

from pathlib import Path

from capbench.recipes.self_training.report import curve_of, draw_curves
from capbench.recipes.self_training.schema import load_loop


def test_curve_is_of_the_first_metric(tmp_path: Path):
    rows = [
        {
            "turn": turn, "task": "t", "metric": metric, "label": metric.upper(), "statistic": "mean", "value": value,
            "low": low, "high": high,
        }
        for turn, value, low, high in ((0, 0.5, 0.4, 0.7), (1, 0.6, 0.5, 0.8))
        for metric in ("capture", "length")
    ]  # fmt: skip
    label, points = curve_of(rows)
    assert label == "CAPTURE of t"
    assert points == rows[::2]
    assert load_loop("shapes_loop").loop.judge[0].metrics[0].startswith("capture")
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
