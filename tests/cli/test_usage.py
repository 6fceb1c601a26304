"""Wrong usage: exit code 2 and the nearest name; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_help_explains_every_command_and_the_exit_codes(bench):
    done = bench("--help").succeeded()
    codes = "0 done, 1 something failed, 2 wrong usage."
    assert f"Exit codes: {codes}" in done.out
    for command in ("run", "compare", "score", "ls", "show", "data", "validate", "doctor", "store"):
        assert f"\n    {command} " in done.out
        assert bench(command, "--help").code == 0


def test_no_command_prints_the_help(bench):
    done = bench().failed(2)
    assert "commands:" in done.out


def test_version_is_printed(bench):
    done = bench("--version").succeeded()
    assert done.out.startswith("capbench 0.")


@pytest.mark.parametrize(("given", "nearest"), [("runn", "run"), ("doktor", "doctor"), ("lst", "ls")])
def test_unknown_command_names_the_nearest(bench, given: str, nearest: str):
    done = bench(given, "--task", "iiw_400").failed(2, f"unknown command '{given}'. Did you mean '{nearest}'?")
    assert done.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run --task iiw_40 --model iiw-p5b", "unknown task 'iiw_40'. Did you mean 'iiw_400'?"),
        ("run --task , --model iiw-p5b", "no task was named"),
        ("run --task iiw_400 --model iiw-p5", "unknown model 'iiw-p5'. Did you mean 'iiw-p5b'?"),
        ("run --task iiw_400", "task 'iiw_400' scores the captions of a model, and none was named."),
        ("run --task iiw_400 --model iiw-p5b --metrics lenght", "unknown metric 'lenght'. Did you mean 'length'?"),
        ("run --task iiw_400 --model iiw-p5b --metrics ,", "--metrics: no metric was named"),
        ("run --task iiw_400 --model iiw-p5b --model_args name", "expected key=value, found 'name'"),
        ("run --task iiw_400 --model iiw-p5b --gen_kwargs x", "--gen_kwargs x: expected key=value"),
        ("run --task iiw_400 --model iiw-p5b --data x", "--data x: expected TASK=PATH"),
        (
            "run --task iiw_400 --model iiw-p5b --data iiw_40=x",
            "--data iiw_40: unknown task 'iiw_40'. Did you mean 'iiw_400'?",
        ),
        ("run --task iiw_400 --model iiw-p5b --include_path nowhere", "nowhere: there is no such folder"),
        ("run --task iiw_400 --model iiw-p5b --limit 0", "expected a whole number above 0, found '0'"),
        ("run --task iiw_400 --model iiw-p5b --limit ten", "expected a whole number above 0, found 'ten'"),
        ("run --task iiw_400 --model iiw-p5b --limit ²", "expected a whole number above 0, found '²'"),
        ("run --task iiw_400 --model iiw-p5b --batch_size -3", "expected a whole number above 0, found '-3'"),
        ("run --task iiw_400 --model iiw-p5b --bootstrap -1", "expected a whole number, 0 or above, found '-1'"),
        ("run --task iiw_400 --model iiw-p5b --seed 1.5", "expected a whole number, 0 or above, found '1.5'"),
        ("run --task iiw_400 --model iiw-p5b --format githb", "invalid choice: 'githb' (choose from 'github'"),
        ("run --model iiw-p5b", "no task was named"),
        ("run --task iiw_400 --model iiw-p5b --fromat csv", "'--fromat'. Did you mean '--format'?"),
        ("score nowhere.jsonl --metrics lenght", "unknown metric 'lenght'. Did you mean 'length'?"),
        ("score nowhere.jsonl", "the following arguments are required: --metrics"),
        ("score nowhere.jsonl --metrics length --output a.txt", "ending in .csv, .jsonl or .parquet"),
        ("compare", "the following arguments are required: RUN"),
        ("compare results --alpha 1", "expected a number between 0 and 1, found '1'"),
        ("show iiw_40", "unknown task 'iiw_40'. Did you mean 'iiw_400'?"),
        ("show", "the following arguments are required: task"),
        ("data iiw_40", "unknown task 'iiw_40'. Did you mean 'iiw_400'?"),
        ("data captioning", "'captioning' stands for"),
        ("validate iiw_40", "unknown task 'iiw_40'. Did you mean 'iiw_400'?"),
        ("ls metrix", "invalid choice: 'metrix'"),
        ("ls tasks --format csv", "invalid choice: 'csv'"),
        ("store", "the following arguments are required: ACTION"),
        ("store prune --older_than -1", "invalid"),
        ("store prune --older_than nan", "invalid"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_wrong(bench, arguments: str, message: str, tmp_path: Path):
    done = bench(*arguments.split())
    assert message in done.err
    assert done.code == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    assert not (tmp_path / "results").exists()


def test_unknown_adapter_argument_names_those_there_are(bench):
    bench("run", "--task", "iiw_400", "--model", "captions:x.jsonl", "--model_args", "pretraned=x").failed(
        2, "has no argument 'pretraned'", "Its arguments: path, name, subset."
    )
