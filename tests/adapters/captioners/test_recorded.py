import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from capbench.adapters import CaptionRequest
from capbench.adapters.captioners.recorded import RecordedCaptions
from capbench.errors import AdapterError, DataError
from capbench.rows import BadRow

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return file


def ask(model: RecordedCaptions, *ids: str, image: Any = None) -> list[str | None]:
    return served(model, [CaptionRequest(identity, image, "Describe it.") for identity in ids])


def served(model: RecordedCaptions, requests: list[CaptionRequest]) -> list[str | None]:
    """Return the captions in order, None where the file has none."""
    (batch,) = model.stream(requests)
    assert batch.captions.keys() ^ batch.absent == set(range(len(requests)))
    return [batch.captions[at].text if at in batch.captions else None for at in range(len(requests))]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"id": "1", "caption": "one, \\"1\\""}\n{"id": "2", "caption": "two"}\n'),
        ("a.json", '[{"id": "1", "caption": "one, \\"1\\""}, {"id": "2", "caption": "two"}]'),
        ("a.json", '{"1": "one, \\"1\\"", "2": "two"}'),
        ("a.csv", 'id,caption\n1,"one, ""1"""\n2,two\n'),
        ("a.tsv", 'id\tcaption\n1\t"one, ""1"""\n2\ttwo\n'),
    ],
)
def test_captions_are_served_by_id_in_the_order_that_is_asked(write: Write, name: str, text: str):
    model = RecordedCaptions(write(name, text))
    assert ask(model, "2", "3", "1") == ["two", None, 'one, "1"']
    assert model.bad_rows == []
    assert model.name == "a"


def test_captions_are_served_from_parquet(tmp_path: Path):
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2], "response": ["one", "two"]}), tmp_path / "a.parquet")
    assert ask(RecordedCaptions(tmp_path / "a.parquet"), "2", "1") == ["two", "one"]


@pytest.mark.parametrize("identity", ["id", "image_id", "image"])
@pytest.mark.parametrize("caption", ["caption", "candidate", "response", "prediction"])
def test_columns_may_have_any_of_the_fields_names(write: Write, identity: str, caption: str):
    model = RecordedCaptions(write("a.jsonl", json.dumps({identity: "1", caption: "one", "other": 2})))
    assert ask(model, "1") == ["one"]


@pytest.mark.parametrize(
    ("text", "ids", "image", "expected"),
    [
        # Results in COCO's format have whole numbers as ids.
        (
            '[{"image_id": 139, "caption": "one"}, {"image_id": 0, "caption": "zero"}]',
            ["139", "0"],
            None,
            ["one", "zero"],
        ),
        # An id that is null gives way to the next column, an image that is None is no name, a null caption is none.
        ('[{"id": null, "image_id": 7, "caption": "one"}]', ["7", "None"], None, ["one", None]),
        ('[{"id": "None", "caption": "x"}]', ["2"], None, [None]),
        ('[{"id": "1", "caption": null}]', ["1"], "1", [None]),
    ],
)
def test_what_is_null_is_no_name_and_no_caption(write, text, ids, image, expected):
    assert ask(RecordedCaptions(write("a.json", text)), *ids, image=image) == expected


def test_request_is_answered_by_its_id_before_its_images_name(write: Write):
    model = RecordedCaptions(
        write("a.jsonl", '{"id": "1", "caption": "by id"}\n{"id": "a.jpg", "caption": "by image"}\n')
    )
    assert ask(model, "1", "2", image="a.jpg") == ["by id", "by image"]
    assert ask(model, "2", image=Path("a.jpg")) == ["by image"]
    assert ask(model, "2", image={"bytes": b"\xff" * 9, "path": None}) == [None]
    assert ask(model, "2") == [None]


def test_whole_number_is_an_id_of_an_image_where_documents_have_names_of_their_own(write: Write):
    model = RecordedCaptions(write("a.jsonl", '{"id": 7, "caption": "by image"}\n{"id": "", "caption": "empty"}'))
    assert ask(model, "dog", image="7") == ["by image"]
    # As the number of a document, 7 is another.
    assert served(model, [CaptionRequest("1", "7", "", numbered=True)]) == [None]
    assert served(model, [CaptionRequest("1", None, "", numbered=True)]) == [None]
    assert served(model, [CaptionRequest("7", "1", "", numbered=True)]) == ["by image"]


def test_ids_of_annotations_beside_the_images_of_documents_are_an_error(write: Write):
    rows = [{"id": n, "image_id": image, "caption": str(image)} for n, image in enumerate([2, 0, 1])]
    model = RecordedCaptions(write("a.json", json.dumps(rows)))
    message = "id '0' and image '2', the id is that of document '0', whose image is '0' in another row"
    with pytest.raises(AdapterError, match=message):
        ask(model, "0", "1", "2")
    with pytest.raises(AdapterError, match="the id is that of document '1', whose image is '1'"):
        served(model, [CaptionRequest("1", "1", "", numbered=True)])


@pytest.mark.parametrize("beside", [[0, 1, 2], [7, 8, 9], ["x/0.jpg", "x/1.jpg", "x/2.jpg"], ["0.jpg"] * 3])
def test_images_beside_ids_that_are_the_documents_do_not_matter(write: Write, beside: list[Any]):
    rows = [{"id": n, "image": image, "caption": str(n)} for n, image in enumerate(beside)]
    model = RecordedCaptions(write("a.json", json.dumps(rows)))
    assert ask(model, "0", "1", "2") == ["0", "1", "2"]
    numbered = [CaptionRequest(str(n), str(image), "", numbered=True) for n, image in enumerate(beside)]
    assert served(model, numbered) == ["0", "1", "2"]


def test_second_caption_of_an_id_is_a_bad_row_and_the_first_is_served(write: Write):
    model = RecordedCaptions(write("a.jsonl", '{"id": 1, "caption": "one"}\n{"id": "1", "caption": "again"}\n'))
    assert ask(model, "1") == ["one"]
    assert model.bad_rows == [BadRow("a.jsonl: row 2", "a second caption for '1'")]


def test_rows_that_cannot_be_used_are_named_and_the_others_survive(write: Write):
    rows = [
        '{"caption": "no id"}',
        '{"id": "1", "text": "no caption"}',
        "{broken",
        '{"id": ["1"], "caption": "a list"}',
        '{"id": 1.5, "caption": "a fraction"}',
        '{"id": "2", "caption": "two"}',
    ]
    model = RecordedCaptions(write("a.jsonl", "\n".join(rows)))
    assert ask(model, "2", "1") == ["two", None]
    assert [bad.place for bad in model.bad_rows] == [
        "a.jsonl: row 1", "a.jsonl: row 2", "a.jsonl:3", "a.jsonl: row 4", "a.jsonl: row 5"
    ]  # fmt: skip
    assert model.bad_rows[1].reason == "has no id or no caption; its columns are id, text"
    assert "['1'] is neither text nor a whole number" in model.bad_rows[3].reason


@pytest.mark.parametrize("text", ['{"key": 1, "text": "a"}\n{"key": 2, "text": "b"}\n', "", "{broken\n"])
def test_file_without_one_caption_names_the_columns_that_it_needs(write: Write, text: str):
    with pytest.raises(AdapterError) as caught:
        RecordedCaptions(write("a.jsonl", text))
    assert "a.jsonl: no caption could be read" in caught.value.message
    assert caught.value.hint == (
        "A row needs one of id, question_id, image_id, image and one of caption, candidate, response, prediction, "
        "answer."
    )
    if "key" in text:
        assert "its columns are key, text" in caught.value.message


@pytest.mark.parametrize(("name", "message"), [("none.jsonl", "there is no such file"), ("a.txt", "unknown format")])
def test_missing_file_and_unknown_format_are_errors(write: Write, tmp_path: Path, name: str, message: str):
    write("a.txt", "x")
    with pytest.raises(DataError, match=message):
        RecordedCaptions(tmp_path / name)


def test_home_folder_is_understood(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write("a.jsonl", '{"id": "1", "caption": "x"}')
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ask(RecordedCaptions("~/a.jsonl"), "1") == ["x"]


def test_file_is_hashed_once_however_often_a_run_asks(write: Write):
    path = write("a.jsonl", '{"id": "1", "caption": "one"}\n')
    model, copy = RecordedCaptions(path), RecordedCaptions(write("b.jsonl", path.read_text(encoding="utf-8")))
    first = model.fingerprint()
    assert first == copy.fingerprint()
    assert first["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    path.unlink()
    assert model.fingerprint() == first
