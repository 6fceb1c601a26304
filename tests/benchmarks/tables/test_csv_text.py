from __future__ import annotations

import csv
import io

import pytest

from capbench.benchmarks.tables.csv_text import csv_text


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
