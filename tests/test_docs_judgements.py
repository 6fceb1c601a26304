"""Every form of judgement in docs/judgements.md runs as it stands there, from the command line alone."""

import json
import re
from pathlib import Path

import pytest
import yaml

from capbench.cli.main import main

PAGE = (Path(__file__).parents[1] / "docs" / "judgements.md").read_text(encoding="utf-8")
EXAMPLES = {
    name: {f"{name}.jsonl": rows, f"{name}.yaml": task}
    for rows, task in re.findall(r"```json\n(.*?)```\n\n```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    for name in [yaml.safe_load(task)["task"]]
}


# -- Every data set of docs/rated_sets.md is read as it stands there, by YAML alone


RATED_SETS = (Path(__file__).parents[1] / "docs" / "rated_sets.md").read_text(encoding="utf-8")
SECTIONS = {
    re.search(r"^task: (\w+)$", section, flags=re.MULTILINE)[1]: dict(
        re.findall(r"`([\w.]+)`[^`]*:\n\n```\w+\n(.*?)```", section, flags=re.DOTALL)
    )
    for section in RATED_SETS.split("\n## ")[1:]
}
EXPECTED = {
    "my_aspects": ("rouge_l", "system_kendall.recall", "", 1.0),
    # For the longer caption are 2.5 of 4 votes, and all of 3; then people and lengths tie.
    "my_votes": ("length", "accuracy", "", (2.5 / 4 + 1 + 0.5) / 3),
    # Lengths order all pairs as people do, but for "a dog" and "a cat", which tie; people tie once, too.
    "my_rankings": ("length", "accuracy", "", (2 + 0.5 + 5) / 8),
    "my_battles": ("judge", "accuracy_with_ties", "", 4 / 6),
    # Sums of 3.5, 3.5, 3 and 2.5 beside 2, 5, 4 words and one word; by scipy, as the next but one.
    "my_thumb": ("length", "pearson.total", "", 0.5720776),
    # 0.5, 1 and 0.25 beside 2, 6 and 4 words.
    "my_nebula": ("length", "kendall_b", "", 1 / 3),
    "my_msvd": ("length", "kendall_b.completeness", "", 0.7844645),
    "my_false_captions": ("mine", "accuracy", "", 0.5),
    "my_parts": ("length", "mean", "", (3 + 3) / 2),
}


def test_pages_have_a_task_file_for_each_of_their_files():
    assert PAGE.count("```yaml") == len(EXAMPLES) == 4
    assert RATED_SETS.count("```yaml") == len(SECTIONS) == 6
    assert RATED_SETS.count("```") == 2 * sum(map(len, SECTIONS.values()))


@pytest.mark.parametrize("task", SECTIONS)
def test_task_is_short_and_without_python(task: str):
    text = SECTIONS[task][f"{task}.yaml"]
    assert len(text.splitlines()) <= 20
    assert "!function" not in text
    assert max(map(len, text.splitlines())) <= 132


@pytest.mark.parametrize("task", [*EXAMPLES, *SECTIONS])
def test_example_is_read_as_it_stands(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = (EXAMPLES | SECTIONS)[task]
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    where = ["--include_path", str(tmp_path)]
    if task not in EXPECTED:
        # It matches images with captions, which needs a model: all of its documents are read.
        (tmp_path / "images").mkdir()
        assert main(["validate", *where, task]) == 0
        count = yaml.safe_load(files[f"{task}.yaml"])["checks"]["categories"]
        assert f"{sum(count.values())} of {sum(count.values())} documents usable" in capsys.readouterr().out
        return
    model = ["--model", f"captions:{tmp_path / 'mine.json'}"] if "mine.json" in files else []
    options = ["--format", "json", "--bootstrap", "0", "--output_path", str(tmp_path / "runs")]
    assert main(["run", *where, "--task", task, *model, *options]) == 0
    results = {
        (row["metric"], row["statistic"], row["category"]): row["value"] for row in json.loads(capsys.readouterr().out)
    }
    *key, value = EXPECTED[task]
    assert results[tuple(key)] == pytest.approx(value, abs=1e-5)
