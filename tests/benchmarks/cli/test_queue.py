"""What ``bench`` says of runs that others carry out, and of folders and files that keep it from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Bench = Callable[..., Any]


def test_jobs_that_are_to_be_submitted_are_no_error_and_have_a_status_of_their_own(
    run_small: Bench, bench: Bench, tmp_path: Path
):
    folder = tmp_path / "shared" / "small" / "units"
    for _ in range(2):
        done = run_small("--engine", "slurm", "--run_folder", tmp_path / "shared")
        assert (done.code, done.out) == (3, "")
        message = f"1 unit left for the queue; what submits the jobs: sh {folder}/submit.sh"
        assert done.err.splitlines() == [
            f"bench: {message}",
            f"'bench status {folder}' says how far they are; when they are through, the same command goes on.",
        ]
        assert (folder / "submit.sh").is_file()
    assert "0 of 1 unit done (0 %)\n0 documents computed" in bench("status", folder).out
    assert "3 jobs are written for a queue" in bench("--help").out


def test_folder_of_workers_that_cannot_be_written_is_refused_with_what_names_another(run_small: Bench):
    done = run_small("--engine", "slurm", "--run_folder", "/proc/none")
    assert done.code == 2
    assert "/proc/none/small/shelf: cannot be written" in done.err
    assert "Name a folder with --run_folder that this user may write" in done.err


def test_faults_of_a_cluster_file_are_named_whatever_is_done_with_it(run_small: Bench, tmp_path: Path):
    (tmp_path / "cluster.yaml").write_text("engine: local\npools: {gpu: {replicas: 2}}\n")
    for words in ((), ("--dry_run",)):
        done = run_small("--cluster", tmp_path / "cluster.yaml", *words)
        assert done.code == 2
        assert "cluster.yaml:2: unknown key 'gpu'" in done.err
