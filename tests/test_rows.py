import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from capbench.errors import DataError
from capbench.rows import BadRow, is_number, parse_number, read_rows

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
    assert read("a.jsonl", '{"a": 1}\n\n  \r\n{"a": "é"}\r\n{"a": null}') == [{"a": 1}, {"a": "é"}, {"a": None}]


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
        b'{"a": [{"b": 1, "b": 1}]}',
        b'{"a": 3}',
        b'{"a": "tru',
    ]
    first, *bad, last, truncated = read("a.jsonl", b"\n".join(lines))
    assert (first, last) == ({"a": 1}, {"a": 3})
    assert [row.place for row in bad] == [f"a.jsonl:{number}" for number in range(2, 10)]
    assert [row.reason for row in bad] == [
        "not UTF-8",
        "not JSON: NaN is not a JSON value",
        "not JSON: -Infinity is not a JSON value",
        "not a JSON object",
        "not a JSON object",
        "not JSON: Extra data: line 1 column 10 (char 9)",
        "not JSON: it is nested too deep",
        "not JSON: key 'b' is given twice in {'b': 1}",
    ]
    assert truncated.place == "a.jsonl:11"
    assert truncated.reason.startswith("not JSON: Unterminated string")


# --- json


def test_json_file_of_an_object_a_line_is_read_as_jsonl(read: WriteRows, tmp_path: Path):
    assert read("a.json", b'\xef\xbb\xbf{"a": {"b": 1}}\n5\n{"a": 2') == [
        {"a": {"b": 1}},
        BadRow("a.json:2", "not a JSON object"),
        BadRow("a.json:3", "not JSON: Expecting ',' delimiter: line 1 column 8 (char 7)"),
    ]
    assert read("b.json", '{"a": {"b": 1}}\n\n') == [{"key": "a", "b": 1}]
    with pytest.raises(DataError, match=r"c\.json: not JSON"):
        read("c.json", '{"a": 1},\n{"a": 2}\n')
    with pytest.raises(DataError, match=r"a\.json: column 'key' needs the keys of a JSON object"):
        list(read_rows(tmp_path / "a.json", "key"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'"annotations"', "expected a list of objects, or an object, found str"),
        (b'[{"a": 1}, {"a"', "not JSON"),
        (b'[{"a": 1, "b": 2, "b": 3}]', "not JSON: key 'b' is given twice in {'a': 1, 'b': 3}"),
        (b'[{"a": "\xff"}]', "not JSON: 'utf-8' codec can't decode"),
        (b"", "not JSON"),
    ],
)
def test_json_file_that_is_no_list_or_cut_is_an_error_that_names_it(read: WriteRows, content: bytes, message: str):
    with pytest.raises(DataError, match=message) as caught:
        read("a.json", content)
    assert "a.json" in caught.value.message


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ({"1.jpg": {"a": 1}, "2.jpg": {"a": 2}}, [{"key": "1.jpg", "a": 1}, {"key": "2.jpg", "a": 2}]),
        (
            {"HC": [{"a": 1}, {"a": 2}], "MM": [{"a": 3}], "HI": []},
            [{"key": "HC", "a": 1}, {"key": "HC", "a": 2}, {"key": "MM", "a": 3}],
        ),
        (
            {"1.jpg": "a dog", "2.jpg": "a cat"},
            [{"key": "1.jpg", "value": "a dog"}, {"key": "2.jpg", "value": "a cat"}],
        ),
        ({"1.jpg": ["a dog", "dogs"]}, [{"key": "1.jpg", "value": ["a dog", "dogs"]}]),
        ({"1.jpg": {"key": "1.jpg", "a": 1}}, [{"key": "1.jpg", "a": 1}]),
        ({}, []),
        (
            {"info": {"year": 2014}, "images": [{"id": 1}, 5], "licenses": []},
            [
                BadRow("a.json['info']", "not a list of objects"),
                {"key": "images", "id": 1},
                BadRow("a.json['images'][1]", "not a JSON object"),
            ],
        ),
        ({"a": {"n": 1}, "b": 5}, [{"key": "a", "n": 1}, BadRow("a.json['b']", "not a JSON object")]),
        ({"a": {"key": "b"}}, [BadRow("a.json['a']", "has a column 'key', which the key of its object would replace")]),
    ],
)
def test_json_object_gives_its_values_with_their_keys(read: WriteRows, content: Any, rows: list[Any]):
    assert read("a.json", json.dumps(content)) == rows


def test_column_of_keys_is_called_as_said_and_refused_where_there_are_none(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text('{"HC": [{"key": 1}]}')
    assert list(read_rows(path, "category")) == [{"category": "HC", "key": 1}]
    path.write_text('[{"key": 1}]')
    with pytest.raises(DataError, match=r"a\.json: column 'category' needs the keys of a JSON object"):
        list(read_rows(path, "category"))
    (tmp_path / "a.jsonl").write_text('{"key": 1}')
    with pytest.raises(DataError, match=r"a\.jsonl: column 'category' needs the keys"):
        list(read_rows(tmp_path / "a.jsonl", "category"))


# --- csv, tsv


def test_csv_keeps_commas_quotes_and_line_ends_within_quotes(read: WriteRows):
    content = '\ufeffid,caption\r\n1,"one, ""two""\nthree"\r\n2,four\r\n'
    assert read("a.csv", content) == [{"id": "1", "caption": 'one, "two"\nthree'}, {"id": "2", "caption": "four"}]


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


def test_two_quotes_of_a_tsv_that_take_in_a_row_name_its_lines(read: WriteRows):
    assert read("a.tsv", 'id\tcaption\n1\t"a\n2\tb"\n3\t"c\nd"\n4\t"e\tf"\n') == [
        BadRow("a.tsv:2-3", "an opening quote swallows the lines that follow"),
        {"id": "3", "caption": "c\nd"},
        {"id": "4", "caption": "e\tf"},
    ]
    assert read("a.csv", 'id,caption\n1,"a\n2\tb"\n') == [{"id": "1", "caption": "a\n2\tb"}]


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


def test_column_given_twice_is_an_error_that_names_it(read: WriteRows, tmp_path: Path):
    with pytest.raises(DataError, match=r"a\.csv:1: column 'rating' is given twice"):
        read("a.csv", "id,rating,rating\n1,2,5\n")
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: column 'a' is given twice"):
        list(read_rows(tmp_path / "a.parquet"))


# --- parquet, and what is none of these


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


# --- numbers


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, 3.0), (np.float32(0.5), 0.5), (Decimal("1.25"), 1.25), (" -2.5 ", -2.5), ("+.5", 0.5), ("1e3", 1000.0)],
)
def test_number_is_read_from_itself_or_its_ascii_text(value: Any, number: float):
    assert parse_number(value) == number
    assert is_number(value) is not isinstance(value, str)


@pytest.mark.parametrize(
    "value",
    [
        *(True, False, np.bool_(True), None, "", " ", "true", "1_000", "1_0", "\uff11", "\u0661", "\u00b2"),
        *("0x10", "1,5", "1 2", "one", b"1", [1], {}, 10**400, 1j, "\u00a01", "1\ufeff", "--1", "1e", "."),
    ],
)
def test_what_only_python_takes_for_a_number_is_none(value: Any):
    with pytest.raises((TypeError, ValueError), match="is not a number"):
        parse_number(value)
    assert not is_number(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, "inf", "-Infinity", "NaN", "1e999"])
def test_number_that_is_not_finite_is_told_from_what_is_none(value: Any):
    with pytest.raises(OverflowError, match="is not finite"):
        parse_number(value)
    assert not is_number(value)
