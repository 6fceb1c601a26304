"""What bench-scale prints, and the captions that it is measured on."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import pytest

SPEED = Path(__file__).parents[2] / "speed"
sys.path.append(str(SPEED))

import coco  # noqa: E402
import scale  # noqa: E402
from scale_runs import Runs  # noqa: E402
from watching import Taken  # noqa: E402


def test_line_says_whether_a_bar_is_missed():
    least = scale.Figure("ratio", 1.5, 1.8, "{:.2f} x", is_floor=True)
    most = scale.Figure("time", 400, 500, "{:.0f} s")
    assert least.line.split() == ["ratio", "1.50", "x", "over", "the", "bar", ">=", "1.80", "x"]
    assert most.line.split() == ["time", "400", "s", "within", "the", "bar", "<=", "500", "s"]
    assert "within" in scale.Figure("time", 500, 500, "{:.0f} s").line
    assert "within" in scale.Figure("ratio", 1.8, 1.8, "{}", is_floor=True).line


def test_million_is_worked_out_by_what_each_caption_more_costs(tmp_path: Path):
    runs = Runs(tmp_path, 1000, 1, 1)
    for rows, seconds in ((100, 2.0), (1000, 11.0)):
        runs._taken["run", "none", str(rows)] = Taken(seconds, 0, 0, 0, 0, 0, "")
    assert runs.at(1000, lambda taken: taken.core_seconds) == 11
    assert runs.at(2000, lambda taken: taken.core_seconds) == pytest.approx(21)


def test_no_two_captions_are_alike_with_their_references(monkeypatch, tmp_path: Path):
    images = [[f"image {number} caption {n}" for n in range(5 + number % 2)] for number in range(4)]
    monkeypatch.setattr(coco, "images", lambda: images)
    drawn = list(islice(coco.pairs(), 32))
    assert len(set(drawn)) == 32
    assert {len(references) for _, references in drawn} == {5}
    # In the first rounds a candidate is of its image, and no reference; later it is of another image.
    for candidate, references in drawn[:20]:
        assert candidate not in references
        assert sum(reference.split()[1] == candidate.split()[1] for reference in references) == 4
    for candidate, references in drawn[20:]:
        assert candidate.split()[1] not in {reference.split()[1] for reference in references}

    coco.write(tmp_path, 32)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    captions = [json.loads(line) for line in (tmp_path / "captions.jsonl").read_text().splitlines()]
    assert [(row["candidate"], tuple(row["references"])) for row in rows] == drawn
    assert [(row["id"], row["caption"]) for row in captions] == [(row["id"], row["candidate"]) for row in rows]
