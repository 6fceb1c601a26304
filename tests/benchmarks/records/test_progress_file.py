"""How far a run is, as its driver writes it."""

import json
import os
import subprocess
import sys

import pytest

from capbench.atomic_files import draft_beside
from capbench.benchmarks.records import progress_file
from capbench.benchmarks.records.progress_file import PROGRESS_FILE, in_progress, progress_written
from capbench.errors import DataError
from capbench.progress import silent


def test_file_is_written_at_most_once_a_second(tmp_path, monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(progress_file.time, "monotonic", lambda: now)
    folder, heard = tmp_path / "new" / "run", list[int]()
    with progress_written(folder, lambda step: lambda done, total: heard.append(done)) as progress:
        report = progress("shards")
        for now, written in ((100.75, []), (101.0, [2]), (101.75, [2]), (102.0, [4])):
            report(round(now * 2 - 200), 9)
            steps = json.loads((folder / PROGRESS_FILE).read_text())["steps"]
            assert [step["done"] for step in steps.values()] == written
    assert heard == [2, 2, 4, 4]


def test_error_that_ended_a_run_is_told(tmp_path):
    with pytest.raises(DataError), progress_written(tmp_path, silent):
        raise DataError("no data", "Get some.")
    assert json.loads((tmp_path / PROGRESS_FILE).read_text())["end"] == "no data. Get some."
    with pytest.raises(KeyboardInterrupt), progress_written(tmp_path, silent):
        raise KeyboardInterrupt
    assert json.loads((tmp_path / PROGRESS_FILE).read_text())["end"] == "interrupted"


def test_runs_that_are_being_written_are_listed_and_others_are_not(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    own = draft_beside(tmp_path / "task")
    killed = own.with_name(own.name.replace(f"-{os.getpid()}-", f"-{ended.stdout.strip()}-"))
    faulty = tmp_path / ".draft-elsewhere-1-1"
    for place, text in ((faulty, '{"task": "<b>", "steps": [1]}'), (killed, "{}")):
        place.mkdir()
        (place / PROGRESS_FILE).write_text(text)
    with progress_written(own, silent, task="small", model="<i>") as progress:
        (entry,) = in_progress(tmp_path)
        assert (entry["task"], entry["model"], entry["step"]) == ("small", "<i>", "data")
        (killed / PROGRESS_FILE).write_text((own / PROGRESS_FILE).read_text())
        progress("cider")(0, 1200)
    (entry,) = in_progress(tmp_path)
    assert (entry["step"], entry["done"]) == ("cider", "0 of 1,200")
