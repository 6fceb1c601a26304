"""Captions of a model by the part of the data that their image is of."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from task_keys import CAPTIONING

import capbench
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.tables.results import render
from capbench.errors import DataError

pytestmark = pytest.mark.usefixtures("functions_may_run")

KINDS = ["sea", "city", "sea", "sea", "city"]
WORDS = [2, 3, 4, 9, 5]
TASK: dict[str, Any] = {key: value for key, value in CAPTIONING.items() if key != "doc_to_image"} | {
    "task": "parts",
    "doc_to_id": "id",
    "doc_to_category": "kind",
    "metric_list": ["length", "bleu_1"],
}


def caption(number: int) -> str:
    return " ".join(["one", "two", "a", "dog", "at", "the", "sea", "and", "more"][: WORDS[number]])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"d{n}", "kind": kind, "references": ["two dogs at the sea"]} for n, kind in enumerate(KINDS)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = [{"id": f"d{n}", "caption": caption(n)} for n in range(5)]
    (tmp_path / "said.jsonl").write_text("\n".join(map(json.dumps, said)))
    return tmp_path


def run(folder: Path, resamples: int = 0, intervals: str = "bootstrap", **keys: Any) -> TaskRun:
    task = {key: value for key, value in {**TASK, **keys}.items() if value is not None}
    (folder / "parts.yaml").write_text(json.dumps(task))
    model = f"captions:{folder / 'said.jsonl'}"
    settings = {"resamples": resamples, "intervals": intervals}
    return capbench.evaluate(model, ["parts"], include_path=[folder], **settings)["parts"]


def values(done: TaskRun, metric: str) -> dict[str, Any]:
    return {result.category: (result.value, result.n) for result in done.results if result.metric == metric}


def test_each_category_has_its_value_and_all_documents_theirs(folder: Path):
    done = run(folder)
    assert values(done, "length") == {"sea": (5.0, 3), "city": (4.0, 2), "": (23 / 5, 5)}
    assert [result.category for result in done.results] == ["sea", "city", ""] * 2
    assert {result.interval for result in done.results} == {None}
    assert done.results[0].label == ("length", "mean sea")
    assert done.samples["category"].to_pylist() == KINDS
    assert "mean city" in render([done])
    # A corpus value is made anew of the category's own documents.
    alone = run(folder, process_docs=None, dataset_kwargs={"data_files": only(folder, "city")}, doc_to_category=None)
    assert values(done, "bleu_1")["city"][0] == pytest.approx(values(alone, "bleu_1")[""][0])
    assert values(done, "bleu_1")["sea"][0] != values(done, "bleu_1")["city"][0]


def only(folder: Path, kind: str) -> str:
    """Write the rows and captions of one category alone, and return the file."""
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    some = [row for row in rows if row["kind"] == kind]
    (folder / "some.jsonl").write_text("\n".join(map(json.dumps, some)))
    said = [{"id": row["id"], "caption": caption(int(row["id"][1:]))} for row in some]
    (folder / "said.jsonl").write_text("\n".join(map(json.dumps, said)))
    return "some.jsonl"


def test_counts_are_never_percentages_but_shares_may_be(folder: Path):
    done = run(folder, scale=100)
    assert [result.scale for result in done.results] == [1] * 3 + [100] * 3


def test_value_of_all_may_be_the_unweighted_mean_of_categories(folder: Path):
    done = run(folder, protocol={"aggregate": "categories"})
    assert values(done, "length")[""] == (4.5, 5)
    bleu = values(done, "bleu_1")
    assert bleu[""][0] == pytest.approx((bleu["sea"][0] + bleu["city"][0]) / 2)


@pytest.mark.parametrize("aggregate", ["all", "categories"])
def test_intervals_by_influence_are_of_the_category_alone(folder: Path, aggregate: str):
    done = run(folder, resamples=40, intervals="influence", protocol={"aggregate": aggregate}, metric_list=["length"])
    lengths, sea = np.array(WORDS), np.array(KINDS) == "sea"
    of_sea, of_city = (np.where(which, lengths - lengths[which].mean(), 0) / which.sum() for which in (sea, ~sea))
    whole = (of_sea + of_city) / 2 if aggregate == "categories" else (lengths - lengths.mean()) / 5
    for result, influence in zip(done.results, (of_sea, of_city, whole), strict=True):
        assert result.interval.method == "influence"
        ratio = result.interval.stderr / np.sqrt((influence**2).sum())
        assert ratio == pytest.approx(done.results[0].interval.stderr / np.sqrt((of_sea**2).sum()), rel=1e-6)


def test_metric_that_raises_has_no_value_in_any_category_and_says_why(folder: Path):
    (folder / "own.py").write_text("def broken(candidate, references):\n    raise ValueError('of no use')\n")
    task = {**TASK, "metric_list": ["length"]}
    text = json.dumps(task).replace('["length"]', "[length, !function own.broken]")
    (folder / "parts.yaml").write_text(text)
    done = capbench.evaluate(f"captions:{folder / 'said.jsonl'}", ["parts"], include_path=[folder], resamples=0)
    broken = [result for result in done["parts"].results if result.metric == "broken"]
    assert [(r.category, r.value, r.n) for r in broken] == [("sea", None, 0), ("city", None, 0), ("", None, 0)]
    assert all(result.reason for result in broken)


def test_counts_of_categories_are_checked(folder: Path):
    assert run(folder, checks={"categories": {"sea": 3, "city": 2}}).record.results
    with pytest.raises(DataError, match="rows of city: expected 3, found 2"):
        run(folder, checks={"categories": {"city": 3}})


def test_document_without_a_category_is_named_and_one_category_is_all(folder: Path):
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    (folder / "rows.jsonl").write_text(
        "\n".join(json.dumps(row | {"kind": " "} if n else row) for n, row in enumerate(rows))
    )
    done = run(folder, metric_list=["length"])
    assert values(done, "length") == {"": (2.0, 1)}
    assert done.record.values["failures"][0]["reason"] == "has no category"
