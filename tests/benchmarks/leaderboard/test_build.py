from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import pytest
from finished_runs import make_record, write_many, write_record

from capbench.benchmarks.leaderboard.build import build
from capbench.benchmarks.leaderboard.diff import differences
from capbench.errors import DataError, UsageError


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with two runs."""
    write_record(tmp_path / "runs", "one", make_record())
    write_record(tmp_path / "runs", "two", make_record("other"))
    return tmp_path / "runs"


def test_empty_folder_gives_an_empty_leaderboard(tmp_path: Path):
    build(tmp_path / "nowhere", tmp_path / "board")
    assert sorted(contents(tmp_path / "board")) == ["README.md", "index.html", "leaderboard.csv", "leaderboard.json"]
    assert differences(tmp_path / "nowhere", tmp_path / "board") == []


def test_manifest_lists_all_files_and_nothing_else_is_left_behind(runs: Path, tmp_path: Path):
    build(runs, tmp_path / "board")
    made = contents(tmp_path / "board")
    assert json.loads(made["leaderboard.json"])["files"] == sorted(made)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_files_that_are_no_longer_made_go_and_those_of_others_stay(runs: Path, tmp_path: Path):
    output = tmp_path / "board"
    build(runs, output)
    (output / "notes.txt").write_text("mine")
    assert (output / "latex/other-1-0.tex").exists()
    (runs / "two/run.json").unlink()
    build(runs, output)
    assert not (output / "latex/other-1-0.tex").exists()
    assert (output / "notes.txt").read_text() == "mine"
    (runs / "one/run.json").unlink()
    build(runs, output)
    assert not (output / "latex").exists()


def kill_build(runs: Path, output: Path, call: str, number: int) -> None:
    """Build in another process, which is killed as it makes a call for the so-many-th time."""
    owners: dict[str, Any] = {"replace": Path, "unlink": Path, "rmtree": shutil}
    made, count = getattr(owners[call], call), itertools.count(1)

    def counted(*arguments: Any, **options: Any) -> Any:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return made(*arguments, **options)

    def build_until_killed() -> None:
        setattr(owners[call], call, counted)
        build(runs, output)

    assert forked.carried_out(build_until_killed) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("call", "number"), [("replace", 1), ("replace", 8), ("unlink", 1), ("unlink", 2), ("rmtree", 1)]
)
def test_build_after_killed_ones_leaves_what_an_undisturbed_one_leaves(
    runs: Path, tmp_path: Path, call: str, number: int
):
    output = tmp_path / "board"
    build(runs, output)
    write_record(runs, "three", make_record("third"))
    (runs / "two").rename(tmp_path / "two")
    kill_build(runs, output, call, number)
    # What the killed build had placed of the third run must go with that run, also after another kill.
    (tmp_path / "two").rename(runs / "two")
    (runs / "three/run.json").unlink()
    kill_build(runs, output, "replace", 2)
    build(runs, output)
    build(runs, tmp_path / "undisturbed")
    assert contents(output) == contents(tmp_path / "undisturbed")
    assert not list(output.glob(".*"))


@pytest.mark.parametrize("listed", [["../precious"], ["/{tmp}/precious"], ["a/../../precious"], [3], "x", None])
def test_manifest_that_was_edited_removes_nothing_outside(runs: Path, tmp_path: Path, listed: object):
    output = tmp_path / "board"
    build(runs, output)
    (tmp_path / "precious").write_text("kept")
    board = json.loads((output / "leaderboard.json").read_text())
    if listed == ["/{tmp}/precious"]:
        listed = [str(tmp_path / "precious")]
    (output / "leaderboard.json").write_text(json.dumps({**board, "files": listed}))
    build(runs, output)
    assert (tmp_path / "precious").read_text() == "kept"


def test_stale_file_behind_a_link_stays(runs: Path, tmp_path: Path):
    output = tmp_path / "board"
    build(runs, output)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("kept")
    (output / "link").symlink_to(tmp_path / "elsewhere")
    board = json.loads((output / "leaderboard.json").read_text())
    (output / "leaderboard.json").write_text(json.dumps({**board, "files": [*board["files"], "link/file"]}))
    build(runs, output)
    assert (tmp_path / "elsewhere/file").exists()


def test_place_that_cannot_be_written_and_runs_that_are_a_file_are_named(runs: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written to .*file"):
        build(runs, tmp_path / "file/board")
    with pytest.raises(UsageError, match="is a file"):
        build(tmp_path / "file", tmp_path / "board")


def test_same_runs_give_the_same_bytes_whatever_the_process(tmp_path: Path):
    write_many(tmp_path / "runs", 12, documents=20)
    script = """
import os, sys
from pathlib import Path
walk = os.walk
def turned(top, **options):
    for place, folders, files in walk(top, **options):
        yield place, folders, files
        folders.reverse()
os.walk = turned
from capbench.benchmarks.leaderboard.build import build
build(Path(sys.argv[1]), Path(sys.argv[2]))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-c", script, str(tmp_path / "runs"), str(tmp_path / "other")]
    with subprocess.Popen(command, env=environment) as process:
        build(tmp_path / "runs", tmp_path / "board")
    assert process.returncode == 0
    made = contents(tmp_path / "board")
    assert made == contents(tmp_path / "other")
    assert len(made) > 12


def test_check_says_what_moved_what_is_missing_and_what_is_no_longer_made(runs: Path, tmp_path: Path):
    output = tmp_path / "board"
    build(runs, output)
    assert differences(runs, output) == []
    values = {"cider.kendall_b": 0.41, "bleu_1.kendall_b": 0.3}
    (runs / "one/run.json").write_text(json.dumps(make_record(values=values)))
    (output / "leaderboard.csv").unlink()
    (runs / "two/run.json").unlink()
    text = "\n".join(differences(runs, output))
    assert "missing: leaderboard.csv" in text
    assert "differs: README.md" in text
    assert "no longer made: latex/other-1-0.tex" in text
    assert "| CIDEr | τ-b | 40.00 | 41.00 | +1.00 |  |" in text
    assert "- removed: CIDEr" in text
    assert "+++ README.md of the runs" in text and len(text.splitlines()) < 140


def test_check_of_a_damaged_leaderboard_is_a_difference(runs: Path, tmp_path: Path):
    output = tmp_path / "board"
    build(runs, output)
    (output / "leaderboard.json").write_text("{}")
    lines = differences(runs, output)
    assert "differs: leaderboard.json" in lines
    assert any("cannot be read as a leaderboard" in line for line in lines)
