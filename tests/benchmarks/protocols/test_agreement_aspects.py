"""Rated captions with several aspects, of named systems, in categories: from task file to comparison."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from rated_task import run_rated

from capbench.benchmarks.comparing.comparison import CompareSettings, compare_runs
from capbench.benchmarks.records.task_run import TaskRun
from capbench.benchmarks.statistics.correlation import KendallB, Pearson
from capbench.benchmarks.tables.results import render
from capbench.errors import DataError, TaskError, UsageError

ASPECTS = {
    "doc_to_human": {"precision": "P", "recall": "{{ R }}"},
    "metric_list": ["length", "bleu_1"],
    "statistics": ["kendall_b"],
}


def rows(images: int = 6, systems: tuple[str, ...] = ("short", "middle", "long")) -> list[dict[str, Any]]:
    """Captions of systems that write so many words; a system's ratings rise with its place."""
    generator = np.random.default_rng(0)
    return [
        {
            "id": f"{image}-{system}",
            "image": f"{image}.jpg",
            "candidate": " ".join(["word"] * int(generator.integers(1, 4) + 3 * place)),
            "references": ["a word"],
            "P": int(generator.integers(1, 6)),
            "R": 10 * place + int(generator.integers(0, 9)),
            "system": system,
            "kind": "indoor" if image % 2 else "outdoor",
        }
        for image in range(images)
        for place, system in enumerate(systems)
    ]


@pytest.fixture
def run(tmp_path):
    return partial(run_rated, tmp_path, **ASPECTS)


def value_of(done: TaskRun, statistic: str, category: str = "", metric: str = "length") -> float | None:
    (result,) = [r for r in done.results if (r.metric, r.statistic, r.category) == (metric, statistic, category)]
    return result.value


def by_hand(statistic: Any, rows: list[dict[str, Any]], aspect: str) -> float:
    lengths = [len(row["candidate"].split()) for row in rows]
    return statistic(np.array(lengths), np.array([row[aspect] for row in rows]), np.arange(len(rows)))


def test_every_statistic_is_given_of_every_aspect_in_one_run(run):
    rated = rows(images=10)
    done = run(rated, {"resamples": 20}, statistics=["kendall_b", {"statistic": "pearson", "name": "r"}])
    assert value_of(done, "kendall_b.precision") == by_hand(KendallB(), rated, "P")
    assert value_of(done, "kendall_b.recall") == by_hand(KendallB(), rated, "R")
    assert value_of(done, "r.recall") == pytest.approx(by_hand(Pearson(), rated, "R"))
    assert [r.label[1] for r in done.results[:4]] == ["τ-b precision", "PCC precision", "τ-b recall", "PCC recall"]
    assert all(result.interval is not None for result in done.results)
    assert set(done.record.significance) == {"kendall_b.precision", "kendall_b.recall", "r.precision", "r.recall"}
    assert done.samples["ratings.precision"].to_pylist() == [[float(row["P"])] for row in rated]
    assert "ratings" not in done.samples.column_names


def test_caption_without_a_rating_of_an_aspect_counts_in_the_others(run):
    rated = rows()
    rated[0]["P"] = None
    done = run(rated)
    counts = {result.statistic: result.n for result in done.results if result.metric == "length"}
    assert counts == {"kendall_b.precision": len(rated) - 1, "kendall_b.recall": len(rated)}
    assert value_of(done, "kendall_b.precision") == by_hand(KendallB(), rated[1:], "P")


def test_aspect_that_nobody_rated_is_refused_with_its_column(run):
    rated = [row | {"P": None} for row in rows()]
    with pytest.raises(DataError, match="no caption has a rating of aspect 'precision'") as error:
        run(rated)
    assert "rows.jsonl" in error.value.message
    assert "'precision': 'P'" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"doc_to_human": {"a b": "P"}}, r"doc_to_human: expected names of letters, digits, '_' and '-'"),
        ({"doc_to_human": {}}, "doc_to_human"),
        ({"doc_to_human": {"p": 5}}, "expected a column, a template or a !function, found 5"),
        ({"doc_to_image": {"a": "image"}}, r"doc_to_image: expected a column, a template or a !function, found"),
        ({"statistics": ["system_kendall"]}, r"rated.yaml:1: statistic 'system_kendall' needs doc_to_system"),
        ({"statistics": [{"statistic": "accuracy_eq", "by": "system"}]}, "needs doc_to_system"),
        ({"doc_to_human": {"p": "PP"}}, r"documents have no column 'PP'"),
    ],
)
def test_wrong_keys_are_refused_with_their_place(run, keys: dict[str, Any], message: str):
    with pytest.raises(TaskError, match=message):
        run(rows(), **keys)


SYSTEMS = {
    "doc_to_human": "R",
    "doc_to_system": "system",
    "statistics": ["system_kendall", "pairwise_accuracy", "soft_pairwise_accuracy", "accuracy_eq"],
}


def test_systems_are_ranked_by_their_means(run):
    done = run(rows(), {"resamples": 20}, **SYSTEMS)
    assert value_of(done, "system_kendall") == 1
    assert value_of(done, "pairwise_accuracy") == 1
    (result,) = [result for result in done.results if (result.metric, result.statistic) == ("length", "system_kendall")]
    assert result.p == pytest.approx(1 / 6)
    assert result.remark == "3 systems; interval over only 6 images; interval biased by resampling few systems"
    assert not done.record.significance  # too few images for letters
    assert (result.interval.low, result.interval.high) == (1, 1)
    assert done.samples["system"].to_pylist()[:3] == ["short", "middle", "long"]
    printed = render([done])
    assert "exact p = 0.167" in printed
    assert "ε = " in printed
    read = done.record.results["length.system_kendall"]
    assert (read.p, read.remark) == (result.p, result.remark)


def test_system_with_a_single_caption_is_refused_by_name(run):
    rated = [*rows(), rows()[0] | {"id": "x", "system": "other"}]
    with pytest.raises(DataError, match="1 of 4 systems have only one caption: 'other'"):
        run(rated, **SYSTEMS)
    assert run(rated, {"limit": 4}, **SYSTEMS).results


def test_row_without_a_system_or_category_is_named_and_left_out(run):
    rated = rows()
    rated[0]["system"], rated[1]["kind"] = None, " "
    done = run(rated, **SYSTEMS, doc_to_category="kind")
    assert [(failure["samples"], failure["reason"]) for failure in done.failures] == [
        ([rated[0]["id"]], "has no system"),
        ([rated[1]["id"]], "has no category"),
    ]


def test_categories_are_given_beside_all_or_their_mean(run):
    rated = rows()
    outdoor, indoor = ([row for row in rated if row["kind"] == kind] for kind in ("outdoor", "indoor"))
    keys = {"doc_to_human": "R", "doc_to_category": "kind"}
    done = run(rated, {"resamples": 20}, **keys)
    parts = [by_hand(KendallB(), part, "R") for part in (outdoor, indoor)]
    assert [(result.category, result.n) for result in done.results if result.metric == "length"] == [
        ("outdoor", 9),
        ("indoor", 9),
        ("", 18),
    ]
    assert [value_of(done, "kendall_b", kind) for kind in ("outdoor", "indoor")] == pytest.approx(parts)
    assert value_of(done, "kendall_b") == by_hand(KendallB(), rated, "R")
    assert all(result.interval.low is not None for result in done.results)
    mean = run(rated, **keys, protocol={"aggregate": "categories"})
    assert value_of(mean, "kendall_b") == pytest.approx(np.mean(parts))
    assert set(mean.record.results) >= {"length.kendall_b", "length.kendall_b.indoor"}


def test_influence_and_resamples_of_categories_agree(run):
    rated = rows(images=80)
    keys = {"doc_to_human": "R", "doc_to_category": "kind", "protocol": {"aggregate": "categories"}}
    errors = [
        [result.interval.stderr for result in run(rated, {"resamples": 200, "intervals": how}, **keys).results]
        for how in ("bootstrap", "influence")
    ]
    assert errors[1] == pytest.approx(errors[0], rel=0.25)


def test_finished_runs_are_compared_by_aspect_system_and_mean_of_categories(run, tmp_path):
    done = run(
        rows(),
        {"resamples": 50, "output_path": tmp_path / "runs"},
        doc_to_system="system",
        doc_to_category="kind",
        protocol={"aggregate": "categories"},
        statistics=["kendall_b", "system_kendall"],
    )
    (folder,) = (path.parent for path in (tmp_path / "runs").rglob("run.json"))
    for statistic in ("kendall_b.recall", "system_kendall.recall", "kendall_b.precision"):
        (compared,) = compare_runs([folder], CompareSettings(statistic=statistic, resamples=50))
        (length,) = [row for row in compared.compared if row.name == "length"]
        assert length.value == pytest.approx(value_of(done, statistic))
    (compared,) = compare_runs([folder], CompareSettings(resamples=50))
    assert compared.statistic_label == "τ-b precision"
    with pytest.raises(
        UsageError, match=r"unknown statistic 'kendall_b'. Did you mean 'kendall_b.precision' or 'kendall_b.recall'"
    ):
        compare_runs([folder], CompareSettings(statistic="kendall_b"))
