from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from finished_runs import make_record

from capbench.benchmarks.leaderboard.board import BoardRun, OmittedRun
from capbench.benchmarks.leaderboard.build import board_of
from capbench.benchmarks.leaderboard.diff import comment, read_leaderboard
from capbench.benchmarks.leaderboard.formats import board_json
from capbench.benchmarks.records.record import Record
from capbench.errors import DataError, UsageError
from capbench.tasks.index import TaskIndex


def board(*records: dict[str, Any], left_out: tuple[OmittedRun, ...] = ()) -> dict[str, Any]:
    runs = [BoardRun(f"run-{number}", Path("nowhere"), Record(record)) for number, record in enumerate(records)]
    return json.loads(json.dumps(board_json(board_of(runs, left_out, TaskIndex()))))


def values(**by_metric: float) -> dict[str, Any]:
    return make_record(values={f"{name}.kendall_b": value for name, value in by_metric.items()})


def test_nothing_moves_between_a_leaderboard_and_itself():
    one = board(values(cider=0.4))
    assert comment(one, one).splitlines()[-1] == "Nothing moves."


def test_moved_values_have_their_difference_and_change_of_rank():
    text = comment(board(values(cider=0.4, meteor=0.3)), board(values(cider=0.2, meteor=0.3)))
    assert "| CIDEr | τ-b | 40.00 | 20.00 | -20.00 | 1 → 2 |" in text
    assert "| METEOR | τ-b | 30.00 | 30.00 |  | 2 → 1 |" in text


def test_difference_below_what_tables_print_is_shown():
    text = comment(board(values(cider=0.4)), board(values(cider=0.40001)))
    assert "| CIDEr | τ-b | 40.00 | 40.00 | +1.0e-03 |  |" in text


def test_new_and_removed_rows_and_tables_are_listed():
    base = board(values(cider=0.4, meteor=0.3))
    head = board(values(cider=0.4, bleu_1=0.3), make_record("second", values={"cider.kendall_b": 0.5}))
    text = comment(base, head)
    assert "- removed: METEOR: τ-b 30.00" in text
    assert "- new: BLEU-1: τ-b 30.00" in text
    assert "**second** (version 1.0)\n\n- new: CIDEr: τ-b 50.00" in text


def test_runs_that_are_left_out_since_are_listed_and_escaped():
    left_out = OmittedRun("a|b", "was edited by <b>hand</b>")
    text = comment(board(), board(left_out=(left_out,)))
    assert r"- a\|b: was edited by &lt;b&gt;hand&lt;/b&gt;" in text


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, Callable[..., None]]:
    """Return a folder for a leaderboard in a git repository, and a function that calls git there."""
    root = tmp_path / "repository"
    root.mkdir()

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "empty")
    git("tag", "start")
    folder = root / "results/leaderboard"
    folder.mkdir(parents=True)
    (folder / "leaderboard.json").write_text(json.dumps(board(values(cider=0.4))))
    git("add", ".")
    git("commit", "-q", "-m", "leaderboard")
    return folder, git


def test_leaderboard_of_a_revision_is_read_from_git(repository: tuple[Path, Callable[..., None]]):
    folder, _ = repository
    (folder / "leaderboard.json").write_text(json.dumps(board(values(cider=0.5))))
    base, note = read_leaderboard("main", folder)
    head, _ = read_leaderboard(str(folder), folder)
    assert note == "" and "| CIDEr | τ-b | 40.00 | 50.00 | +10.00 |  |" in comment(base, head)


def test_revision_without_a_leaderboard_is_an_empty_one_and_says_so(repository: tuple[Path, Callable[..., None]]):
    folder, _ = repository
    base, note = read_leaderboard("start", folder)
    head, _ = read_leaderboard(str(folder / "leaderboard.json"), folder)
    text = comment(base, head, note)
    assert "start has no leaderboard" in text and "- new: CIDEr" in text


@pytest.mark.parametrize("name", ["nosuch", "--help", "--output=x", ""])
def test_what_is_no_revision_and_no_file_is_refused(repository: tuple[Path, Callable[..., None]], name: str):
    with pytest.raises(UsageError, match="no git revision"):
        read_leaderboard(name, repository[0])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema_version": 1, "tables": [3], "left_out": []}'])
def test_damaged_leaderboard_is_named(tmp_path: Path, text: str):
    (tmp_path / "leaderboard.json").write_text(text)
    with pytest.raises(DataError, match=r"leaderboard\.json: cannot be read as a leaderboard"):
        read_leaderboard(str(tmp_path), tmp_path)


def test_leaderboard_of_a_newer_capbench_is_refused(tmp_path: Path):
    (tmp_path / "leaderboard.json").write_text(json.dumps({**board(), "schema_version": 2}))
    with pytest.raises(DataError, match="schema version 2, this capbench knows 1"):
        read_leaderboard(str(tmp_path), tmp_path)
