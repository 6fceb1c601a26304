"""How far a run is, as its driver writes it and ``bench status`` reads it in another process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capbench.benchmarks.scale import progress_file
from capbench.benchmarks.scale.progress_file import PROGRESS_FILE, progress_written
from capbench.cli.status import state_of
from capbench.errors import DataError
from capbench.progress import silent

_WRITE_SECONDS = progress_file._WRITE_SECONDS


@pytest.fixture(autouse=True)
def _written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_file, "_WRITE_SECONDS", 0.0)


def test_file_is_written_at_most_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress_file, "_WRITE_SECONDS", _WRITE_SECONDS)
    now = 100.0
    monkeypatch.setattr(progress_file.time, "monotonic", lambda: now)
    with progress_written(tmp_path, silent) as progress:
        report = progress("shards")
        for now, written in ((100.9, []), (101.1, [2]), (102.0, [2]), (102.2, [4])):
            report(round(now * 2 - 200), 9)
            steps = json.loads((tmp_path / PROGRESS_FILE).read_text())["steps"]
            assert [step["done"] for step in steps.values()] == written


def test_speed_is_of_what_was_done_since_it_began(tmp_path: Path):
    file = tmp_path / PROGRESS_FILE
    with progress_written(tmp_path, silent) as progress:
        report = progress("shards")
        report(90, 100)
        assert state_of(file)[1][0]["a second"] is None
        report(94, 100)
        kept = json.loads(file.read_text())
    kept["steps"]["shards"] |= {"began": 1000.0, "updated": 1000.0 + 2 * (3 * 3600 + 4 * 60 + 5.4) / 3}
    file.write_text(json.dumps(kept))
    assert state_of(file)[1] == [{"step": "shards", "done": 94, "of": 100, "a second": 0.0, "left": "3:04:05"}]


def test_error_that_ended_a_run_is_told(tmp_path: Path):
    with pytest.raises(DataError), progress_written(tmp_path, silent):
        raise DataError("no data", "Get some.")
    assert state_of(tmp_path / PROGRESS_FILE)[0] == "no data. Get some."
    with pytest.raises(KeyboardInterrupt), progress_written(tmp_path, silent):
        raise KeyboardInterrupt
    assert state_of(tmp_path / PROGRESS_FILE)[0] == "interrupted"


def test_tasks_of_a_run_are_told_in_order(bench, tmp_path: Path):
    for task in ("b", "a"):
        with progress_written(tmp_path / task, silent):
            pass
    assert bench("status", tmp_path).succeeded().out == f"{tmp_path}/a: done\n\n{tmp_path}/b: done\n"
    bench("status", tmp_path / "c").failed(1, "holds no progress file of a run")
