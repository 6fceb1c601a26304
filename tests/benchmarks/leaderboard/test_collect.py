from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from finished_runs import checksum, make_record, older, seal, write_record

from capbench.benchmarks.leaderboard.collect import collect
from capbench.benchmarks.records.hashes import fingerprint
from capbench.tasks.index import TaskIndex, build_index

INDEX = TaskIndex()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder for runs."""
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def reasons(root: Path, index: TaskIndex = INDEX) -> dict[str, str]:
    return {one.key: one.reason for one in collect(root, index)[1]}


def marks(root: Path, index: TaskIndex = INDEX) -> dict[str, tuple[str, ...]]:
    return {run.key: run.marks for run in collect(root, index)[0]}


def test_empty_and_missing_folders_hold_no_runs(runs: Path):
    assert collect(runs, INDEX) == ([], [])
    assert collect(runs / "nowhere", INDEX) == ([], [])


def test_good_run_is_found_by_its_folder_and_has_no_marks(runs: Path):
    record = make_record()
    folder = write_record(runs, "tasty/no-model/1", {**record, "checksum": checksum(record)})
    (run,), left_out = collect(runs, INDEX)
    assert (run.key, run.folder, run.marks, left_out) == ("tasty/no-model/1", folder, (), [])


def test_what_is_no_record_is_named_and_costs_no_other(runs: Path):
    write_record(runs, "good", make_record())
    bare = make_record()
    del bare["intervals"]
    write_record(runs, "bare", bare)
    write_record(runs, "later", make_record(schema_version=2))
    (runs / "cut").mkdir()
    (runs / "cut/run.json").write_text(json.dumps(make_record())[:-40])
    assert list(marks(runs)) == ["good"]
    found = reasons(runs)
    assert "is no JSON" in found["cut"]
    assert "schema version 2, this capbench knows 1" in found["later"]
    assert "the record has no 'intervals'" in found["bare"]


def test_keys_that_a_later_capbench_writes_are_no_fault(runs: Path):
    write_record(runs, "later", make_record(histograms={}, samples="full", something={"new": 1}))
    assert reasons(runs) == {}


def test_edited_record_is_left_out(runs: Path):
    record = make_record()
    record["checksum"] = checksum(record)
    record["results"]["tasty"]["cider.kendall_b,none"] = 0.99
    write_record(runs, "numbers", record)
    assert "checksum" in reasons(runs)["numbers"]


def test_of_two_copies_the_earlier_is_kept_and_rounding_is_no_difference(runs: Path):
    rounded = {"cider.kendall_b": 0.4 * (1 + 1e-9), "bleu_1.kendall_b": 0.3}
    write_record(runs, "a-later", make_record(date=2e9, values=rounded))
    write_record(runs, "b-earlier", make_record(date=1e9))
    found, left_out = collect(runs, INDEX)
    assert [run.key for run in found] == ["b-earlier"]
    assert [(one.key, one.reason) for one in left_out] == [("a-later", "the same run as b-earlier")]


def test_run_of_an_earlier_version_is_the_same_run_and_one_with_another_choice_of_its_protocol_is_not(runs: Path):
    write_record(runs, "earlier", older(make_record(date=1e9)))
    other = make_record(date=2e9)
    other["fingerprint_parts"]["task"]["protocol"]["raters"] = "mean"
    write_record(runs, "other", {**other, "fingerprint": fingerprint(other["fingerprint_parts"])})
    assert reasons(runs) == {}
    write_record(runs, "now", make_record(date=2e9))
    assert reasons(runs) == {"now": "the same run as earlier"}


def test_copy_with_other_numbers_is_left_out_and_the_kept_run_is_marked(runs: Path):
    first = make_record(date=1e9)
    second = make_record(date=2e9, values={"cider.kendall_b": 0.5, "bleu_1.kendall_b": 0.3})
    assert first["fingerprint"] == second["fingerprint"]
    write_record(runs, "first", first)
    write_record(runs, "second", second)
    expected = "has the fingerprint of first, and other numbers (cider.kendall_b 0.5 instead of 0.4)"
    assert reasons(runs) == {"second": expected}
    assert marks(runs) == {"first": ("second has the same fingerprint and other numbers",)}


def test_repeated_run_in_which_a_metric_no_longer_fails_is_kept(runs: Path):
    error = {"metric": "cider", "reason": "no Java\nInstall it."}
    failed = make_record(date=1e9, values={"cider.kendall_b": None, "bleu_1.kendall_b": 0.3}, metric_errors=[error])
    write_record(runs, "failed", failed)
    assert marks(runs) == {"failed": ("cider failed: no Java",)}
    write_record(runs, "repeated", make_record(date=2e9))
    assert marks(runs) == {"repeated": ()}
    assert reasons(runs) == {"failed": "the same run as repeated"}


def test_marks_say_what_a_reader_must_know(runs: Path):
    checks = [{"check": "rows", "expected": 16992, "found": 10, "passed": False}]
    lost = [{"stage": "image", "reason": "missing", "count": 3, "samples": ["a"]}] * 2
    write_record(runs, "limit", make_record(limit=50, effective=50))
    write_record(runs, "checks", make_record(data="other", data_checks=checks))
    write_record(runs, "lost", make_record(data="third", failures=lost))
    assert marks(runs) == {
        "limit": ("50 of 100 documents (--limit)",),
        "checks": ("the data failed its checks (rows: expected 16,992, found 10)",),
        "lost": ("6 samples lost",),
    }


def test_marks_say_of_which_documents_a_captioner_was_scored(runs: Path):
    def run(name: str, **changes: Any) -> None:
        given = {"kind": "generate_until", "values": {"cider": 0.4}, "model": name, "documents_hash": "d" * 64}
        write_record(runs, name, make_record(**given, data=name, **changes))

    empty = [{"stage": "caption", "reason": "is empty", "count": 3, "samples": ["a"]}]
    run("all")
    run("silent", empty_captions=empty)
    run("silent once", empty_captions=[{**empty[0], "count": 1}])
    run("broken", effective=98, failures=[{**empty[0], "stage": "model", "count": 2}])
    run("part", effective=40, subset={"documents": 40, "of": 100, "hash": "a" * 64})
    run("part of it", effective=39, subset={"documents": 40, "of": 100, "hash": "a" * 64})
    assert marks(runs) == {
        "all": (),
        "silent": ("3 captions counted as empty: 3 × is empty",),
        "silent once": ("1 caption counted as empty: 1 × is empty",),
        "broken": ("incomplete: the model failed on 2 documents", "n is short of the task's documents: 98 of 100"),
        "part": ("a subset: 40 of 100 documents",),
        "part of it": ("a subset: 40 of 100 documents", "n is short of the task's documents: 39 of 100"),
    }


def test_older_run_without_empty_captions_is_the_same_run_and_one_that_left_them_out_is_not(runs: Path):
    now = make_record(date=2e9)
    now["fingerprint_parts"]["task"]["protocol"]["empty_caption"] = "zero"
    now["fingerprint"] = fingerprint(now["fingerprint_parts"])
    write_record(runs, "earlier", make_record(date=1e9))
    write_record(runs, "now", now)
    assert reasons(runs) == {"now": "the same run as earlier"}
    lost = [{"stage": "candidate", "reason": "has no letter or digit", "count": 1, "samples": ["a"]}]
    left_out = make_record(date=1e9, failures=lost)
    write_record(runs, "left-out", left_out)
    assert reasons(runs) == {"now": "the same run as earlier"}
    choices = {run.key: run.record.protocol.fingerprint()["empty_caption"] for run in collect(runs, INDEX)[0]}
    assert choices == {"earlier": "zero", "left-out": "leave_out"}
    # What was lost otherwise says nothing of them.
    lost = [{"stage": "caption", "reason": "was not given by the model", "count": 1, "samples": ["a"]}]
    other = make_record(date=1e9, data="other", failures=lost)
    write_record(runs, "other", other)
    (run,) = [one for one in collect(runs, INDEX)[0] if one.key == "other"]
    assert run.record.protocol.fingerprint()["empty_caption"] == "zero"


def test_run_of_another_version_than_the_installed_task_is_marked(runs: Path):
    write_record(runs, "old", make_record("flickr8k_expert", version=0.9))
    write_record(runs, "new", make_record("flickr8k_expert", version=1.0))
    write_record(runs, "unknown", make_record("somebody_elses", version=7))
    found = marks(runs, build_index())
    assert found == {"old": ("version 0.9; the task is at 1.0",), "new": (), "unknown": ()}


def test_links_that_leave_the_folder_are_not_followed(runs: Path):
    outside = write_record(runs.parent / "outside", "run", make_record())
    (runs / "file").mkdir(parents=True)
    (runs / "folder").symlink_to(outside)
    (runs / "loop").symlink_to(runs)
    (runs / "file/run.json").symlink_to(outside / "run.json")
    found, left_out = collect(runs, INDEX)
    assert found == []
    assert [(one.key, "link" in one.reason) for one in left_out] == [("file", True), ("folder", True), ("loop", True)]


def test_key_of_a_folder_with_a_line_break_is_one_line(runs: Path):
    write_record(runs, "a|b\n<script>", make_record())
    assert list(marks(runs)) == ["a|b <script>"]


def test_run_whose_samples_were_changed_is_left_out_and_named(runs: Path):
    columns = {"id": ["a", "b"], "cider": [0.25, 0.75]}
    changed = seal(write_record(runs, "changed", make_record(), columns))
    seal(write_record(runs, "whole", make_record(data="other"), columns))
    without = seal(write_record(runs, "without", make_record(data="third"), columns))
    (changed / "samples.parquet").write_bytes((changed / "samples.parquet").read_bytes() + b" ")
    (without / "samples.parquet").unlink()

    found, _ = collect(runs, INDEX)

    assert [run.key for run in found] == ["whole", "without"]
    assert reasons(runs) == {
        "changed": "samples.parquet: was changed after the run: its SHA-256 is not that in run.json. "
        "Take the file as it was written, or run the task again; 'bench verify' says what else is wrong."
    }
