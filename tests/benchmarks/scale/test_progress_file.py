"""How far a run is, as its driver writes it and another process reads it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from capbench.benchmarks.scale import progress_file
from capbench.benchmarks.scale.progress_file import (
    PROGRESS_FILE,
    duration,
    progress_folders,
    progress_lines,
    progress_written,
)
from capbench.errors import DataError
from capbench.progress import silent


@pytest.fixture(autouse=True)
def _written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_file, "_WRITE_SECONDS", 0.0)


def test_driver_and_its_steps_are_told_while_it_works_and_after(tmp_path: Path):
    told: list[tuple[str, int, int]] = []
    with progress_written(tmp_path / "run", lambda step: lambda *how: told.append((step, *how))) as progress:
        captions, scores = progress("captions"), progress("cider")
        captions(0, 10)
        time.sleep(0.01)
        captions(5, 10)
        scores(0, 3)
        state, rows = progress_lines(tmp_path / "run")
        assert state.startswith("running on ")
        assert str(os.getpid()) in state
        assert [(row["step"], row["done"], row["of"]) for row in rows] == [("captions", 5, 10), ("cider", 0, 3)]
        assert rows[0]["a second"] > 0
        assert rows[0]["left"] == "0:00:00"
        assert rows[1]["left"] is None
    assert progress_lines(tmp_path / "run")[0] == "done"
    assert told == [("captions", 0, 10), ("captions", 5, 10), ("cider", 0, 3)]


def test_what_was_done_before_is_no_speed(tmp_path: Path):
    with progress_written(tmp_path, silent) as progress:
        progress("shards")(90, 100)
        assert progress_lines(tmp_path)[1][0]["a second"] is None


def test_error_that_ended_a_run_is_told(tmp_path: Path):
    with pytest.raises(DataError), progress_written(tmp_path, silent):
        raise DataError("no data", "Get some.")
    assert progress_lines(tmp_path)[0] == "no data. Get some."
    with pytest.raises(KeyboardInterrupt), progress_written(tmp_path, silent):
        raise KeyboardInterrupt
    assert progress_lines(tmp_path)[0] == "interrupted"


def test_driver_that_writes_nothing_for_long_is_quiet(tmp_path: Path):
    with progress_written(tmp_path, silent):
        file = tmp_path / PROGRESS_FILE
        file.write_text(json.dumps(json.loads(file.read_text()) | {"updated": time.time() - 100}))
        assert progress_lines(tmp_path)[0].startswith("quiet for 100 s")


def test_folders_of_all_tasks_are_found(tmp_path: Path):
    for task in ("b", "a"):
        with progress_written(tmp_path / task, silent):
            pass
    assert progress_folders(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(DataError, match="no run has written here"):
        progress_lines(tmp_path)


def test_duration_is_hours_minutes_and_seconds():
    assert duration(3 * 3600 + 4 * 60 + 5.4) == "3:04:05"
