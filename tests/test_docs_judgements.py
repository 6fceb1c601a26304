"""Every form of judgement in docs/judgements.md runs as it stands there, from the command line alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from capbench.cli.main import main

PAGE = (Path(__file__).parents[1] / "docs" / "judgements.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```json\n(.*?)```\n\n```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


def test_each_task_of_the_page_has_its_rows():
    assert PAGE.count("```yaml") == len(EXAMPLES) == 4


@pytest.mark.parametrize(("rows", "task"), EXAMPLES, ids=[yaml.safe_load(task)["task"] for _, task in EXAMPLES])
def test_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: str, task: str):
    name = yaml.safe_load(task)["task"]
    (tmp_path / f"{name}.jsonl").write_text(rows, encoding="utf-8")
    (tmp_path / f"{name}.yaml").write_text(task, encoding="utf-8")

    options = ["--format", "json", "--bootstrap", "20", "--output_path", str(tmp_path / "runs")]
    code = main(["run", "--include_path", str(tmp_path), "--task", name, *options])

    assert code == 0
    results = {(one["metric"], one["statistic"], one["category"]): one for one in json.loads(capsys.readouterr().out)}
    expected = {
        "my_aspects": ("rouge_l", "system_kendall.recall", "", 1.0),
        # For the longer caption are 2.5 of 4 votes, and all of 3; then people and lengths tie.
        "my_votes": ("length", "accuracy", "", (2.5 / 4 + 1 + 0.5) / 3),
        # Lengths order all pairs as people do, but for "a dog" and "a cat", which tie; people tie once, too.
        "my_rankings": ("length", "accuracy", "", (2 + 0.5 + 5) / 8),
        "my_battles": ("judge", "accuracy_with_ties", "", 4 / 6),
    }
    *key, value = expected[name]
    assert results[tuple(key)]["value"] == pytest.approx(value)
