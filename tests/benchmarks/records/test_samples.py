"""Samples in parts: one file whatever the parts, of columns whose type a part may not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from capbench.benchmarks.inputs.failures import Failure
from capbench.benchmarks.records import samples as written
from capbench.benchmarks.records.samples import Samples, Shortened, scores_alone, write_samples

N = 12
COLUMNS: Mapping[str, Sequence[Any]] = {
    "id": [f"/data/{'ab'[n == 11]}/{0 if n == 11 else n}" for n in range(N)],
    "image": [f"/images/{n // 4}.jpg" for n in range(N)],
    "category": ["one"] * N,
    "references": [[] if n < 6 else ["a dog"] for n in range(N)],
    "ratings": [None if n < 4 else [1.0, None] for n in range(N)],
    "preferred": [None if n < 4 else n % 2 for n in range(N)],
    # Of these two the first parts tell no type.
    "own": [None if n < 8 else n / 2 for n in range(N)],
    "note": [None if n < 8 else f"note {n}" for n in range(N)],
}
SCORES = {
    "length": np.arange(N, dtype=np.float64),
    "late": np.array([np.nan] * 8 + [1.0, np.inf, 3.0, 4.0]),
    "never": np.full(N, np.nan),
}


def samples(*cuts: int) -> Samples:
    edges = [0, *cuts, N]

    def parts() -> Iterator[Mapping[str, Sequence[Any]]]:
        for first, end in pairwise(edges):
            yield {name: values[first:end] for name, values in COLUMNS.items()}

    lost = [Failure("row 99", "data", "has no caption")]
    return Samples(parts, SCORES, {3: "metric length: is odd", 9: "metric late: is odd"}, lost)


CUTS = [(), (4,), (1, 2, 9), tuple(range(1, N))]


@pytest.mark.parametrize("rows, scores, made", [(N, SCORES, 1), (N - 1, SCORES, 2), (N, {}, 2)])
def test_few_rows_are_made_once_and_many_are_not_kept(
    rows: int, scores: Mapping[str, np.ndarray], made: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(written, "ROWS", rows)
    asked: list[int] = []

    def parts() -> Iterator[Mapping[str, Sequence[Any]]]:
        asked.append(1)
        yield COLUMNS

    assert Samples(parts, scores, {}, []).table().num_rows == N
    assert len(asked) == made


@pytest.mark.parametrize("cuts", CUTS)
def test_rows_are_the_same_whatever_the_parts(cuts: tuple[int, ...]):
    table = samples(*cuts).table()
    assert table.schema == samples().table().schema
    rows = table.to_pylist()
    assert len(rows) == N + 1
    for name, values in COLUMNS.items():
        assert [row[name] for row in rows[:N]] == list(values), name
    assert [row["late"] for row in rows[7:N]] == [None, 1.0, None, 3.0, 4.0]
    assert [row["failure"] for row in rows if row["failure"]] == [
        "metric length: is odd", "metric late: is odd", "data has no caption",
    ]  # fmt: skip
    assert rows[N] == {**dict.fromkeys(rows[0]), "id": "row 99", "failure": "data has no caption"}
    types = {field.name: str(field.type) for field in table.schema}
    assert (types["own"], types["note"], types["late"], types["never"]) == ("double", "string", "double", "double")


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("size", [5, 13, 20])
@pytest.mark.parametrize("alone", [False, True])
def test_file_is_the_same_whatever_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: tuple[int, ...], size: int, alone: bool
):
    monkeypatch.setattr(written, "ROWS", size)

    def content(of: Samples, name: str) -> bytes:
        write_samples(scores_alone(of.tables) if alone else of.tables(), tmp_path / name)
        return (tmp_path / name).read_bytes()

    assert content(samples(*cuts), "cut") == content(samples(), "whole")
    file = pyarrow.parquet.ParquetFile(tmp_path / "cut")
    groups = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    assert groups == [size] * ((N + 1) // size) + [(N + 1) % size] * ((N + 1) % size > 0)


@pytest.mark.parametrize("cuts", CUTS)
def test_folders_are_hidden_and_names_that_would_become_one_stay_apart(cuts: tuple[int, ...]):
    rows = pyarrow.concat_tables(scores_alone(samples(*cuts).tables)).to_pylist()
    assert set(rows[0]) == {"id", "image", "category", "failure", "length", "late", "never", "own"}
    ids = [row["id"] for row in rows]
    # The first and the last one lie in two folders under one name.
    assert len(set(ids)) == N + 1
    assert not any("/" in one for one in ids)
    assert all(one != "0" and one.startswith("0") for one in (ids[0], ids[11]))
    assert [row["image"] for row in rows[:4]] == ["0.jpg"] * 4


def test_name_that_is_short_already_is_not_given_to_another():
    short = Shortened(["/a/x", "x", None, "y"])
    assert short("x") == "x"
    assert short("/a/x") != "x"
    assert short(None) is None
    assert Shortened(["/a/x", "y"])("/a/x") == "x"
