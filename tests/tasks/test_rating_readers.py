"""Flickr8k, Composite, DetailCaps and VATEX-EVAL, on small files in the released layouts."""

import json
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from capbench.benchmarks.protocols.agreement import ratings_of
from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks.composite.reader import unify
from capbench.tasks.detailcaps.reader import rated_captions
from capbench.tasks.documents import load_documents
from capbench.tasks.flickr8k.reader import crowdflower, expert
from capbench.tasks.index import build_index
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import load_task
from capbench.tasks.vatex_eval.reader import captions, load_array

CAPTIONS = (
    "dog.jpg#0\tA dog  runs .\n"
    "dog.jpg#1\tOne dog .\n"
    "\n"
    "cat.jpg#0\tA cat\tsits .\n"
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Write the raw files, given as text or bytes."""

    def make(expert: str | bytes = "", crowdflower: str | bytes = "", captions: str | bytes = CAPTIONS) -> Path:
        for name, content in (
            ("ExpertAnnotations.txt", expert),
            ("CrowdFlowerAnnotations.txt", crowdflower),
            ("Flickr8k.token.txt", captions),
        ):
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return make


def test_white_space_in_captions_is_collapsed_as_the_released_loaders_do(folder: Callable[..., Path]):
    (row,) = expert(folder("dog.jpg\tdog.jpg#0\t1\t2\t4\r\n"))
    assert (row["candidate"], row["references"]) == ("A dog runs .", ("A dog runs .", "One dog ."))
    assert row["ratings"] == [1, 2, 4]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"garbled", "image 'garbled' has no captions in Flickr8k.token.txt"),
        (b"dog.jpg", "caption '' is not in Flickr8k.token.txt"),
        (b"cow.jpg\tcat.jpg#0\t1\t2\t3", "image 'cow.jpg' has no captions"),
        (b"dog.jpg\tcat.jpg#7\t1\t2\t3", "caption 'cat.jpg#7' is not in"),
        (b"dog.jpg\tcat.jpg#0\t1\t2\t5", "bad rating '1 2 5': expected three ratings from 1 to 4"),
        (b"dog.jpg\tcat.jpg#0\t0\t2\t3", "bad rating '0 2 3': expected three ratings from 1 to 4"),
        (b"dog.jpg\tcat.jpg#0\t1\t2", "bad rating '1 2': expected three ratings"),
        (b"dog.jpg\tcat.jpg#0\t1\t2\t3\t4", "bad rating '1 2 3 4': expected three ratings"),
        (b"dog.jpg\tcat.jpg#0\t1\t2.5\t3", "bad rating '1 2.5 3': invalid literal for int"),
        (b"dog.jpg\tcat.jpg#0\t1\t0_2\t3", "bad rating '1 0_2 3': invalid literal for int"),
        (b"dog.jpg\tcat.jpg#0\t1\t\xef\xbc\x92\t3", "bad rating '1 \uff12 3': invalid literal for int"),
        (b"d\xffg.jpg\tcat.jpg#0\t1\t2\t3", "not UTF-8"),
    ],
)
def test_bad_expert_line_is_named_and_the_others_survive(folder: Callable[..., Path], line: bytes, reason: str):
    fine = b"dog.jpg\tcat.jpg#0\t1\t1\t1\n"
    first, bad, last = expert(folder(fine + line + b"\n" + fine.replace(b"cat.jpg#0", b"dog.jpg#0")))
    assert (first["id"], last["id"]) == ("dog.jpg|cat.jpg#0", "dog.jpg|dog.jpg#0")
    assert bad.place == "ExpertAnnotations.txt:2"
    assert bad.reason.startswith(reason)


def test_crowdflower_pair_is_rated_by_the_share_of_yes(folder: Callable[..., Path]):
    text = "dog.jpg\tcat.jpg#0\t0.333333333333\t1\t2\ndog.jpg\tdog.jpg#0\t1\t3\t0\ndog.jpg\tdog.jpg#1\t0\t0\t3\n"
    assert [row["ratings"] for row in crowdflower(folder(crowdflower=text))] == [1 / 3, 1.0, 0.0]


@pytest.mark.parametrize(
    "fields",
    [
        "0.5\t1\t2",
        "1\t1\t2",
        "0\t0\t0",
        "nan\t1\t2",
        "0.3333\t1",
        "0.3333\t1\t2\t3",
        "-0.3333\t-1\t4",
        "1.5\t3\t-1",
        "",
    ],
)
def test_crowdflower_line_whose_share_contradicts_its_counts_is_named(folder: Callable[..., Path], fields: str):
    fine = "dog.jpg\tdog.jpg#0\t1\t3\t0\n"
    bad, good = crowdflower(folder(crowdflower=f"dog.jpg\tcat.jpg#0\t{fields}\n{fine}"))
    assert bad.place == "CrowdFlowerAnnotations.txt:1"
    assert bad.reason.startswith("bad rating")
    assert good["ratings"] == 1.0


def test_bad_caption_line_is_named_and_no_reference(folder: Callable[..., Path]):
    captions = (
        b"dog.jpg#0\tA dog .\n"
        b"dog.jpg#1 no tab\n"
        b"no number\tA dog .\n"
        b"dog.jpg#2\tA d\xffg .\n"
        b"dog.jpg#0\tAnother dog .\n"
        b"dog.jpg#3\tOne dog .\n"
    )
    *bad, row = expert(folder("dog.jpg\tdog.jpg#0\t1\t1\t1\n", captions=captions))
    assert [row.place for row in bad] == [f"Flickr8k.token.txt:{number}" for number in (2, 3, 4, 5)]
    assert bad[-1].reason == "a second caption with the id 'dog.jpg#0'"
    assert (row["candidate"], row["references"]) == ("A dog .", ("A dog .", "One dog ."))


@pytest.mark.parametrize("name", ["Flickr8k.token.txt", "ExpertAnnotations.txt"])
def test_missing_raw_file_is_an_error_that_names_it(folder: Callable[..., Path], name: str):
    path = folder()
    (path / name).unlink()
    with pytest.raises(DataError, match=rf"{path} has no {name}.*\n.*bench data flickr8k_expert"):
        list(expert(path))


@pytest.mark.data
def test_raw_expert_file_gives_5822_pairs_of_1000_images(data_folder: Callable[[str], Path]):
    rows = list(expert(data_folder("flickr8k")))
    assert not [row for row in rows if isinstance(row, BadRow)]
    assert len(rows) == len({row["id"] for row in rows}) == 5_822
    assert len({row["image"] for row in rows}) == 1_000
    assert {len(row["references"]) for row in rows} == {5}
    # 158 pairs rate one of the image's own captions (CLIPScore's loader drops them).
    assert sum(row["candidate"] in row["references"] for row in rows) == 158


@pytest.mark.data
def test_raw_crowdflower_file_gives_47830_pairs_of_1000_images(data_folder: Callable[[str], Path]):
    rows = list(crowdflower(data_folder("flickr8k")))
    assert not [row for row in rows if isinstance(row, BadRow)]
    assert len(rows) == len({row["id"] for row in rows}) == 47_830
    assert len({row["image"] for row in rows}) == 1_000
    assert all(0 <= row["ratings"] <= 1 for row in rows)


# --- Composite

LOCAL = {"subset": "8k", "image_id": "a", "caption": "a dog .", "rating": 5, "refs": ["A dog.", "One dog."]}
HUB = {"img": {"bytes": b"\x89PNG", "path": None}, "cand": "a dog .", "human_score": 0.5, "refs": ["A dog."]}


def test_row_of_the_jsonl_layout():
    assert list(unify([LOCAL])) == [
        {
            "id": "0|a",
            "subset": "8k",
            "image": "8k/a",
            "candidate": "a dog .",
            "references": ["A dog.", "One dog."],
            "rating": 5,
        }
    ]


def test_captions_of_one_image_share_its_name_and_not_their_ids():
    other = {**HUB, "img": {"bytes": b"\xff\xd8", "path": None}}
    first, second, third = unify([HUB, {**HUB, "cand": "two dogs ."}, other])
    assert first["image"] == second["image"] != third["image"]
    assert len({first["id"], second["id"], third["id"]}) == 3
    assert (first["candidate"], first["references"], first["rating"]) == ("a dog .", ["A dog."], 0.5)


@pytest.mark.parametrize("references", [None, "A dog.", 5])
def test_document_without_a_list_of_references_is_named_and_the_others_survive(references: Any):
    first, bad, last = unify([LOCAL, {**LOCAL, "refs": references}, LOCAL])
    assert bad == BadRow("document 1", "has no list of references ('refs')")
    assert (first["id"], last["id"]) == ("0|a", "2|a")


def test_what_a_document_lacks_is_left_for_the_protocol_to_report():
    (row,) = unify([{"refs": ["A dog."]}])
    assert (row["candidate"], row["rating"]) == (None, None)


@pytest.mark.data
def test_released_copy_gives_11985_ratings_of_3995_images(data_folder: Callable[[str], Path]):
    entry = build_index().entries["composite"]
    task, _ = load_task(entry.path)
    documents = load_documents(task, entry.path, DataLocations({"composite": data_folder("composite")}))
    assert not documents.bad_rows
    assert len(documents.rows) == len({row["id"] for row in documents.rows}) == 11_985
    images = Counter(row["image"] for row in documents.rows)
    assert len(images) == 3_995
    assert set(images.values()) == {3}
    # 997 Flickr8k, 991 Flickr30k and 2,007 COCO images.
    assert sorted(Counter(image.partition("/")[0] for image in images).values()) == [991, 997, 2_007]


# --- DetailCaps

FAULTY = yaml.safe_load(Path(__file__).with_name("faulty_scores.yaml").read_text(encoding="utf-8"))
SCORES = {"CogVLM": 4, "ShareCaptioner": 3.5, "LLaVA_v15": 0, "other": 1}
DOCUMENT = {
    "image": "a.jpg",
    "source": "coco",
    "GT_Caption_GPT4O": "o",
    "GT_Caption_GPT4V": "v",
    "GT_Caption_Gemini15Pro": "g",
    "CogVLM": "by CogVLM",
    "ShareCaptioner": "by ShareCaptioner",
    "LLaVA_v15": "by LLaVA",
    "GPT4_Eval": json.dumps(SCORES),
}


@pytest.mark.parametrize(("encoded", "reason"), FAULTY)
def test_image_without_a_score_of_each_caption_is_named_and_the_others_survive(encoded: Any, reason: str):
    rows = list(rated_captions([DOCUMENT, {**DOCUMENT, "GPT4_Eval": encoded}, DOCUMENT]))
    assert len(rows) == 7
    assert [(row["candidate"], row["rating"]) for row in rows[:3]] == [
        ("by ShareCaptioner", 3.5),
        ("by CogVLM", 4.0),
        ("by LLaVA", 0.0),
    ]
    bad = rows[3]
    assert bad.place == "row 1 (a.jpg)"
    assert reason in bad.reason
    assert rows[4]["id"] == "2|ShareCaptioner"


# --- VATEX-EVAL, and pickles that want more than arrays

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


def test_rater_who_skipped_stays_and_what_is_no_number_is_named(tmp_path: Path):
    scores = np.array([np.nan, 2, "1_0", 4, True, 1, 2, 2, "5"], dtype=object)
    rows = captions(write(tmp_path, human_scores=scores))
    first, second, third = (ratings_of(row["ratings"], None) for row in rows)
    assert first == pytest.approx([np.nan, 4.0, 2.0], nan_ok=True)
    assert second == "is not a number: [2, True, 2]"
    assert third == "is not a number: ['1_0', 1, '5']"


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
    loaded = load_array(tmp_path / "a.pkl", "")
    np.testing.assert_array_equal(loaded, array)
    assert loaded.dtype == array.dtype


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
