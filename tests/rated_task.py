"""A task of rated captions, whose metric is their number of words, and its runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from task_keys import AGREEMENT

import capbench
from capbench.benchmarks.records.task_run import TaskRun

TASK = {
    **AGREEMENT, "task": "rated", "doc_to_id": "id", "doc_to_human": "ratings", "metric_list": ["length"],
    "statistics": ["kendall_b", "kendall_c"],
}  # fmt: skip

UNRATED = dict.fromkeys(("doc_to_candidate", "doc_to_human", "doc_to_target", "statistics"))
"""Keys that choices between captions do not have."""


def write_rated(folder: Path, rows: Sequence[Mapping[str, Any] | str], **keys: Any) -> Path:
    """Write a task file (JSON is YAML) with keys of its own, None for those left out, and its rows; texts as they are.

    A task of another name than ``rated`` has its file and its rows by that name.
    """
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    name = keys.get("task", TASK["task"])
    file = "rows.jsonl" if name == TASK["task"] else f"{name}.jsonl"
    task = {**TASK, "dataset_kwargs": {"data_files": file}, **keys}
    (folder / file).write_text("\n".join(lines), encoding="utf-8")
    written = json.dumps({key: value for key, value in task.items() if value is not None})
    (folder / f"{name}.yaml").write_text(written, encoding="utf-8")
    return folder


def run_rated(
    folder: Path, rows: Sequence[Mapping[str, Any] | str], settings: Mapping[str, Any] | None = None, **keys: Any
) -> TaskRun:
    """Run the task over rows, without intervals unless the settings want some."""
    write_rated(folder, rows, **keys)
    return capbench.evaluate(tasks=["rated"], include_path=[folder], **{"resamples": 0, **(settings or {})})["rated"]
