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
from finished_runs import checksum, make_record, seal, write_many, write_record

from capbench.benchmarks.leaderboard.build import build
from capbench.benchmarks.leaderboard.collect import collect
from capbench.benchmarks.leaderboard.diff import differences
from capbench.benchmarks.leaderboard.html.rendering import assets
from capbench.benchmarks.records.hashes import fingerprint
from capbench.errors import UsageError
from capbench.tasks.index import TaskIndex, build_index


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with two runs."""
    return write_two(tmp_path / "runs")


def write_two(folder: Path) -> Path:
    write_record(folder, "one", make_record())
    write_record(folder, "two", make_record("other"))
    return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The leaderboard of the two runs, which tests copy."""
    folder = tmp_path_factory.mktemp("undisturbed")
    build(write_two(folder / "runs"), folder / "board")
    return folder / "board"


def test_empty_folder_gives_an_empty_leaderboard(tmp_path: Path):
    build(tmp_path / "nowhere", tmp_path / "board")
    texts = ["README.md", "index.html", "leaderboard.csv", "leaderboard.json"]
    assert sorted(contents(tmp_path / "board")) == sorted([*texts, *assets()])
    assert differences(tmp_path / "nowhere", tmp_path / "board") == []


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
    function, count = getattr(owners[call], call), itertools.count(1)

    def counted(*arguments: Any, **options: Any) -> Any:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    def build_until_killed() -> None:
        setattr(owners[call], call, counted)
        build(runs, output)

    assert forked.carried_out(build_until_killed) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("call", "number"), [("replace", 1), ("replace", 8), ("unlink", 1), ("unlink", 2), ("rmtree", 1)]
)
def test_build_after_killed_ones_leaves_what_an_undisturbed_one_leaves(runs, undisturbed, tmp_path, call, number):
    output = shutil.copytree(undisturbed, tmp_path / "board")
    write_record(runs, "three", make_record("third"))
    (runs / "two").rename(tmp_path / "two")
    kill_build(runs, output, call, number)
    # What the killed build had placed of the third run must go with that run, also after another kill.
    (tmp_path / "two").rename(runs / "two")
    (runs / "three/run.json").unlink()
    kill_build(runs, output, "replace", 2)
    build(runs, output)
    assert contents(output) == contents(undisturbed)
    assert not list(output.glob(".*"))


@pytest.mark.parametrize("listed", [["../precious"], ["{tmp}/precious"], ["a/../../precious"], [3], "x", None])
def test_edited_manifest_removes_nothing_outside(runs: Path, undisturbed: Path, tmp_path: Path, listed: object):
    output = shutil.copytree(undisturbed, tmp_path / "board")
    (tmp_path / "precious").write_text("kept")
    board = json.loads((output / "leaderboard.json").read_text())
    manifest = json.dumps({**board, "files": listed}).replace("{tmp}", str(tmp_path))
    (output / "leaderboard.json").write_text(manifest)
    build(runs, output)
    assert (tmp_path / "precious").read_text() == "kept"


def test_stale_file_behind_a_link_stays(runs: Path, undisturbed: Path, tmp_path: Path):
    output = shutil.copytree(undisturbed, tmp_path / "board")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("kept")
    (output / "link").symlink_to(tmp_path / "elsewhere")
    board = json.loads((output / "leaderboard.json").read_text())
    (output / "leaderboard.json").write_text(json.dumps({**board, "files": [*board["files"], "link/file"]}))
    build(runs, output)
    assert (tmp_path / "elsewhere/file").exists()


def test_place_that_cannot_be_written_and_runs_that_are_a_file_are_named(runs: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/board: cannot be written"):
        build(runs, tmp_path / "file/board")
    with pytest.raises(UsageError, match="is not a folder"):
        build(tmp_path / "file", tmp_path / "board")


def test_same_runs_give_the_same_bytes_whatever_the_process(tmp_path: Path):
    write_many(tmp_path / "runs", 6, documents=10)
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
    files = contents(tmp_path / "board")
    assert files == contents(tmp_path / "other")
    assert len(files) > 6


def test_check_says_what_moved_is_missing_and_is_no_longer_made(runs: Path, undisturbed: Path, tmp_path: Path):
    output = shutil.copytree(undisturbed, tmp_path / "board")
    assert differences(runs, output) == []
    values = {"cider.kendall_b": 0.41, "bleu_1.kendall_b": 0.3}
    (runs / "one/run.json").write_text(json.dumps(make_record(values=values)))
    (output / "leaderboard.csv").unlink()
    (runs / "two/run.json").unlink()
    text = "\n".join(differences(runs, output))
    assert "missing: leaderboard.csv" in text
    assert "differs: README.md" in text
    assert "obsolete: latex/other-1-0.tex" in text
    assert "| CIDEr | τ-b | 40.00 | 41.00 | +1.00 |  |" in text
    assert "| – |  | 1 → – |" in text
    assert len(text.splitlines()) < 80


def test_check_of_a_damaged_leaderboard_is_a_difference(runs: Path, undisturbed: Path, tmp_path: Path):
    output = shutil.copytree(undisturbed, tmp_path / "board")
    (output / "leaderboard.json").write_text("{}")
    lines = differences(runs, output)
    assert "differs: leaderboard.json" in lines
    assert any("is not a readable leaderboard" in line for line in lines)


# -- which runs are collected


INDEX = TaskIndex()


@pytest.fixture
def record_folder(tmp_path: Path) -> Path:
    """Return where a test writes records."""
    return tmp_path / "runs"


def reasons(root: Path) -> dict[str, str]:
    return {run.key: run.reason for run in collect(root, INDEX)[1]}


def marks(root: Path, index: TaskIndex = INDEX) -> dict[str, tuple[str, ...]]:
    return {run.key: run.marks for run in collect(root, index)[0]}


def test_what_is_no_record_is_named_and_costs_no_other(record_folder: Path):
    write_record(record_folder, "good", make_record())
    bare = make_record()
    del bare["intervals"]
    write_record(record_folder, "bare", bare)
    write_record(record_folder, "later", make_record(schema_version=2))
    (record_folder / "cut").mkdir()
    (record_folder / "cut/run.json").write_text(json.dumps(make_record())[:-40])
    assert list(marks(record_folder)) == ["good"]
    reason_of = reasons(record_folder)
    assert "is not valid JSON" in reason_of["cut"]
    assert "schema version 2; this capbench reads up to 1" in reason_of["later"]
    assert "the record has no 'intervals'" in reason_of["bare"]


def test_edited_record_is_left_out(record_folder: Path):
    record = make_record()
    record["checksum"] = checksum(record)
    record["results"]["tasty"]["cider.kendall_b,none"] = 0.99
    write_record(record_folder, "numbers", record)
    assert "checksum" in reasons(record_folder)["numbers"]


def test_of_two_copies_the_earlier_is_kept_and_rounding_is_no_difference(record_folder: Path):
    rounded = {"cider.kendall_b": 0.4 * (1 + 1e-9), "bleu_1.kendall_b": 0.3}
    write_record(record_folder, "a-later", make_record(date=2e9, values=rounded))
    write_record(record_folder, "b-earlier", make_record(date=1e9))
    runs, left_out = collect(record_folder, INDEX)
    assert [run.key for run in runs] == ["b-earlier"]
    assert [(run.key, run.reason) for run in left_out] == [("a-later", "the same run as b-earlier")]


def test_copy_with_other_numbers_is_left_out_and_the_kept_run_is_marked(record_folder: Path):
    first = make_record(date=1e9)
    second = make_record(date=2e9, values={"cider.kendall_b": 0.5, "bleu_1.kendall_b": 0.3})
    assert first["fingerprint"] == second["fingerprint"]
    write_record(record_folder, "first", first)
    write_record(record_folder, "second", second)
    expected = "has the same fingerprint as first but different values (cider.kendall_b 0.5 instead of 0.4)"
    assert reasons(record_folder) == {"second": expected}
    assert marks(record_folder) == {"first": ("second has the same fingerprint but different values",)}


def test_repeated_run_in_which_a_metric_no_longer_fails_is_kept(record_folder: Path):
    error = {"metric": "cider", "reason": "no Java\nInstall it."}
    failed = make_record(date=1e9, values={"cider.kendall_b": None, "bleu_1.kendall_b": 0.3}, metric_errors=[error])
    write_record(record_folder, "failed", failed)
    assert marks(record_folder) == {"failed": ("cider failed: no Java",)}
    write_record(record_folder, "repeated", make_record(date=2e9))
    assert marks(record_folder) == {"repeated": ()}
    assert reasons(record_folder) == {"failed": "the same run as repeated"}


def test_marks_say_of_which_documents_a_captioner_was_scored(record_folder: Path):
    def run(name: str, **changes: Any) -> None:
        usual = {"kind": "generate_until", "values": {"cider": 0.4}, "model": name, "documents_hash": "d" * 64}
        write_record(record_folder, name, make_record(**usual, data=name, **changes))

    empty = [{"stage": "caption", "reason": "is empty", "count": 3, "samples": ["a"]}]
    run("all")
    run("silent", empty_captions=empty)
    run("silent once", empty_captions=[{**empty[0], "count": 1}])
    run("broken", effective=98, failures=[{**empty[0], "stage": "model", "count": 2}])
    run("part", effective=40, subset={"documents": 40, "of": 100, "hash": "a" * 64})
    run("part of it", effective=39, subset={"documents": 40, "of": 100, "hash": "a" * 64})
    assert marks(record_folder) == {
        "all": (), "silent": ("3 captions counted as empty",), "silent once": ("1 caption counted as empty",),
        "broken": ("incomplete: the model failed on 2 documents", "only 98 of 100 documents scored"),
        "part": ("a subset: 40 of 100 documents",),
        "part of it": ("a subset: 40 of 100 documents", "only 39 of 100 documents scored"),
    }  # fmt: skip


def test_older_run_without_empty_captions_is_the_same_run(record_folder: Path):
    now = make_record(date=2e9)
    now["fingerprint_parts"]["task"]["protocol"]["empty_caption"] = "zero"
    now["fingerprint"] = fingerprint(now["fingerprint_parts"])
    write_record(record_folder, "earlier", make_record(date=1e9))
    write_record(record_folder, "now", now)
    assert reasons(record_folder) == {"now": "the same run as earlier"}


def test_run_of_another_version_than_the_installed_task_is_marked(record_folder: Path):
    write_record(record_folder, "old", make_record("flickr8k_expert", version=0.9))
    write_record(record_folder, "new", make_record("flickr8k_expert", version=1.0))
    write_record(record_folder, "unknown", make_record("somebody_elses", version=7))
    marked = marks(record_folder, build_index())
    assert marked == {"old": ("version 0.9; the task is at 1.0",), "new": (), "unknown": ()}


def test_links_that_leave_the_folder_are_not_followed(record_folder: Path):
    outside = write_record(record_folder.parent / "outside", "run", make_record())
    (record_folder / "file").mkdir(parents=True)
    (record_folder / "folder").symlink_to(outside)
    (record_folder / "loop").symlink_to(record_folder)
    (record_folder / "file/run.json").symlink_to(outside / "run.json")
    runs, left_out = collect(record_folder, INDEX)
    assert runs == []
    assert [(run.key, "link" in run.reason) for run in left_out] == [("file", True), ("folder", True), ("loop", True)]


def test_run_whose_samples_were_changed_is_left_out_and_named(record_folder: Path):
    columns = {"id": ["a", "b"], "cider": [0.25, 0.75]}
    changed = seal(write_record(record_folder, "changed", make_record(), columns))
    seal(write_record(record_folder, "whole", make_record(data="other"), columns))
    without = seal(write_record(record_folder, "without", make_record(data="third"), columns))
    (changed / "samples.parquet").write_bytes((changed / "samples.parquet").read_bytes() + b" ")
    (without / "samples.parquet").unlink()

    runs, _ = collect(record_folder, INDEX)

    assert [run.key for run in runs] == ["whole", "without"]
    assert reasons(record_folder) == {
        "changed": "samples.parquet: was changed after the run: its SHA-256 differs from that in run.json. "
        "Restore the original file, or run the task again; 'bench verify' lists all errors."
    }
