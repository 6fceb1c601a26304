"""The typed record: every key by name, and older records with their defaults."""

import re
import shutil
import subprocess
from functools import cached_property
from pathlib import Path

import pytest
from finished_runs import make_record, write_record

from capbench.benchmarks.records import environment
from capbench.benchmarks.records.entries import PublishedValue
from capbench.benchmarks.records.environment import git_hash
from capbench.benchmarks.records.files import record_text
from capbench.benchmarks.records.hashes import verify
from capbench.benchmarks.records.reading import find_records, read_record, read_task_run, runs_below
from capbench.benchmarks.records.record import Record
from capbench.errors import DataError

RUNS = Path(__file__).parents[3] / "results" / "runs"
KEPT = sorted(RUNS.rglob("run.json"))
LATER = ("checksum", "significance", "histograms", "pictures", "judging", "documents_hash", "redistribution", "samples")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: "/".join(path.parts[-5:-3]))
def test_kept_records_are_read_verified_and_written_byte_for_byte_and_all_that_they_hold_has_a_name(path: Path):
    record = read_record(path.parent)
    assert record == read_record(path)
    assert verify(record.values) is None
    assert record_text(record) == path.read_text(encoding="utf-8")
    values = record.values
    properties = [name for name, attribute in vars(Record).items() if isinstance(attribute, property | cached_property)]
    shown = {name: getattr(record, name) for name in [*Record.model_fields, *properties]}
    assert (shown["task"], shown["alias"]) == (values["task"], values["task_alias"])
    assert (shown["version"], shown["model_name"]) == (values["versions"][record.task], values["model_name"])
    assert f"{shown['started']:%Y%m%dT%H%M%S}" == path.parts[-2].split("-")[0]
    assert shown["seconds"] == float(values["total_evaluation_time_seconds"])
    assert {key: value.model_dump() for key, value in shown["published"].items()} == values["published"]
    assert {key: value.to_json() for key, value in shown["significance"].items()} == values["significance"]
    assert {key: value.to_json() for key, value in shown["truncation"].items()} == values["truncation"]
    assert [check.model_dump() for check in shown["data_checks"]] == values["data_checks"]
    assert shown["documents"].to_json() == values["n-samples"][record.task]
    assert shown["timings"] == values["timings"]
    assert shown["environment"].to_json() == values["environment"]
    assert shown["histograms"].keys() == values["histograms"].keys()
    assert [result.key for result in shown["results"].values()] == list(values["intervals"])
    assert [result.value for result in shown["results"].values()] == [
        values["results"][record.task][f"{key},none"] for key in values["intervals"]
    ]


# --- older records


def test_older_record_has_one_default_for_each_key_that_came_later():
    values = make_record()
    assert not set(LATER) & set(values)
    del values["config"]["level"]
    record = Record(values)
    assert record.settings.level == 0.95
    assert record.checksum is record.documents_hash is None
    assert "cpus" not in record.environment.machine
    assert record.significance == record.histograms == record.pictures == {}
    assert {record.letters(result) for result in record.results.values()} == {""}
    # Nothing says that its data may not be passed on, and nothing that its texts may be shown.
    assert (record.redistribution, record.samples) == ("full", "scores")
    assert record.binned_by("by_words") == []


def test_decoding_of_the_user_is_over_that_of_the_task():
    values = make_record(generation_kwargs={"num_beams": 3})
    values["configs"]["tasty"]["generation_kwargs"] = {"num_beams": 1, "max_new_tokens": 5}
    assert Record(values).decoding == {"num_beams": 3, "max_new_tokens": 5}


# --- results


def test_count_of_words_is_no_percentage_where_captions_are_scored():
    def scales(kind: str) -> list[float]:
        values = make_record("some", kind, {"length": 9.0, "mine": 0.4, "cider": 0.4})
        values["configs"]["some"]["metric_list"] = ["length", {"metric": "length", "name": "mine"}, "cider"]
        return [result.scale for result in Record(values).results.values()]

    assert scales("generate_until") == [1, 1, 100]
    assert scales("agreement") == [100, 100, 100]


def test_reason_is_that_of_the_missing_value_or_of_the_missing_interval():
    values = make_record()
    key = next(iter(values["intervals"]))
    values["intervals"][key]["reason"] = "all scores are equal"
    result = Record(values).results[key]
    assert result.value is not None and result.interval is not None
    assert (result.reason, result.interval.reason) == ("", "all scores are equal")
    values["results"][values["task"]][f"{key},none"] = None
    assert Record(values).results[key].reason == "all scores are equal"


def test_statistic_that_is_not_installed_is_a_share():
    assert Record(make_record(kind="agreement")).ends_of("cider", "no_such_statistic") == (0, 1)


# --- entries


@pytest.mark.parametrize(
    ("printed", "decimals"), [("43.9", 1), ("0.4390", 4), ("1,234", 0), ("1.7e7", -6), ("n/a", 0), ("NaN", 0)]
)
def test_printed_number_has_its_decimals(printed: str, decimals: int):
    assert PublishedValue(value=1.0, printed=printed, scale=1.0, paper="p", table=1).decimals == decimals


@pytest.mark.parametrize(
    ("limit", "passed", "whole"), [(None, [], True), (5, [], False), (None, [True], True), (None, [True, False], False)]
)
def test_run_is_whole_if_it_saw_all_data_and_the_right_data(limit: int | None, passed: list[bool], whole: bool):
    checks = [{"check": "rows", "expected": 1, "found": 1, "passed": value} for value in passed]
    assert Record(make_record(limit=limit, data_checks=checks)).is_whole == whole


# -- What is recorded of a process stays what it was when the process began to record


def test_commit_is_that_of_the_checkout_at_the_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(environment, "PACKAGE_ROOT", tmp_path)
    git_hash.cache_clear()
    try:
        git = ("git", "-C", str(tmp_path), "-c", "user.name=me", "-c", "user.email=me@here")
        subprocess.run([*git, "init", "--quiet"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "first"], check=True)
        first = git_hash()
        assert first
        (tmp_path / "later").touch()
        subprocess.run([*git, "add", "later"], check=True)
        assert git_hash() == first
        git_hash.cache_clear()
        assert git_hash() == f"{first}-dirty"
        monkeypatch.setattr(environment, "PACKAGE_ROOT", tmp_path / "installed")
        git_hash.cache_clear()
        assert git_hash() is None
    finally:
        git_hash.cache_clear()


# -- Finding runs: by their folder, by a folder above them, by their record


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Write two runs of one task, one of another, and a folder without any."""
    for key in ("b/model/2", "b/model/1", "a/no-model/1"):
        write_record(tmp_path / "runs", key, make_record())
    (tmp_path / "runs/empty").mkdir()
    return tmp_path / "runs"


def test_each_run_is_found_once_however_often_it_is_named(runs: Path):
    first = runs / "b/model/1"
    paths, errors = find_records([first / "run.json", first, runs / "b", runs / "a/../b/model/2"])
    assert paths == [first / "run.json", runs / "b/model/2/run.json"]
    assert errors == []


def test_links_to_folders_are_named_and_not_followed(runs: Path, tmp_path: Path):
    write_record(tmp_path / "outside", "run", make_record())
    (runs / "loop").symlink_to(runs)
    (runs / "away").symlink_to(tmp_path / "outside")
    passed: list[tuple[str, str]] = []
    paths = list(runs_below(runs, lambda folder, reason: passed.append((folder.name, reason))))
    assert len(paths) == 3
    reason = "is a link to another folder; links are not followed"
    assert passed == [("away", reason), ("loop", reason)]
    assert list(runs_below(runs / "missing", lambda folder, reason: passed.append((folder.name, reason)))) == []
    assert len(passed) == 2


def test_folder_that_cannot_be_read_is_named(runs: Path):
    passed: list[tuple[Path, str]] = []
    places = runs_below(runs, lambda folder, reason: passed.append((folder, reason)))
    next(places)
    last = max(runs.iterdir())
    shutil.rmtree(last)
    assert all(last not in place.parents for place in places)
    assert passed == [(last, "the folder cannot be read: No such file or directory")]


# -- Reading records: what is no record is named with its place, and costs no other


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read as a run: it is not valid JSON"),
        ('{"schema_version": NaN}', "NaN is not a JSON value"),
        ("[" * 100_000, "it is not valid JSON"),
        ('{"schema_version": 1, "task": "\\ud800"}', "it is not valid JSON"),
        ('{"schema_version": 1, "task": "\\uDFFF"}', "it is not valid JSON"),
        ('{"schema_version": 1, "task": "sm', "it is not valid JSON"),
        ("\xff\xfe", "cannot be read as a run"),
        ('{"schema_version": "one"}', "is not a run record of capbench"),
        ("[1]", "is not a run record of capbench (it has no schema_version)"),
        ('{"schema_version": true}', "it has no schema_version"),
        ('{"schema_version": 2}', "has schema version 2; this capbench reads up to 1"),
        ('{"schema_version": 1}', "is not a valid run record: the record has no 'task'"),
    ],
)
def test_what_is_no_record_is_named_with_its_file(tmp_path: Path, text: str, reason: str):
    (tmp_path / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=re.escape(reason)) as caught:
        read_record(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path / 'run.json'}: ")
    assert (caught.value.hint == "Update capbench.") == ("version 2" in reason)


def test_run_is_read_with_its_samples_when_they_are_asked_for(tmp_path: Path):
    with_samples = read_task_run(write_record(tmp_path, "one", make_record(), {"id": ["a"], "cider": [0.5]}))
    assert with_samples.samples.to_pydict() == {"id": ["a"], "cider": [0.5]}
    assert [result.metric for result in with_samples.results] == ["cider", "bleu_1"]
    without = read_task_run(write_record(tmp_path, "two", make_record()) / "run.json")
    assert without.folder == tmp_path / "two"
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'two'}: has no samples.parquet")) as caught:
        _ = without.samples
    assert "--log_samples none" in caught.value.hint
    (tmp_path / "two/samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as samples"):
        _ = without.samples
