"""CAPTURE's precision and recall as results of a run, beside CAPTURE itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import capbench

SETTINGS = "parser=grammar,parser_model=captions,synonyms=false,soft=false"
NAMES = [
    f"capture[{SETTINGS}]",
    *(f"capture[of={of},{SETTINGS}]" for of in ("precision", "recall", "object_recall", "relation_f1")),
]


def test_each_number_has_an_interval_samples_and_a_row_of_its_own(tmp_path: Path):
    done = capbench.evaluate(
        "iiw-p5b", ["iiw_400"], metrics=NAMES, limit=12, resamples=50, output_path=tmp_path, store=tmp_path / "s"
    )["iiw_400"]  # fmt: skip
    found = {one.metric: one for one in done.results}
    assert list(found) == NAMES
    for one in found.values():
        assert one.interval is not None and one.value is not None
        assert one.interval.low <= one.value <= one.interval.high
    value, precision, recall, of_objects, of_relations = (found[name].value for name in NAMES)
    assert min(precision, recall) < value < max(precision, recall)
    assert len({value, precision, recall, of_objects, of_relations}) == 5
    assert [one.label[0] for one in found.values()] == [
        "CAPTURE (grammar captions)",
        "CAPTURE-Precision (grammar captions)",
        "CAPTURE-Recall (grammar captions)",
        "CAPTURE-Recall (objects, grammar captions)",
        "CAPTURE-F1 (relations, grammar captions)",
    ]
    (file,) = tmp_path.glob("iiw_400/**/samples.parquet")
    samples = pq.read_table(file).to_pylist()
    (column,) = [name for name in samples[0] if NAMES[2] in name]
    assert sum(row[column] for row in samples) / 12 == pytest.approx(recall)
