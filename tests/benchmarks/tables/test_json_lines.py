"""Columns as lines of JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.tables.json_lines import json_lines

NUMBERS = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
ROWS = st.tuples(st.text(), st.text(), NUMBERS, NUMBERS)


@given(st.lists(st.text(), min_size=4, max_size=4, unique=True), st.lists(ROWS, max_size=6))
def test_lines_are_those_of_json(names: list[str], rows: list[tuple[str, str, float, float]]):
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    found = list(json_lines(columns))
    assert found == [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows]


def test_lines_of_nothing():
    assert list(json_lines({})) == []
    assert list(json_lines({"id": [], "bleu_4": []})) == []
