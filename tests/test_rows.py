from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from capbench.errors import DataError
from capbench.rows import BadRow, parse_json, read_rows

WriteRows = Callable[[str, str | bytes], list[Any]]


@pytest.fixture
def read(tmp_path: Path) -> WriteRows:
    """Write a file and return its rows."""

    def rows(name: str, content: str | bytes) -> list[Any]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_rows(path))

    return rows


# --- jsonl


def test_jsonl_gives_a_row_a_line_and_skips_empty_ones(read: WriteRows):
    assert read("a.jsonl", '{"a": 1}\n\n  \r\n{"a": "é"}\r\n{"a": null}') == [
        {"a": 1},
        {"a": "é"},
        {"a": None},
    ]


def test_jsonl_may_begin_with_a_byte_order_mark_and_end_in_ndjson(read: WriteRows):
    assert read("a.ndjson", b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n') == [{"a": 1}, {"a": 2}]


def test_line_separators_within_a_json_text_do_not_cut_the_line(read: WriteRows):
    assert read("a.jsonl", '{"a": "one\u2028two\u0085three"}\n') == [{"a": "one\u2028two\u0085three"}]


def test_bad_line_of_jsonl_is_named_and_the_others_survive(read: WriteRows):
    lines = [
        b'{"a": 1}',
        b'{"a": "\xff"}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'["a"]',
        b"null",
        b'{"a": 1} {"a": 2}',
        b"[" * 100_000,
        b'{"a": 3}',
        b'{"a": "tru',
    ]
    first, *bad, last, truncated = read("a.jsonl", b"\n".join(lines))
    assert (first, last) == ({"a": 1}, {"a": 3})
    assert [row.place for row in bad] == [f"a.jsonl:{number}" for number in range(2, 9)]
    assert [row.reason for row in bad] == [
        "not UTF-8",
        "not JSON: NaN is not a JSON value",
        "not JSON: -Infinity is not a JSON value",
        "not a JSON object",
        "not a JSON object",
        "not JSON: Extra data: line 1 column 10 (char 9)",
        "not JSON: it is nested too deep",
    ]
    assert truncated.place == "a.jsonl:10"
    assert truncated.reason.startswith("not JSON: Unterminated string")


def test_empty_file_has_no_rows(read: WriteRows):
    assert read("a.jsonl", "") == []


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "", "{'a': 1}", "[1,]"])
def test_text_that_is_not_json_is_refused(text: str):
    with pytest.raises(ValueError):
        parse_json(text)


# --- json


def test_json_list_gives_its_objects_and_names_what_is_none(read: WriteRows):
    assert read("a.json", b'\xef\xbb\xbf[{"a": 1},\n 5, {"a": 2}, null]') == [
        {"a": 1},
        BadRow("a.json[1]", "not a JSON object"),
        {"a": 2},
        BadRow("a.json[3]", "not a JSON object"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"annotations": []}', "expected a list of objects, found dict"),
        (b'[{"a": 1}, {"a"', "not JSON"),
        (b'[{"a": NaN}]', "not JSON: NaN is not a JSON value"),
        (b'[{"a": "\xff"}]', "not JSON: 'utf-8' codec can't decode"),
        (b"", "not JSON"),
    ],
)
def test_json_file_that_is_no_list_or_is_truncated_is_an_error_that_names_it(
    read: WriteRows, content: bytes, message: str
):
    with pytest.raises(DataError, match=message) as caught:
        read("a.json", content)
    assert "a.json" in caught.value.message


# --- csv, tsv


def test_csv_keeps_commas_quotes_and_line_ends_within_quotes(read: WriteRows):
    content = '\ufeffid,caption\r\n1,"one, ""two""\nthree"\r\n2,four\r\n'
    assert read("a.csv", content) == [
        {"id": "1", "caption": 'one, "two"\nthree'},
        {"id": "2", "caption": "four"},
    ]


def test_tsv_is_cut_at_tabs(read: WriteRows):
    assert read("a.tsv", "id\tcaption\n1\ta, b\n") == [{"id": "1", "caption": "a, b"}]


def test_bad_row_of_csv_is_named_and_the_others_survive(read: WriteRows):
    content = b'id,caption\n1,a\n2\n3,b,c\n\n4,caf\xe9\n5,"d" e\n6,"f\ng"\n7,h\n'
    assert read("a.csv", content) == [
        {"id": "1", "caption": "a"},
        BadRow("a.csv:3", "expected 2 fields"),
        BadRow("a.csv:4", "expected 2 fields"),
        BadRow("a.csv:6", "not UTF-8"),
        BadRow("a.csv:7", "not CSV: ',' expected after '\"'"),
        {"id": "6", "caption": "f\ng"},
        {"id": "7", "caption": "h"},
    ]


def test_quote_that_is_never_closed_names_the_lines_that_it_swallowed(read: WriteRows):
    assert read("a.csv", 'id,caption\n1,a\n2,"b\n3,c\n4,d\n') == [
        {"id": "1", "caption": "a"},
        BadRow("a.csv:3-5", "not CSV: unexpected end of data"),
    ]


def test_field_beyond_all_bounds_is_a_bad_row_and_the_others_survive(read: WriteRows):
    rows = read("a.csv", f"id,caption\n1,{'x' * 200_000}\n2,b\n")
    assert rows[0].place == "a.csv:2"
    assert "field larger than field limit" in rows[0].reason
    assert rows[1:] == [{"id": "2", "caption": "b"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no header line"),
        (b'id,"caption\n1,a\n', "a.csv:1: the header line is not CSV"),
        ("id,caption\n1,a\n".encode("utf-16"), "a.csv: is not UTF-8"),
        (b"id,l\xe9gende\n1,a\n", "a.csv: is not UTF-8"),
    ],
)
def test_csv_without_a_readable_header_is_an_error(read: WriteRows, content: bytes, message: str):
    with pytest.raises(DataError, match=message):
        read("a.csv", content)


def test_csv_with_nothing_but_a_header_has_no_rows(read: WriteRows):
    assert read("a.csv", "id,caption\n") == []


# --- parquet, and what is none of these


def test_parquet_gives_its_rows(tmp_path: Path):
    rows = [{"a": number, "b": ["x", "y"], "image": {"bytes": b"\xff"}} for number in range(300)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert list(read_rows(tmp_path / "a.parquet")) == rows


def test_parquet_that_is_truncated_or_damaged_is_an_error_that_names_it(tmp_path: Path):
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"a": [f"caption number {number}" for number in range(2000)]})
    pyarrow.parquet.write_table(table, path)
    whole = path.read_bytes()
    damaged = (whole[: len(whole) // 2], b"", b"not parquet", whole[:40] + b"\xff" * 400 + whole[440:])
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.parquet: not a readable Parquet file"):
            list(read_rows(path))


def test_unknown_suffix_is_an_error_that_lists_the_known_ones(read: WriteRows):
    with pytest.raises(DataError) as caught:
        read("a.xlsx", json.dumps([]))
    assert "a.xlsx: unknown format" in caught.value.message
    assert ".jsonl" in caught.value.hint


def test_missing_file_and_folder_are_errors(tmp_path: Path):
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(DataError, match="there is no such file"):
            list(read_rows(path))
