"""``bench export lm-eval``: tasks as folders that a stock lm-eval runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..interchange.lm_eval_tasks import ExportedTask


def export(
    tasks: Sequence[str],
    output: Path,
    *,
    metrics: Sequence[str] = (),
    include_path: Sequence[str | Path] = (),
    data: Sequence[str] = (),
    allow_outside: Sequence[str | Path] = (),
    text_only: bool = False,
) -> int:
    """Write the task folders, and print the files and the commands that run them.

    Args:
        tasks: Names of tasks, groups or tags.
        output: Folder for the task folders.
        metrics: Metrics in place of those of the tasks.
        include_path: Folders with task files of one's own.
        data: ``TASK=PATH``, local data of a task.
        allow_outside: Folders besides, whose files the tasks may read.
        text_only: Show lm-eval's model no images.

    Returns:
        The exit code: 0.

    Raises:
        BenchError: A name is unknown, a task cannot be exported, or a file cannot be written.
    """
    from ...tasks.index import build_index
    from ...tasks.locate import DataLocations, parse_data_options
    from ..inputs.metric_names import split_metrics
    from ..interchange.lm_eval_tasks import plan_export, write_tasks

    index = build_index(include_path)
    locations = DataLocations.from_environment(
        index.expand_names(parse_data_options(list(data))), allow_outside
    )
    exported = plan_export(
        tasks,
        index,
        metrics=split_metrics(metrics),
        locations=locations,
        text_only=text_only,
        tell=lambda message: print(message, file=sys.stderr),
    )
    for path in write_tasks(exported, output):
        print(path)
    _say_how_to_run(exported, output)
    return 0


def _say_how_to_run(exported: Sequence[ExportedTask], output: Path) -> None:
    kinds = {
        "--model dummy": [one.name for one in exported if not one.generates],
        "--model hf-multimodal --model_args pretrained=MODEL --apply_chat_template": [
            one.name for one in exported if one.images
        ],
        "--model hf --model_args pretrained=MODEL": [
            one.name for one in exported if one.generates and not one.images
        ],
    }
    print("\nRun them, with capbench installed beside lm-eval:")
    for model, names in kinds.items():
        if names:
            print(
                f"  lm_eval run {model} --include_path {shlex.quote(str(output))} "
                f"--tasks {shlex.quote(','.join(names))}"
            )
