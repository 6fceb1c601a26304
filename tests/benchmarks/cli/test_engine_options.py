"""Which engine the options ask for."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from capbench.benchmarks.cli.engine_options import add_engine_options, duration, where_work_is_done
from capbench.benchmarks.engines.contract import Pool
from capbench.benchmarks.engines.local import LocalEngine
from capbench.benchmarks.engines.ray import RayEngine
from capbench.benchmarks.engines.slurm import SlurmEngine
from capbench.benchmarks.running.engaging import EngineChoice
from capbench.errors import UsageError
from capbench.permissions import Permissions, permit


def place(*words: str, has_models: bool = True) -> tuple[str | None, EngineChoice | None]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store")
    add_engine_options(parser)
    return where_work_is_done(parser.parse_args(words), has_models=has_models)


def engine(*words: str) -> object:
    _, choice = place(*words)
    return choice and choice.engine


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "engine: slurm\naddress: head:1\nprocesses: 3\npools: {captioner: {gpus: 2, replicas: 5}}\n"
        "slurm: {slots: 4, options: [--time=1:00]}\n"
    )
    return str(file)


def test_without_options_models_run_in_this_process_and_what_is_more_than_a_shard_without_them_in_several():
    assert engine() is engine("--processes", "1") is None
    _, several = place(has_models=False)
    assert several is not None
    assert isinstance(several.engine, LocalEngine)
    assert (several.engine.processes, several.only_shards) == (None, True)


def test_store_of_the_cluster_file_is_taken_where_none_is_named(tmp_path: Path):
    (tmp_path / "cluster.yaml").write_text("engine: local\nstore: s3://bucket\n")
    words = ("--cluster", str(tmp_path / "cluster.yaml"))
    with permit(Permissions(servers=("bucket",))):
        assert place(*words)[0] == "s3://bucket"
        assert place(*words, "--store", "mine/")[0] == "mine/"
    assert place()[0] is None


def test_options_name_the_engine():
    several, cluster, own = (
        engine("--processes", "3"),
        engine("--address", "head:6379"),
        engine("--engine", "ray"),
    )
    assert isinstance(several, LocalEngine)
    assert isinstance(cluster, RayEngine)
    assert isinstance(own, RayEngine)
    auto = engine("--processes", "auto")
    assert isinstance(auto, LocalEngine)
    assert auto.processes is None
    assert (several.processes, cluster.address, own.address) == (3, "head:6379", "auto")


def test_cluster_file_says_the_rest_and_options_come_first(cluster: str):
    with permit(Permissions(servers=("head",))):
        queue, ray, local = (
            engine("--cluster", cluster, *words) for words in ([], ["--engine", "ray"], ["--engine", "local"])
        )
    pool = Pool("captioner", 5, gpus=2)
    assert isinstance(queue, SlurmEngine)
    assert (queue.pools, queue.slots, queue.options) == ({"captioner": pool}, 4, ["--time=1:00"])
    assert isinstance(ray, RayEngine)
    assert (ray.address, ray.pools) == ("head:1", {"captioner": pool})
    assert isinstance(local, LocalEngine)
    assert (local.processes, local.pools) == (3, {"captioner": pool})


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--engine", "ray", "--processes", "2"], "--processes is of the engine 'local', and this is 'ray'"),
        (["--engine", "local", "--address", "auto"], "--address is of the engine 'ray', and this is 'local'"),
    ],
)
def test_option_of_another_engine_is_refused(words: list[str], fault: str):
    with pytest.raises(UsageError, match=fault):
        engine(*words)


@pytest.mark.parametrize("words", [[], ["--processes", "1"], ["--engine", "local"]])
def test_folder_of_workers_is_refused_where_there_are_none(words: list[str]):
    with pytest.raises(UsageError, match="--run_folder is of workers"):
        place("--run_folder", "run", *words)
    _, choice = place("--run_folder", "run", "--processes", "2")
    assert choice is not None
    assert choice.folder == Path("run")


def test_number_of_processes_that_is_none_names_what_is_taken(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        engine("--processes", "0")
    assert "expected a whole number above 0, found '0'; or 'auto'" in capsys.readouterr().err


def test_duration_is_in_hours_minutes_and_seconds():
    assert [duration(seconds) for seconds in (0, 59.6, 3661, 360000)] == [
        "0:00:00",
        "0:01:00",
        "1:01:01",
        "100:00:00",
    ]
