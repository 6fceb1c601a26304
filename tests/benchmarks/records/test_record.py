"""The typed record: every key by name, older records with their defaults, and what a fresh run makes."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from pathlib import Path

import pytest
from finished_runs import make_record

import capbench
from capbench.benchmarks.protocols.generate_until import GenerateUntilSettings
from capbench.benchmarks.records.entries import PublishedValue, Significance, UsedModel
from capbench.benchmarks.records.files import record_text
from capbench.benchmarks.records.hashes import checksum, verify
from capbench.benchmarks.records.reading import read_record
from capbench.benchmarks.records.record import Record

RUNS = Path(__file__).parents[3] / "results" / "runs"
# Written before records had sums of files: what reads records reads these, too.
OLDER = Path(__file__).parent / "older_runs"
KEPT = [*sorted(RUNS.rglob("run.json")), *sorted(OLDER.rglob("run.json"))]
LATER = ("checksum", "significance", "histograms", "pictures", "judging", "documents_hash", "redistribution", "samples")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: "/".join(path.parts[-5:-3]))
def test_kept_records_are_read_verified_and_written_byte_for_byte(path: Path):
    record = read_record(path.parent)
    assert verify(record.values) is None
    assert record_text(record) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: "/".join(path.parts[-5:-3]))
def test_everything_that_a_kept_record_holds_has_a_name(path: Path):
    record = read_record(path)
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
