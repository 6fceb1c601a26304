"""``bench export lm-eval``: what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from capbench.benchmarks.cli.export_lm_eval import export
from capbench.errors import UsageError


def test_files_and_the_commands_that_run_them_are_printed(
    write_task: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = write_task(metric_list=["length", "clip_s"])
    output = tmp_path / "lm tasks"
    rows = folder / "rows.jsonl"
    assert export(["small", "iiw_400"], output, include_path=[folder], data=[f"small={rows}"]) == 0
    printed = capsys.readouterr()
    assert str(output / "capbench_small" / "capbench_small.yaml") in printed.out
    assert f"lm_eval run --model dummy --include_path '{output}' --tasks capbench_small" in printed.out
    assert "--model hf-multimodal --model_args pretrained=MODEL --apply_chat_template" in printed.out
    assert f"data={str(rows)!r}" in (output / "capbench_small" / "utils.py").read_text()
    assert printed.err == "small: metric clip_s is left out: it needs a model that encodes images and texts\n"


def test_metrics_are_read_as_bench_run_reads_them(
    write_task: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    metrics = ["length,cider[variant=plain]"]
    export(["iiw_400"], tmp_path, metrics=metrics, include_path=[write_task()], text_only=True)
    assert "--model hf --model_args pretrained=MODEL" in capsys.readouterr().out
    module = (tmp_path / "capbench_iiw_400" / "utils.py").read_text()
    assert "metrics=['length', 'cider[variant=plain]']" in module


def test_folder_that_cannot_be_written_is_named(write_task: Callable[..., Path], tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/capbench_small: cannot be written"):
        export(["small"], tmp_path / "file", include_path=[write_task()])
