"""Texts and numbers as CSV, lines of JSON and HTML."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.tables.text import csv_text, html_text, json_lines


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", ["==1+1", "=cmd()", "+1+1", "-A1", "-", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "+1\n=2"])
def test_text_that_a_spreadsheet_would_compute_is_text(text: str):
    assert read(csv_text([{"model": text, text: 1}])) == [["model", f"'{text}"], [f"'{text}", "1"]]


@pytest.mark.parametrize("value", [-0.25, 1e-05, -3, "-0.25", "+1.5", "a=b", "", "'=1", " =1", "a\rb", "a\nb"])
def test_numbers_and_other_texts_stay_as_they_are(value: object):
    assert read(csv_text([{"a": 0, "value": value}]))[1] == ["0", str(value)]


def test_columns_stand_in_the_order_asked_for_and_what_is_missing_is_empty():
    rows = [{"a": 1, "b": None}, {"b": 2.5}]
    assert csv_text(rows, ["b", "c", "a"]) == "b,c,a\n,,1\n2.5,,"
    assert csv_text(rows) == "a,b\n1,\n,2.5"
    assert csv_text([]) == ""


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


@pytest.mark.parametrize(
    "control", ["\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"]
)
def test_control_that_turns_a_text_around_is_shown_by_its_number(control: str):
    assert html_text(f"a{control}gpj.exe") == f"a[U+{ord(control):04X}]gpj.exe"


def test_letters_that_run_from_right_to_left_stay_and_markup_is_escaped():
    assert html_text("שלום \u200f\u2029 <b title='x'>") == "שלום \u200f\u2029 &lt;b title=&#x27;x&#x27;&gt;"
    assert html_text(None) == "None"
