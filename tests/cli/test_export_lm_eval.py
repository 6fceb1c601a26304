"""``bench export lm-eval``: what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .conftest import Bench


def test_files_and_the_commands_that_run_them_are_printed(bench, write_task, tmp_path: Path):
    folder = write_task(metric_list=["length", "clip_s"])
    output, rows = tmp_path / "lm tasks", folder / "rows.jsonl"
    done = bench(
        "export", "lm-eval", "--tasks", "small,iiw_400", "-o", output, "--include_path", folder,
        "--data", f"small={rows}",
    )  # fmt: skip
    assert done.code == 0
    assert str(output / "capbench_small" / "capbench_small.yaml") in done.out
    assert f"lm_eval run --model dummy --include_path '{output}' --tasks capbench_small" in done.out
    assert "--model hf-multimodal --model_args pretrained=MODEL --apply_chat_template" in done.out
    assert f"data={str(rows)!r}" in (output / "capbench_small" / "utils.py").read_text()
    assert done.err == "small: metric clip_s is left out: it needs a model that encodes images and texts\n"


def test_metrics_are_read_as_bench_run_reads_them(bench: Bench, tmp_path: Path):
    options = ("--metrics", "length,cider[variant=plain]", "--text_only")
    done = bench("export", "lm-eval", "--tasks", "iiw_400", "-o", tmp_path, *options)
    assert "--model hf --model_args pretrained=MODEL" in done.out
    module = (tmp_path / "capbench_iiw_400" / "utils.py").read_text()
    assert "metrics=['length', 'cider[variant=plain]']" in module


def test_folder_that_cannot_be_written_is_named(bench: Bench, write_task: Callable[..., Path], tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = bench("export", "lm-eval", "--tasks", "small", "-o", tmp_path / "file", "--include_path", write_task())
    assert (done.code, "file/capbench_small: cannot be written" in done.err) == (2, True)
