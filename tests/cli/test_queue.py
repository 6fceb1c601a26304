"""What ``bench`` says of runs that others carry out, and of folders and files that keep it from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Bench = Callable[..., Any]


def test_folder_of_workers_that_cannot_be_written_is_refused_with_what_names_another(run_small: Bench):
    run_small("--engine", "slurm", "--run_folder", "/proc/none").failed(
        2, "/proc/none/small: cannot be written", "Name a folder with --run_folder that this user may write"
    )


def test_faults_of_a_cluster_file_are_named_whatever_is_done_with_it(run_small: Bench, tmp_path: Path):
    (tmp_path / "cluster.yaml").write_text("engine: local\npools: {gpu: {replicas: 2}}\n")
    for words in ((), ("--dry_run",)):
        run_small("--cluster", tmp_path / "cluster.yaml", *words).failed(2, "cluster.yaml:2: unknown key 'gpu'")
