"""Wrong usage: exit code 2 and the nearest name; nothing is started."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from capbench.benchmarks.running.execution import Execution
from capbench.benchmarks.scale.executors import Executor, LocalExecutor, Resources
from capbench.benchmarks.scale.ray import RayExecutor
from capbench.benchmarks.scale.slurm import SlurmExecutor
from capbench.cli.options import ENGINE, add_options, execution_of
from capbench.errors import UsageError
from capbench.permissions import Permissions, permit

from .conftest import WRONG_USAGE


def test_option_that_is_given_twice_is_refused(bench):
    bench("score", "captions.jsonl", "--metrics", "cider", "--model", "a", "--model", "b").failed(
        2, "--model is given twice"
    )


def test_options_of_lm_eval_are_told_what_to_type_here(bench):
    advised = yaml.safe_load((Path(__file__).parents[2] / "cli" / "advice.yaml").read_text())
    page = (Path(__file__).parents[2] / "docs" / "lm_eval.md").read_text()
    known = bench("run", "--help").out + bench("export", "--help").out
    for option, advice in advised.items():
        bench("run", "--task", "iiw_400", option, "value").failed(2, f"'{option}'.\n{advice}")
        assert f"`{option}`" in page
        assert all(f" {name} " in known for name in re.findall(r"--\w+", advice))
    bench("run", "--task", "iiw_400", "--samples={}", "--limits").failed(
        2, advised["--samples"], "'--limits'. Did you mean '--limit'?"
    )


def test_help_explains_every_command_and_the_exit_codes_and_the_version_is_printed(bench):
    done = bench("--help").succeeded()
    codes = "0 done, 1 something failed, 2 wrong usage."
    assert f"Exit codes: {codes}" in done.out
    for command in ("run", "compare", "score", "ls", "show", "data", "validate", "doctor", "store"):
        assert f"\n    {command} " in done.out
        assert bench(command, "--help").code == 0
    assert "commands:" in bench().failed(2).out
    assert bench("--version").succeeded().out.startswith("capbench 0.")


@pytest.mark.parametrize(("command", "nearest"), [("runn", "run"), ("doktor", "doctor"), ("lst", "ls")])
def test_unknown_command_names_the_nearest(bench, command: str, nearest: str):
    done = bench(command, "--task", "iiw_400").failed(2, f"unknown command '{command}'. Did you mean '{nearest}'?")
    assert done.out == ""


@pytest.mark.parametrize(("arguments", "message"), WRONG_USAGE["bench"].items())
def test_wrong_usage_exits_2_and_says_what_is_wrong(bench, arguments: str, message: str, tmp_path: Path):
    done = bench(*arguments.split()).failed(2, message)
    assert done.out == ""
    assert "Traceback" not in done.err
    assert not (tmp_path / "results").exists()


# -- Which engine the options ask for


def place(*words: str, has_models: bool = True) -> Execution:
    parser = argparse.ArgumentParser()
    add_options(parser, "--store", *ENGINE)
    return execution_of(parser.parse_args(words), has_models=has_models)


def engine(*words: str) -> Executor | None:
    return place(*words).executor


def test_without_options_models_run_in_this_process_and_what_is_more_than_a_shard_without_them_in_several():
    assert engine() is engine("--processes", "1") is None
    several = place(has_models=False)
    assert (several.executor, several.only_shards) == (LocalExecutor(), True)


def test_folder_of_the_cluster_file_is_taken_where_none_is_named(tmp_path: Path):
    (tmp_path / "cluster.yaml").write_text("engine: local\nrun_folder: s3://bucket\n")
    words = ("--cluster", str(tmp_path / "cluster.yaml"))
    with permit(Permissions(servers=("bucket",))):
        assert place(*words).folder == "s3://bucket"
        assert place(*words, "--run_folder", "mine").folder == "mine"
    assert place().folder is None


def test_options_name_the_engine(capsys: pytest.CaptureFixture[str]):
    assert engine("--processes", "3") == LocalExecutor(3)
    assert engine("--processes", "auto") == LocalExecutor(None)
    for words, address in ((("--address", "head:6379"), "head:6379"), (("--engine", "ray"), "auto")):
        ray = engine(*words)
        assert isinstance(ray, RayExecutor)
        assert ray.address == address
    with pytest.raises(SystemExit):
        engine("--processes", "0")
    assert "expected a whole number above 0, found '0'; or 'auto'" in capsys.readouterr().err


def test_cluster_file_says_the_rest_and_options_come_first(tmp_path: Path):
    cluster = str(tmp_path / "cluster.yaml")
    Path(cluster).write_text(
        "engine: slurm\naddress: head:1\nprocesses: 3\npools: {captioner: {gpus: 2, replicas: 5}}\n"
        "slurm: {slots: 4, options: [--time=1:00]}\n"
    )
    pools = {"captioner": Resources(gpus=2, role="captioner", workers=5)}
    with permit(Permissions(servers=("head",))):
        assert engine("--cluster", cluster) == SlurmExecutor(4, ["--time=1:00"], pools=pools)
        assert engine("--cluster", cluster, "--engine", "local") == LocalExecutor(3, pools=pools)
        ray = engine("--cluster", cluster, "--engine", "ray")
    assert isinstance(ray, RayExecutor)
    assert (ray.address, ray.pools) == ("head:1", pools)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--engine", "ray", "--processes", "2"], "--processes goes with the engine 'local', not 'ray'"),
        (["--engine", "local", "--address", "auto"], "--address goes with the engine 'ray', not 'local'"),
    ],
)
def test_option_of_another_engine_is_refused(words: list[str], fault: str):
    with pytest.raises(UsageError, match=fault):
        engine(*words)


# -- What answers at once imports nothing heavy


HEAVY = ["torch", "transformers", "datasets", "evaluate", "pandas", "scipy"]
_MAIN = """
from capbench.cli.main import main
try:
    main({arguments})
except SystemExit:
    pass
"""


def imported(code: str) -> set[str]:
    """Return the packages that a fresh interpreter has imported after running some code."""
    report = "\nimport sys; print('MODULES', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.rpartition("MODULES")[2].split()}


def test_help_and_lists_import_nothing_heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    # Suites: without data and images nothing is asked of models, which are not here.
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    for folder in ("flickr8k/images", "dci"):
        Path(os.environ["BENCH_CACHE"], "data", folder).mkdir(parents=True)
    commands = [f"{command} --help" for command in ("run", "compare", "leaderboard build")]
    commands += [f"ls {kind}" for kind in ("tasks", "models", "tags", "suites")]
    code = "".join(_MAIN.format(arguments=words.split()) for words in commands)
    assert imported(code).isdisjoint([*HEAVY, "open_clip"])


def test_capbench_and_its_help_do_not_even_import_numpy_or_yaml():
    code = "import capbench" + "".join(_MAIN.format(arguments=[word]) for word in ("--help", "--version"))
    assert imported(code).isdisjoint(["numpy", "yaml", "pydantic", *HEAVY])


def test_run_of_a_text_metric_imports_no_model_library(tmp_path: Path):
    arguments = ["run", "--task", "iiw_400", "--model", "iiw-p5b", "--metrics", "length", "--bootstrap", "10"]
    arguments += ["--output_path", str(tmp_path / "runs")]
    assert imported(_MAIN.format(arguments=arguments)).isdisjoint(["torch", "transformers", "datasets", "scipy"])
