"""The reader of VATEX-EVAL on small files in the released layout, and pickles that want more than arrays."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.vatex_eval.reader import captions, load_array

ARRAYS = {
    "candidates_list": np.array(["a dog runs", "a cat", "Öl fließt"]),
    "gts_list": np.array([["a dog", "it runs"], ["the cat", "a cat sits"], ["oil", "öl"]]),
    "video_ids": np.array(["v1", "v1", "v2"]),
    # Rater by rater: the first gave 1, 2, 3.
    "human_scores": np.array([1, 2, 3, 4, 5, 1, 2, 2, 5], dtype=np.float64),
}


def write(folder: Path, protocol: int = 4, **arrays: Any) -> Path:
    for name, array in {**ARRAYS, **arrays}.items():
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(array, protocol=protocol))
    return folder


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("shape", [(9,), (3, 3), (9, 1)])
def test_ratings_are_stored_rater_by_rater(tmp_path: Path, protocol: int, shape: tuple[int, ...]):
    scores = ARRAYS["human_scores"].reshape(shape)
    first, second, third = captions(write(tmp_path, protocol, human_scores=scores))
    assert first == {
        "id": "v1-0",
        "video": "v1",
        "candidate": "a dog runs",
        "references": ["a dog", "it runs"],
        "ratings": [1.0, 4.0, 2.0],
    }
    assert isinstance(second, dict)
    assert (second["id"], second["ratings"]) == ("v1-1", [2.0, 5.0, 2.0])
    assert isinstance(third, dict)
    assert (third["id"], third["candidate"], third["references"]) == ("v2-0", "Öl fließt", ["oil", "öl"])
    assert third["ratings"] == [3.0, 1.0, 5.0]


def test_rater_who_skipped_stays_and_what_is_no_number_is_named(tmp_path: Path):
    scores = np.array([np.nan, 2, "1_0", 4, True, 1, 2, 2, "5"], dtype=object)
    first, second, third = captions(write(tmp_path, human_scores=scores))
    assert isinstance(first, dict)
    assert np.isnan(first["ratings"][0])
    assert first["ratings"][1:] == [4.0, 2.0]
    assert second == BadRow("v1-1", "has a rating that is no number: is not a number: True")
    assert third == BadRow("v2-0", "has a rating that is no number: is not a number: '1_0'")


def test_lists_and_arrays_of_objects_are_read_too(tmp_path: Path):
    gts = np.empty(3, dtype=object)
    for number, texts in enumerate((["a dog", "dog"], np.array(["the cat", "a cat sits"]), ("oil", "öl"))):
        gts[number] = texts
    write(tmp_path, candidates_list=ARRAYS["candidates_list"].astype(object), gts_list=gts, video_ids=["a", "b", "c"])
    rows = [row for row in captions(tmp_path) if isinstance(row, dict)]
    assert [row["references"] for row in rows] == [["a dog", "dog"], ["the cat", "a cat sits"], ["oil", "öl"]]
    assert [row["id"] for row in rows] == ["a-0", "b-0", "c-0"]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([[True, False]]),
        np.array([b"ab", b"c"]),
        np.array(["ä", "bc"], dtype=">U4"),
        np.zeros((0, 4)),
    ],
)
def test_arrays_are_read_as_numpy_would(tmp_path: Path, array: np.ndarray):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(array, protocol=4))
    found = load_array(tmp_path / "a.pkl", "")
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


def test_files_of_numpy_1_and_2_name_the_same_function_otherwise(tmp_path: Path):
    content = pickle.dumps(np.arange(3), protocol=3)
    assert b"numpy._core.multiarray" in content
    (tmp_path / "a.pkl").write_bytes(content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert load_array(tmp_path / "a.pkl", "").tolist() == [0, 1, 2]


class Call:
    """Unpickles as a call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple:
        return self.call


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Call(exec, "raise SystemExit"), r"builtins\.exec"),
        (Call(np.frombuffer, b"abcd"), r"numpy\.frombuffer"),
        (Call(np.ndarray, (2,)), "TypeError"),
        (np.float64(3), r"numpy\._core\.multiarray\.scalar"),
        ([Path("x")], r"pathlib\.\w+"),
        (np.zeros(2, dtype=[("a", "i4")]), "records|type V"),
        ({"a": 1}, "a dict"),
    ],
)
def test_a_pickle_that_wants_more_is_refused_by_name(tmp_path: Path, value: Any, named: str):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(value, protocol=4))
    with pytest.raises(DataError, match=named):
        load_array(tmp_path / "a.pkl", "")


def test_texts_cannot_pass_for_objects(tmp_path: Path):
    # An array of bytes whose type is then said to be "object": numpy would take the bytes for addresses.
    content = pickle.dumps(np.array([1, 2], dtype="i8"), protocol=3)
    (tmp_path / "a.pkl").write_bytes(content.replace(b"i8", b"O8"))
    with pytest.raises(DataError, match="an array of type O8"):
        load_array(tmp_path / "a.pkl", "")


@pytest.mark.parametrize("content", [b"", b"\x80\x04.", b"not a pickle"])
def test_a_damaged_pickle_is_an_error(tmp_path: Path, content: bytes):
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        load_array(tmp_path / "a.pkl", "")


def test_a_missing_file_says_what_to_do(tmp_path: Path):
    with pytest.raises(DataError, match="bench data vatex_eval"):
        list(captions(tmp_path))


def test_files_of_unequal_length_are_an_error(tmp_path: Path):
    with pytest.raises(DataError, match="8 ratings"):
        list(captions(write(tmp_path, human_scores=np.zeros(8))))
