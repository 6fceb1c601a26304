"""Every data set of docs/rated_sets.md is read as it stands there, by YAML alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from capbench.cli.main import main

PAGE = (Path(__file__).parents[1] / "docs" / "rated_sets.md").read_text(encoding="utf-8")
SECTIONS = {
    re.search(r"^task: (\w+)$", section, flags=re.MULTILINE)[1]: dict(
        re.findall(r"`([\w.]+)`[^`]*:\n\n```\w+\n(.*?)```", section, flags=re.DOTALL)
    )
    for section in PAGE.split("\n## ")[1:]
}
EXPECTED = {
    # Sums of 3.5, 3.5, 3 and 2.5 beside 2, 5, 4 words and one word; by scipy, as the next but one.
    "my_thumb": ("length", "pearson.total", "", 0.5720776),
    # 0.5, 1 and 0.25 beside 2, 6 and 4 words.
    "my_nebula": ("length", "kendall_b", "", 1 / 3),
    "my_msvd": ("length", "kendall_b.completeness", "", 0.7844645),
    "my_false_captions": ("mine", "accuracy", "", 0.5),
    "my_pascal": ("length", "accuracy", "HI", 1.0),
    "my_parts": ("length", "mean", "", (3 + 3) / 2),
}


def test_page_has_a_task_file_for_each_of_its_files():
    assert PAGE.count("```yaml") == len(SECTIONS) == 7
    assert PAGE.count("```") == 2 * sum(map(len, SECTIONS.values()))


@pytest.mark.parametrize("task", SECTIONS)
def test_task_is_short_and_without_python(task: str):
    text = SECTIONS[task][f"{task}.yaml"]
    assert len(text.splitlines()) <= 20
    assert "!function" not in text
    assert max(map(len, text.splitlines())) <= 132


@pytest.mark.parametrize("task", SECTIONS)
def test_example_runs(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, content in SECTIONS[task].items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    where = ["--include_path", str(tmp_path)]
    if task not in EXPECTED:
        # It matches images with captions, which needs a model: all of its documents are read.
        (tmp_path / "images").mkdir()
        assert main(["validate", *where, task]) == 0
        count = yaml.safe_load(SECTIONS[task][f"{task}.yaml"])["checks"]["categories"]
        assert f"{sum(count.values())} of {sum(count.values())} documents usable" in capsys.readouterr().out
        return
    model = ["--model", f"captions:{tmp_path / 'mine.json'}"] if "mine.json" in SECTIONS[task] else []
    options = ["--format", "json", "--bootstrap", "0", "--output_path", str(tmp_path / "runs")]
    assert main(["run", *where, "--task", task, *model, *options]) == 0
    results = {
        (one["metric"], one["statistic"], one["category"]): one["value"] for one in json.loads(capsys.readouterr().out)
    }
    *key, value = EXPECTED[task]
    assert results[tuple(key)] == pytest.approx(value, abs=1e-5)
