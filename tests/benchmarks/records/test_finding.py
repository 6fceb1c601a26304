"""Finding runs: by their folder, by a folder above them, by their record."""

from __future__ import annotations

from pathlib import Path

import pytest
from finished_runs import make_record, write_record

from capbench.benchmarks.records.reading import find_records, runs_below


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write two runs of one task, one of another, and a folder without any."""
    for key in ("b/model/2", "b/model/1", "a/no-model/1"):
        write_record(tmp_path / "runs", key, make_record())
    (tmp_path / "runs/empty").mkdir()
    return tmp_path / "runs"


def test_runs_are_found_in_the_order_of_their_paths(runs: Path):
    assert list(runs_below(runs)) == [runs / key for key in ("a/no-model/1", "b/model/1", "b/model/2")]
    assert list(runs_below(runs / "b/model/1")) == [runs / "b/model/1"]
    assert list(runs_below(runs / "nowhere")) == []


def test_each_run_is_found_once_however_often_it_is_named(runs: Path):
    first = runs / "b/model/1"
    found, errors = find_records([first / "run.json", first, runs / "b", runs / "a/../b/model/2"])
    assert found == [first / "run.json", runs / "b/model/2/run.json"]
    assert errors == []


def test_place_without_runs_and_place_that_is_not_there_are_told_apart(runs: Path):
    found, (empty, missing) = find_records([runs / "empty", runs / "a", runs / "nowhere"])
    assert found == [runs / "a/no-model/1/run.json"]
    assert empty.message == f"{runs / 'empty'}: has no runs (no run.json below it)"
    assert missing.message == f"{runs / 'nowhere'}: there is no such folder"
    assert empty.hint == missing.hint and "'bench run' prints" in empty.hint


def test_links_to_folders_are_named_and_not_followed(runs: Path, tmp_path: Path):
    write_record(tmp_path / "outside", "run", make_record())
    (runs / "loop").symlink_to(runs)
    (runs / "away").symlink_to(tmp_path / "outside")
    passed: list[tuple[str, str]] = []
    found = list(runs_below(runs, lambda folder, reason: passed.append((folder.name, reason))))
    assert len(found) == 3
    reason = "is a link to another folder, and such links are not followed"
    assert passed == [("away", reason), ("loop", reason)]
