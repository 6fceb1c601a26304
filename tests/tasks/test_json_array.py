import json
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import yaml

from capbench.errors import DataError
from capbench.tasks import json_array
from capbench.tasks.json_array import elements, members

FAULTS = yaml.safe_load(Path(__file__).with_name("json_faults.yaml").read_text())
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
    ("kind", "text", "good", "reason"), [*FAULTS, ("array", "[" * 100_000, 0, "it is nested too deep")]
)
def test_fault_is_named_and_what_comes_before_it_is_read(write: Write, kind: str, text: str, good: int, reason: str):
    parts = {"array": elements, "object": members}[kind](write("a.json", text))
    assert len(list(islice(parts, good))) == good
    with pytest.raises(DataError, match=re.escape(f"a.json: not a JSON {kind}: {reason}")):
        next(parts)
