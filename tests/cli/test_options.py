"""Which engine the options ask for."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from capbench.benchmarks.running.execution import Execution
from capbench.benchmarks.scale.executors import Executor, LocalExecutor, Resources
from capbench.benchmarks.scale.ray import RayExecutor
from capbench.benchmarks.scale.slurm import SlurmExecutor
from capbench.cli.options import ENGINE, add_options, execution_of
from capbench.errors import UsageError
from capbench.permissions import Permissions, permit


def place(*words: str, has_models: bool = True) -> Execution:
    parser = argparse.ArgumentParser()
    add_options(parser, "--store", *ENGINE)
    return execution_of(parser.parse_args(words), has_models=has_models)


def engine(*words: str) -> Executor | None:
    return place(*words).executor


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
    several = place(has_models=False)
    assert isinstance(several.executor, LocalExecutor)
    assert (several.executor.processes, several.only_shards) == (None, True)


def test_folder_of_the_cluster_file_is_taken_where_none_is_named(tmp_path: Path):
    (tmp_path / "cluster.yaml").write_text("engine: local\nrun_folder: s3://bucket\n")
    words = ("--cluster", str(tmp_path / "cluster.yaml"))
    with permit(Permissions(servers=("bucket",))):
        assert place(*words).folder == "s3://bucket"
        assert place(*words, "--run_folder", "mine").folder == "mine"
    assert place().folder is None


def test_options_name_the_engine():
    several, cluster, own = (engine("--processes", "3"), engine("--address", "head:6379"), engine("--engine", "ray"))
    assert isinstance(several, LocalExecutor)
    assert isinstance(cluster, RayExecutor)
    assert isinstance(own, RayExecutor)
    auto = engine("--processes", "auto")
    assert isinstance(auto, LocalExecutor)
    assert auto.processes is None
    assert (several.processes, cluster.address, own.address) == (3, "head:6379", "auto")


def test_cluster_file_says_the_rest_and_options_come_first(cluster: str):
    with permit(Permissions(servers=("head",))):
        queue, ray, local = (
            engine("--cluster", cluster, *words) for words in ([], ["--engine", "ray"], ["--engine", "local"])
        )
    pool = Resources(gpus=2, role="captioner", workers=5)
    assert isinstance(queue, SlurmExecutor)
    assert (queue.pools, queue.slots, queue.options) == ({"captioner": pool}, 4, ["--time=1:00"])
    assert isinstance(ray, RayExecutor)
    assert (ray.address, ray.pools) == ("head:1", {"captioner": pool})
    assert isinstance(local, LocalExecutor)
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


def test_number_of_processes_that_is_none_names_what_is_taken(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        engine("--processes", "0")
    assert "expected a whole number above 0, found '0'; or 'auto'" in capsys.readouterr().err
