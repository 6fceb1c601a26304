import json
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from capbench.errors import DataError
from capbench.tasks import json_array
from capbench.tasks.json_array import elements, members

Write = Callable[..., Path]


ARRAY = [{"a": [1, {"b": 'é\\"]'}]}, 12345, "x,]", None, -1.5e3, [], {}, True, "😀"]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_elements_are_those_of_the_json_library(write, monkeypatch, chunk: int, indent: int | None, ascii_only: bool):
    monkeypatch.setattr(json_array, "_CHUNK", chunk)
    text = json.dumps(ARRAY, indent=indent, ensure_ascii=ascii_only)
    assert list(elements(write("a.json", text))) == ARRAY


def test_file_that_is_not_utf_8_is_an_error(write: Write):
    with pytest.raises(DataError, match=r"a\.json: not UTF-8"):
        list(elements(write("a.json", b'["\xff"]')))


@pytest.mark.parametrize(
    ("read", "text", "good", "reason"),
    [
        (elements, "", 0, "it does not begin with '['"),
        (elements, '{"a": 1}', 0, "it does not begin with '['"),
        (elements, "[1, 2", 2, "it ends early, at character 5"),
        (elements, "[1 2]", 1, "expected ',' or ']', found '2', at character 3"),
        (elements, "[1, 2, ]", 2, "Expecting value"),
        (elements, '[{"a": 1}, {"a": ', 1, "Expecting value"),
        (elements, "[NaN]", 0, "NaN is not a JSON value"),
        (elements, '[1, {"a": 1, "a": 2}]', 1, "key 'a' is given twice in {'a': 2}"),
        (elements, "[" * 100_000, 0, "it is nested too deep"),
        (members, "[1]", 0, "it does not begin with '{'"),
        (members, '{"a": [1, 2', 2, "it ends early, at character 11"),
        (members, '{"a": [1]', 1, "it ends early, at character 9"),
        (members, '{"a": [1] "b": 2}', 1, "expected ',' or '}', found '\"'"),
        (members, '{"a" [1]}', 0, "expected ':' after the key 'a'"),
        (members, "{1: [1]}", 0, "expected a key, found 1"),
        (members, '{"a": }', 0, "Expecting value"),
    ],
)
def test_fault_is_named_and_what_comes_before_it_is_read(write: Write, read: Any, text: str, good: int, reason: str):
    parts = read(write("a.json", text))
    assert len(list(islice(parts, good))) == good
    kind = "array" if read is elements else "object"
    with pytest.raises(DataError, match=re.escape(f"a.json: not a JSON {kind}: {reason}")):
        next(parts)
