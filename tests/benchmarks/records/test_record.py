"""The typed record: every key by name, older records with their defaults, and what a fresh run makes."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema
import numpy
import pytest
from finished_runs import make_record, write_record

import capbench
from capbench.benchmarks.protocols.generate_until import GenerateUntilSettings
from capbench.benchmarks.records import environment
from capbench.benchmarks.records.entries import PublishedValue, Significance, UsedModel
from capbench.benchmarks.records.environment import git_hash, version
from capbench.benchmarks.records.files import record_text
from capbench.benchmarks.records.hashes import checksum, verify
from capbench.benchmarks.records.reading import find_records, read_record, read_task_run, read_task_runs, runs_below
from capbench.benchmarks.records.record import Record
from capbench.benchmarks.records.schema import SCHEMA_PATH
from capbench.benchmarks.tables.run import Run
from capbench.errors import DataError

RUNS = Path(__file__).parents[3] / "results" / "runs"
# Written before records had sums of files: what reads records reads these, too.
OLDER = Path(__file__).parent / "older_runs"
KEPT = [*sorted(RUNS.rglob("run.json")), *sorted(OLDER.rglob("run.json"))]
LATER = ("checksum", "significance", "histograms", "pictures", "judging", "documents_hash", "redistribution", "samples")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: "/".join(path.parts[-5:-3]))
def test_kept_records_are_read_verified_and_written_byte_for_byte_and_all_that_they_hold_has_a_name(path: Path):
    record = read_record(path.parent)
    assert record == read_record(path)
    assert verify(record.values) is None
    assert record_text(record) == path.read_text(encoding="utf-8")
    values = record.values
    properties = [name for name, one in vars(Record).items() if isinstance(one, property | cached_property)]
    shown = {name: getattr(record, name) for name in [*Record.model_fields, *properties]}
    assert (shown["task"], shown["alias"]) == (values["task"], values["task_alias"])
    assert (shown["version"], shown["model_name"]) == (values["versions"][record.task], values["model_name"])
    assert f"{shown['started']:%Y%m%dT%H%M%S}" == path.parts[-2].split("-")[0]
    assert shown["seconds"] == float(values["total_evaluation_time_seconds"])
    assert {key: one.model_dump() for key, one in shown["published"].items()} == values["published"]
    assert {key: one.to_json() for key, one in shown["significance"].items()} == values["significance"]
    assert {key: one.to_json() for key, one in shown["truncation"].items()} == values["truncation"]
    assert [asdict(one) for one in shown["data_checks"]] == values["data_checks"]
    assert shown["documents"].to_json() == values["n-samples"][record.task]
    assert shown["timings"].to_json() == values["timings"]
    assert shown["environment"].to_json() == values["environment"]
    assert shown["histograms"].keys() == values["histograms"].keys()
    assert [one.value for one in shown["results"].values()] == [
        values["results"][record.task][f"{key},none"] for key in values["intervals"]
    ]


# --- older records


def test_older_record_has_one_default_for_each_key_that_came_later():
    made = make_record()
    assert not set(LATER) & set(made)
    record = Record(made)
    assert record.checksum is record.documents_hash is None
    assert record.significance == record.histograms == record.pictures == {}
    assert {record.letters(one) for one in record.results.values()} == {""}
    # Nothing says that its data may not be passed on, and nothing that its texts may be shown.
    assert (record.redistribution, record.samples) == ("full", "scores")
    assert not record.has_histograms
    assert record.binned_by("by_words") == []


def test_task_file_and_settings_that_say_little_have_the_defaults_of_task_files():
    made = make_record()
    made["configs"]["tasty"] = {}
    made["config"] = {"model": None, "model_args": None}
    made["fingerprint_parts"]["task"] = {}
    record = Record(made)
    assert (record.output_type, record.scale, record.settings.level) == ("generate_until", 1.0, 0.95)
    assert (record.description, record.prompt, record.statistics) == ("", "", [])
    assert record.settings.limit is record.settings.adapter is record.published_table is None
    assert record.settings.model_arguments == record.settings.decoding == record.settings.metric_models == {}
    assert record.decoding == record.protocol_choices == {}
    assert record.protocol.settings == GenerateUntilSettings()


# --- results


def test_result_is_read_with_its_interval_label_scale_and_category():
    made = make_record("pairs", "preference", {"cider.accuracy.HM": 0.5, "cider.accuracy": 0.6})
    made["higher_is_better"]["pairs"]["cider.accuracy"] = False
    category, whole = Record(made).results.values()
    assert (category.metric, category.statistic, category.category) == ("cider", "accuracy", "HM")
    assert (whole.category, whole.label, whole.n) == ("", ("CIDEr", "accuracy"), 100)
    assert (whole.value, whole.scale) == (0.6, 100)
    assert (category.higher_is_better, whole.higher_is_better) == (True, False)
    assert whole.interval is not None
    assert (whole.interval.low, whole.interval.high) == (pytest.approx(0.58), pytest.approx(0.62))
    assert (whole.interval.stderr, whole.interval.resamples, whole.reason) == (0.01, 1000, "")


def test_reason_is_that_of_the_value_where_there_is_none_else_that_of_the_interval():
    made = make_record(values={"cider.kendall_b": None, "bleu_1.kendall_b": 0.3})
    made["intervals"]["bleu_1.kendall_b"] |= {"low": None, "high": None, "reason": "too few images"}
    made["results"]["tasty"]["bleu_1.kendall_b_stderr,none"] = "N/A"
    undefined, defined = Record(made).results.values()
    assert (undefined.value, undefined.reason) == (None, "it has no value")
    assert (defined.value, defined.reason) == (0.3, "")
    assert defined.interval is not None
    assert (defined.interval.reason, defined.interval.stderr) == ("too few images", None)


def test_count_of_words_is_no_percentage_where_captions_are_scored():
    def scales(kind: str) -> list[float]:
        made = make_record("some", kind, {"length": 9.0, "mine": 0.4, "cider": 0.4})
        made["configs"]["some"]["metric_list"] = ["length", {"metric": "length", "name": "mine"}, "cider"]
        return [result.scale for result in Record(made).results.values()]

    assert scales("generate_until") == [1, 1, 100]
    assert scales("agreement") == [100, 100, 100]


def test_metric_is_known_by_the_name_that_it_is_registered_by():
    made = make_record()
    made["configs"]["tasty"]["metric_list"] = ["cider", {"metric": "bleu_1", "name": "mine"}]
    record = Record(made)
    names = ("mine", "cider", "cider[variant=plain]", "elsewhere")
    assert [record.registered_name(one) for one in names] == ["bleu_1", "cider", "cider", "elsewhere"]
    assert (record.metric_label("cider"), record.metric_label("elsewhere")) == ("CIDEr", "elsewhere")
    assert record.metrics == ["cider", "bleu_1"]


# --- entries


def test_entries_keep_what_they_know_and_pass_over_keys_of_a_later_capbench():
    beside = {"value": 0.439, "printed": "43.9", "scale": 100.0, "paper": "p", "table": 1, "new": 2}
    letters = {"alpha": 0.05, "resamples": 9, "seed": 1, "groups": {"cider": "a", "x": "b"}, "new": 2}
    made = make_record(beside={"cider.kendall_b": beside}, significance={"kendall_b": letters})
    record = Record(made)
    assert record.published == {
        "cider.kendall_b": PublishedValue(value=0.439, printed="43.9", scale=100.0, paper="p", table=1)
    }
    assert record.significance == {
        "kendall_b": Significance(alpha=0.05, resamples=9, seed=1, groups={"cider": "a", "x": "b"})
    }
    assert {key: record.letters(one) for key, one in record.results.items()} == {
        "cider.kendall_b": "a",
        "bleu_1.kendall_b": "",
    }


@pytest.mark.parametrize(
    ("printed", "decimals"), [("43.9", 1), ("0.4390", 4), ("1,234", 0), ("1.7e7", -6), ("n/a", 0), ("NaN", 0)]
)
def test_printed_number_has_its_decimals(printed: str, decimals: int):
    assert PublishedValue(value=1.0, printed=printed, scale=1.0, paper="p", table=1).decimals == decimals


def test_models_of_metrics_are_those_that_were_named():
    record = Record(make_record(encoder="clip", model="llava", model_args={"dtype": "float16"}))
    assert record.settings.metric_models == {"encoder": UsedModel("clip", {})}
    assert (record.settings.adapter, record.settings.model_arguments) == ("hf", {"dtype": "float16"})


def test_published_table_that_this_capbench_cannot_read_is_none():
    assert Record(make_record(published={"paper": "pacspp", "tabel": 1})).published_table is None
    table = Record(make_record(published={"paper": "pacspp", "table": 1, "task": "x"})).published_table
    assert table is not None and table.paper == "pacspp"


@pytest.mark.parametrize(
    ("kind", "subject", "writes", "rates"),
    [
        ("agreement", "metric", False, True),
        ("preference", "metric", False, False),
        ("matching", "model", False, False),
        ("generate_until", "model", True, False),
    ],
)
def test_protocol_says_what_results_are_of(kind: str, subject: str, writes: bool, rates: bool):
    protocol = Record(make_record(kind=kind)).protocol
    assert (protocol.subject, protocol.needs_captioner, protocol.rated) == (subject, writes, rates)


@pytest.mark.parametrize(
    ("limit", "passed", "whole"), [(None, [], True), (5, [], False), (None, [True], True), (None, [True, False], False)]
)
def test_run_is_whole_if_it_saw_all_data_and_the_right_data(limit: int | None, passed: list[bool], whole: bool):
    checks = [{"check": "rows", "expected": 1, "found": 1, "passed": one} for one in passed]
    assert Record(make_record(limit=limit, data_checks=checks)).is_whole == whole


# --- a fresh run


def test_fresh_record_is_whole_and_says_what_was_asked(tmp_path: Path):
    run = capbench.evaluate(
        "iiw-p5b", ["iiw_400"], metrics=["length"], resamples=20, limit=7, output_path=tmp_path / "runs"
    )["iiw_400"]
    record = run.record
    assert run.folder is not None
    assert read_record(run.folder) == record
    assert verify(record.values) is None and record.checksum == checksum(record.values)
    assert (record.settings.limit, record.is_whole) == (7, False)
    assert record.results.keys() == {"length"}
    assert record.protocol.needs_captioner and record.protocol.subject == "model"
    assert list(record.timings.metrics) == ["length"]


# -- run.json: its schema, and lm-eval's own table printer over it


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    return capbench.evaluate(
        "iiw-p5b",
        ["iiw_400"],
        metrics=["bleu_4", "cider", "length"],
        output_path=folder / "runs",
        store=folder / "store.sqlite",
        resamples=50,
    )


def read(run: Run) -> dict:
    folder = run["iiw_400"].folder
    assert folder is not None
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def test_record_follows_the_published_schema_also_without_the_keys_of_later_versions(run: Run):
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    record = read(run)
    jsonschema.validate(record, schema)
    new = {"checksum", "significance", "histograms", "samples", "redistribution", "pictures", "documents_hash"}
    older = {key: value for key, value in record.items() if key not in new}
    assert len(older) == len(record) - len(new)
    jsonschema.validate(older, schema)
    record["results"]["iiw_400"]["cider,none"] = "0.04"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, schema)


def test_record_says_what_a_leaderboard_needs_without_the_data(run: Run):
    record = read(run)
    assert set(record["histograms"]) == {"bleu_4", "cider", "length"}
    assert sum(record["histograms"]["cider"]["counts"]) == 100
    assert "by_rating" not in record["histograms"]["cider"]
    assert sum(map(sum, record["histograms"]["length"]["by_words"]["counts"])) == 100
    assert (record["samples"], record["redistribution"], record["significance"]) == ("full", "full", {})
    assert len(record["documents_hash"]) == 64
    # The photographs are under terms of their own.
    assert record["pictures"] == {}
    assert record["data_origin"] == "iiw_400.jsonl"


def test_lm_evals_own_table_printer_prints_our_record(run: Run):
    from lm_eval.utils import make_table

    record = read(run)
    table = make_table(record)
    cider = next(line for line in table.splitlines() if "cider" in line)
    value = record["results"]["iiw_400"]["cider,none"]
    stderr = record["results"]["iiw_400"]["cider_stderr,none"]
    assert f"{value:.4f}" in cider
    assert f"{stderr:.4f}" in cider
    assert "iiw_400" in table.splitlines()[2]


def test_frame_has_a_row_a_result(run: Run):
    frame = run.to_pandas()
    assert list(frame["metric"]) == ["bleu_4", "cider", "length"]
    assert ((frame["low"] <= frame["value"]) & (frame["value"] <= frame["high"])).all()
    assert (frame["n"] == 100).all()


# -- What is recorded of a process stays what it was when the process began to record


def test_version_is_found_once_and_what_is_missing_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert version("numpy") == numpy.__version__
    assert version("never-heard-of") is None
    for name in ("never-heard-of", "numpy"):
        folder = tmp_path / f"{name.replace('-', '_')}-7.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 7.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert version("never-heard-of") == "7.0"
    assert version("numpy") == numpy.__version__


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


# -- Reading records: what is no record is named with its place, and costs no other


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read as a run: it is no JSON that can be used"),
        ('{"schema_version": NaN}', "NaN is no number of JSON"),
        ("[" * 100_000, "it is no JSON that can be used"),
        ('{"schema_version": 1, "task": "\\ud800"}', "it is no JSON that can be used"),
        ('{"schema_version": 1, "task": "\\uDFFF"}', "it is no JSON that can be used"),
        ('{"schema_version": 1, "task": "sm', "it is no JSON that can be used"),
        ("\xff\xfe", "cannot be read as a run"),
        ('{"schema_version": "one"}', "is not a run record of capbench"),
        ("[1]", "is not a run record of capbench (it has no schema_version)"),
        ('{"schema_version": true}', "it has no schema_version"),
        ('{"schema_version": 2}', "has schema version 2, this capbench knows 1"),
        ('{"schema_version": 1}', "is not a whole record of a run: the record has no 'task'"),
    ],
)
def test_what_is_no_record_is_named_with_its_file(tmp_path: Path, text: str, reason: str):
    (tmp_path / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=re.escape(reason)) as caught:
        read_record(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path / 'run.json'}: ")
    assert (caught.value.hint == "Update capbench.") == ("version 2" in reason)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"intervals": {"cider.kendall_b": {}}}, "/intervals/cider.kendall_b has no 'metric'"),
        ({"task": "other"}, "/results has no 'other'"),
        (
            {"published": {"cider.kendall_b": {"value": "0.4"}}},
            "/published/cider.kendall_b/value: input should be a number between -1e100 and 1e100",
        ),
    ],
)
def test_record_of_a_wrong_inner_shape_costs_itself_alone(tmp_path: Path, change: dict[str, Any], fault: str):
    bad = make_record() | change
    files = [write_record(tmp_path, "bad", bad) / "run.json", write_record(tmp_path, "good", make_record())]
    (run,), (error,) = read_task_runs(files)
    assert run.folder == tmp_path / "good"
    assert error.message == f"{files[0]}: is not a whole record of a run: {fault}"


def test_keys_that_a_later_capbench_adds_are_kept(tmp_path: Path):
    made = make_record(something={"new": [1]})
    assert read_record(write_record(tmp_path, "later", made)).values == json.loads(json.dumps(made))


def test_run_is_read_with_its_samples_when_they_are_asked_for(tmp_path: Path):
    with_samples = read_task_run(write_record(tmp_path, "one", make_record(), {"id": ["a"], "cider": [0.5]}))
    assert with_samples.samples.to_pydict() == {"id": ["a"], "cider": [0.5]}
    assert [result.metric for result in with_samples.results] == ["cider", "bleu_1"]
    without = read_task_run(write_record(tmp_path, "two", make_record()) / "run.json")
    assert without.folder == tmp_path / "two"
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'two'}: has no samples.parquet")) as caught:
        _ = without.samples
    assert "--no-log_samples" in caught.value.hint
    (tmp_path / "two/samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as the samples of a run"):
        _ = without.samples
