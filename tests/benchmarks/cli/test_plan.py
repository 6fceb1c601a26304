"""``bench plan``: what a run would cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capbench.benchmarks.costs.table import SHIPPED

CLUSTER = """\
engine: ray
pools:
  cpu: {replicas: 8}
  captioner: {replicas: 4, gpus: 2}
"""


@pytest.fixture
def plan(bench, write_captioning_task):
    folder = write_captioning_task(metric_list=["bleu_4", "cider"])
    (folder / "captions.jsonl").write_text('{"id": "r0", "caption": "a dog"}\n')
    given = ("plan", "--include_path", folder, "--task", "small")
    return lambda *more: bench(*given, *more)


def values(outcome) -> dict:
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["tasks"]["small"]


def stages(found: dict) -> dict[str, dict]:
    return {one["stage"]: one for one in found["stages"]}


def test_recorded_captions_cost_nothing_and_rows_are_those_of_the_task(plan):
    found = values(plan("--model", "captions:tasks/captions.jsonl", "--format", "json"))
    assert (found["rows"], found["shards"], found["units"]) == (4, 1, 1)
    assert list(stages(found)) == ["start", "documents", "score", "intervals"]
    assert 0 < found["core_seconds"] == found["wall_seconds"]
    assert found["gpu_seconds"] == 0


def test_intervals_are_counted_as_a_run_makes_them_or_as_is_asked_for(plan):
    def why(rows: int, *more: str) -> str:
        given = ("--model", "captions:tasks/captions.jsonl", "--rows", rows, "--format", "json", *more)
        return stages(values(plan(*given)))["intervals"]["why"]

    assert why(999_999) == why(10**6, "--intervals", "bootstrap") == "resamples of documents"
    assert why(10**6) == why(10, "--intervals", "influence") == "influence of documents"


def test_table_says_where_figures_come_from(plan):
    told = plan("--model", "captions:tasks/captions.jsonl", "--rows", "1000000000").out
    assert "small: 1,000,000,000 documents in 200,000 shards" in told
    assert (
        "small: 1 document in 1 shard\n"
        in plan("--model", "captions:tasks/captions.jsonl", "--rows", "1").out
    )
    assert "measured elsewhere" in told
    assert "modelled" in told
    assert told.splitlines()[-1].endswith(f"({SHIPPED}).")


def test_figures_of_this_machine_come_before_those_that_ship(plan, monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "costs.yaml").write_text(SHIPPED.read_text())
    arguments = ("--model", "captions:tasks/captions.jsonl", "--rows", 10)
    assert "Figures measured here" in plan(*arguments).out
    assert "Figures measured elsewhere" in plan(*arguments, "--costs", SHIPPED).out


def test_speed_of_a_model_that_nobody_measured_is_asked_for(plan):
    arguments = ("--model", "shapes-llava", "--rows", 20_000, "--format", "json")
    unknown = values(plan(*arguments))
    assert (unknown["core_seconds"], unknown["wall_seconds"]) == (None, None)
    assert "--captions_per_second" in stages(unknown)["caption"]["why"]
    shown = plan(*arguments[:-2]).out
    assert "wall time: open" in shown

    known = values(plan(*arguments, "--captions_per_second", "100"))
    assert (known["units"], stages(known)["caption"]["units"]) == (4 + 4 + 32 + 4, 4)
    assert known["gpu_seconds"] == 200
    assert values(plan(*arguments, "--captions_per_second", 100, "--gpus", 0))["gpu_seconds"] == 0


def test_workers_are_those_of_the_cluster_file_or_processes(plan, tmp_path: Path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    arguments = (
        "--model",
        "shapes-llava",
        "--rows",
        40_000,
        "--captions_per_second",
        "10",
        "--format",
        "json",
    )
    alone, spread = values(plan(*arguments)), values(plan(*arguments, "--cluster", tmp_path / "cluster.yaml"))

    assert stages(alone)["caption"]["wall_seconds"] == 4000
    assert stages(spread)["caption"]["wall_seconds"] == 1000
    assert spread["gpu_seconds"] == 2 * alone["gpu_seconds"] == 8000
    assert stages(spread)["score"]["wall_seconds"] == pytest.approx(
        stages(alone)["score"]["wall_seconds"] / 8
    )
    assert alone["worker_bytes"] == 0 < spread["worker_bytes"]
    eight = values(plan(*arguments, "--processes", 8))
    assert stages(eight)["score"] == stages(spread)["score"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--rows", 0), "argument --rows: expected a whole number above 0, found '0'"),
        (("--captions_per_second", "fast"), "expected a number above 0, found 'fast'"),
        (("--images_per_second", "inf"), "expected a number above 0, found 'inf'"),
        (("--processes", 2, "--cluster", "c.yaml"), "not allowed with argument"),
        (("--costs", "bad.yaml"), "bad.yaml:1: unknown key 'machines'. Did you mean 'machine'?"),
        (("--model", "nobody"), "nobody"),
    ],
)
def test_faults_are_named(plan, tmp_path: Path, more: tuple, message: str):
    (tmp_path / "bad.yaml").write_text("machines: none\n")
    found = plan("--model", "captions:tasks/captions.jsonl", *more)
    assert found.code == 2
    assert message in found.err


def test_number_of_documents_is_asked_for_where_they_cannot_be_read(plan, tmp_path: Path):
    (tmp_path / "tasks" / "rows.jsonl").write_text("")
    found = plan("--model", "captions:tasks/captions.jsonl")
    assert found.code == 1
    assert "no document could be read from" in found.err
    assert found.err.splitlines()[-1] == "Or say for how many documents: --rows N."
    assert plan("--model", "captions:tasks/captions.jsonl", "--rows", 5).code == 0


def test_help_teaches(bench):
    told = bench("plan", "--help").out
    for word in ("measured here", "measured elsewhere", "modelled", "given", "open", "example:"):
        assert word in told
