"""``bench run`` with metrics of graphs and objects on the shapes world, as docs/baselines.md tells it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tiny_capture import find_minilm

GRAPH = "parser=grammar,lemmatize=false"


def test_what_is_wrong_with_a_caption_moves_the_metrics_that_look_at_it(bench, tmp_path: Path):
    encoder = f"encoder={find_minilm()}"
    metrics = {
        "factual": f"factual_spice[{GRAPH}]",
        "merged": f"factual_spice[{GRAPH},compare=merged]",
        "soft": f"soft_spice[{GRAPH},{encoder}]",
        "both": f"soft_spice[{GRAPH},both_ways=true,{encoder}]",
        "aloha": f"aloha[objects=grammar,{encoder}]",
        "zero": f"aloha[objects=grammar,unmatched=zero,{encoder}]",
    }
    done = bench(
        *("run", "--task", "shapes_detailcaps_agreement", "--limit", 24, "--bootstrap", 0),
        *("--metrics", *metrics.values(), "--output_path", tmp_path),
    ).succeeded()
    # All words of the shapes world are in the list.
    assert "passes over" not in done.err
    for label in ("SPICE (FACTUAL) (merged, grammar)", "soft-SPICE (both ways, grammar", "ALOHa (grammar, unmatched 0"):
        assert label in done.out
    (file,) = tmp_path.rglob("samples.parquet")
    table = pq.read_table(file)
    columns = [name for name in table.column_names if name.endswith("]")]
    values = {name: table[column].to_numpy() for name, column in zip(metrics, columns, strict=True)}
    wrong = np.array([one.partition("-")[2] for one in table["id"].to_pylist()])
    of = {name: {kind: scores[wrong == kind] for kind in set(wrong)} for name, scores in values.items()}
    for scores in of.values():
        assert scores["full"] == pytest.approx(1, abs=1e-6)
        assert scores["shuffled"].max() < 0.95
    # A thing that is not there is the object that is left over.
    assert of["zero"]["hallucination"].tolist() == [0.0] * 4
    assert of["aloha"]["hallucination"] == pytest.approx(1, abs=1e-6)
    # What is left out costs the recall of graphs, which soft-SPICE has one way not.
    assert of["factual"]["omission"].max() < 0.9 < of["soft"]["omission"].min()
    assert (of["both"]["omission"] < of["soft"]["omission"]).all()
