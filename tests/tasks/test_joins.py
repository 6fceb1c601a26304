"""Documents that take columns of other files: what is found, what is named, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

from capbench.errors import DataError, TaskError, UsageError
from capbench.rows import BadRow
from capbench.tasks.documents import load_documents
from capbench.tasks.locate import DataLocations
from capbench.tasks.row_images import RowImage
from capbench.tasks.schema import load_task

Write = Callable[..., Path]
RATED = [{"id": "a", "rating": 1}, {"id": "b", "rating": 2}, {"id": "a", "rating": 3}]
REFERENCES = [{"id": "b", "refs": ["two cats"]}, {"id": "a", "refs": ["a dog", "dogs"]}, {"id": "c", "refs": []}]


NO_FILE = r"task 'mine': join: /.*/ref\.jsonl: there is no such file\. Did you mean 'refs\.jsonl'\?"


def jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def load(write_task: Write, write: Write, tmp_path: Path) -> Callable[..., Any]:
    """Load the documents of a task that joins, with its data beside it."""
    write("rated.jsonl", jsonl(RATED))
    write("refs.jsonl", jsonl(REFERENCES))

    def documents(join: Any = None, **keys: Any) -> Any:
        defaults = {"dataset_kwargs": {"data_files": "rated.jsonl"}, "join": join or {"file": "refs.jsonl", "on": "id"}}
        path = write_task(**{**defaults, **keys})
        return load_documents(load_task(path)[0], path, DataLocations())

    return documents


def test_each_document_has_the_columns_of_its_row(load: Callable[..., Any]):
    documents = load()
    assert documents.rows == [
        {"id": "a", "rating": 1, "refs": ["a dog", "dogs"]},
        {"id": "b", "rating": 2, "refs": ["two cats"]},
        {"id": "a", "rating": 3, "refs": ["a dog", "dogs"]},
    ]
    assert documents.bad_rows == [] and documents.columns == {"id", "rating", "refs"}


def test_columns_may_have_other_names_and_be_several(load: Callable[..., Any], write: Write):
    write("other.csv", "image,n,text\na,1,one\na,3,three\nb,2,two\n")
    join = {"file": "other.csv", "on": {"id": "image", "rating": "n"}}
    assert [row["text"] for row in load(join).rows] == ["one", "two", "three"]
    write("same.csv", "id,rating,text\na,1,one\na,3,three\nb,2,two\n")
    assert [row["text"] for row in load({"file": "same.csv", "on": ["id", "rating"]}).rows] == ["one", "two", "three"]


def test_means_over_the_rows_of_a_key_in_several_files(load: Callable[..., Any], write: Write):
    write("one.csv", "id,score,text\na,1,x\na,2,x\nb,5,y\n")
    write("two.csv", "id,score,text\na,6,x\n")
    join = {"file": ["one.csv", "two.csv"], "on": "id", "mean": "score"}
    assert [(row["score"], row["text"]) for row in load(join).rows] == [(3.0, "x"), (5.0, "y"), (3.0, "x")]
    write("two.csv", "id,score,text\na,6,other\n")
    with pytest.raises(DataError, match=r"two\.csv: row 1 has the key of one\.csv: row 1 \(id 'a'\), and differs") as e:
        load(join)
    assert "list columns of numbers to average in 'mean'" in e.value.hint
    taken = load({**join, "columns": "score"}).rows
    assert taken[0] == {"id": "a", "rating": 1, "score": 3.0}
    with pytest.raises(DataError, match=r"one\.csv: row 1 has no 'texts'; its columns are id, score, text"):
        load({**join, "columns": ["score", "texts"]})
    write("two.csv", "id,score,text\na,good,x\n")
    with pytest.raises(DataError, match=r"two\.csv: row 1: column 'score' is not a number: 'good'"):
        load(join)
    write("two.csv", "id,text\na,x\n")
    with pytest.raises(DataError, match=r"two\.csv: row 1 has no 'score'; its columns are id, text"):
        load(join)


def test_names_of_files_may_be_compared_bare_and_white_space_says_nothing(load: Callable[..., Any], write: Write):
    write("rated.jsonl", jsonl([{"image": "x/1.jpg", "text": "a  dog\n"}]))
    write("more.jsonl", jsonl([{"image": "1", "text": "a dog", "n": 1}, {"image": "1", "text": "a.dog", "n": 2}]))
    join = {"file": "more.jsonl", "on": ["image", "text"], "bare": "image"}
    with pytest.raises(DataError, match=r"document 0 has 'x/1\.jpg' in column 'image'|no document has a row"):
        load({**join, "bare": []})
    assert load(join).rows == [{"image": "x/1.jpg", "text": "a  dog\n", "n": 1}]


def test_document_without_a_row_and_row_that_cannot_be_read_are_named(load: Callable[..., Any], write: Write):
    write("refs.jsonl", jsonl(REFERENCES[:1]) + "{\n")
    write("rated.jsonl", jsonl([*RATED[:2], {"id": None, "rating": 3}]))
    documents = load()
    assert documents.rows == [{"id": "b", "rating": 2, "refs": ["two cats"]}]
    assert [row.place for row in documents.bad_rows] == ["refs.jsonl:2", "document 0", "document 2"]
    assert documents.bad_rows[1] == BadRow("document 0", "has no row in refs.jsonl: id 'a'")


def test_column_that_both_have_must_agree(load: Callable[..., Any], write: Write):
    write("refs.jsonl", jsonl([{**row, "rating": 2} for row in REFERENCES]))
    with pytest.raises(DataError, match=r"document 0 has 1 in column 'rating', and its row in refs\.jsonl has 2"):
        load()
    write("rated.jsonl", jsonl([{**row, "rating": 2} for row in RATED]))
    assert [row["rating"] for row in load().rows] == [2, 2, 2]


@pytest.mark.parametrize(
    ("join", "error", "message"),
    [
        ({"file": "ref.jsonl", "on": "id"}, DataError, NO_FILE),
        ({"file": "refs.jsonl", "on": "ids"}, DataError, r"refs\.jsonl: row 1 has no 'ids'; its columns are id, refs"),
        (
            {"file": "refs.jsonl", "on": {"ids": "id"}},
            DataError,
            r"no document has a row in refs\.jsonl: documents have ids 'None'",
        ),
        ({"file": "refs.jsonl"}, TaskError, r"mine\.yaml:\d+: key 'join\.0\.on' is missing"),
        ({"file": "refs.jsonl", "on": []}, TaskError, "'on' names no column"),
        ({"file": "refs.jsonl", "on": "id", "how": "left"}, TaskError, "unknown key 'how'"),
        ({"file": "refs.jsonl", "on": 5}, TaskError, "join.0.on"),
        ({"file": [], "on": "id"}, TaskError, "'file' names no file"),
        ({"file": "refs.jsonl", "on": {"id": "key"}, "bare": "key"}, TaskError, "'bare' names key; .* in 'on' are id"),
    ],
)
def test_join_that_cannot_be_is_refused(load, join: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        load(join)


def test_file_outside_of_the_tasks_folders_is_refused(load: Callable[..., Any], tmp_path: Path):
    outside = tmp_path.parent / f"{tmp_path.name}.jsonl"
    outside.write_text(jsonl(REFERENCES))
    with pytest.raises(UsageError, match="lies outside"):
        load({"file": f"../{outside.name}", "on": "id"})


def test_large_data_is_joined_when_it_is_read(load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, write: Write):
    monkeypatch.setattr("capbench.tasks.documents.AT_HAND", 2)
    write("rated.jsonl", jsonl([*RATED, {"id": "d"}]))
    documents = load()
    assert not isinstance(documents.rows, list) and len(documents.rows) == 3
    assert documents.columns == {"id", "rating", "refs"}
    assert [row["refs"] for row in documents.rows] == [row["refs"] for row in documents.rows]
    assert documents.rows[1]["refs"] == ["two cats"]
    assert [row.place for row in documents.bad_rows] == ["document 3"]


def test_images_of_a_parquet_file_stay_in_their_rows(load: Callable[..., Any], tmp_path: Path):
    images = [{"bytes": bytes([n]), "path": None} for n in range(3)]
    columns = {"id": ["x", "b", "a"], "image": images}
    features = datasets.Features({"id": datasets.Value("string"), "image": datasets.Image(decode=False)})
    datasets.Dataset.from_dict(columns, features=features).to_parquet(str(tmp_path / "rated.parquet"))
    documents = load(
        dataset_path="parquet", dataset_kwargs={"data_files": "rated.parquet"}, doc_to_pixels="image", doc_to_image="id"
    )
    assert [(row["id"], row["image"].read_bytes()) for row in documents.rows] == [("b", b"\1"), ("a", b"\2")]
    assert all(isinstance(row["image"], RowImage) for row in documents.rows)
