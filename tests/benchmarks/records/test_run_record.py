"""run.json: its schema, and lm-eval's own table printer over it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import capbench
from capbench.benchmarks.records.schema import SCHEMA_PATH
from capbench.benchmarks.tables.run import Run


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


def test_record_follows_the_published_schema(run: Run):
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(read(run), schema)


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


def test_records_without_the_keys_of_later_versions_follow_the_schema(run: Run):
    new = {"checksum", "significance", "histograms", "samples", "redistribution", "pictures", "documents_hash"}
    record = {key: value for key, value in read(run).items() if key not in new}
    assert len(record) == len(read(run)) - len(new)
    jsonschema.validate(record, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))


def test_schema_refuses_a_record_with_a_value_that_is_text(run: Run):
    record = read(run)
    record["results"]["iiw_400"]["cider,none"] = "0.04"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))


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


def test_load_run_gives_back_what_was_written(run: Run):
    folder = run["iiw_400"].folder
    assert folder is not None
    record = run["iiw_400"].record
    assert capbench.load_run(folder)["iiw_400"].record == record
    assert capbench.load_run(folder / "run.json")["iiw_400"].record == record


def test_frame_has_a_row_a_result(run: Run):
    frame = run.to_pandas()
    assert list(frame["metric"]) == ["bleu_4", "cider", "length"]
    assert ((frame["low"] <= frame["value"]) & (frame["value"] <= frame["high"])).all()
    assert (frame["n"] == 100).all()


def test_samples_hold_every_document_of_the_subset(run: Run):
    import pyarrow.parquet

    folder = run["iiw_400"].folder
    assert folder is not None
    samples = pyarrow.parquet.read_table(Path(folder) / "samples.parquet").to_pandas()
    assert len(samples) == samples["cider"].notna().sum() == 100
    assert samples["failure"].isna().all()
