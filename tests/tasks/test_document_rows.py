"""Rows that stay where they are: of a large data set, which is read again, and encoded images of a data set."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

from capbench.adapters import ImageHandle
from capbench.adapters.pixels.reading import UnreadableImage, read_bytes
from capbench.boundary import Boundary
from capbench.errors import DataError
from capbench.rows import BadRow
from capbench.tasks import document_rows
from capbench.tasks.document_rows import AT_HAND, RowImage, RowsByNeed, RowsWithImages, collect, with_row_images
from capbench.tasks.documents import Documents, load_documents
from capbench.tasks.locate import DataLocations
from capbench.tasks.schema import TaskConfig

pytestmark = pytest.mark.usefixtures("functions_may_run")

Load = Callable[..., Documents]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_task: Callable[..., TaskConfig]) -> Load:
    """Load the documents of a task of this folder, of which more than five are not kept."""
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    monkeypatch.setattr(document_rows, "AT_HAND", 5)

    def load(tail: str = "", file: str = "a.jsonl", **keys: Any) -> Documents:
        task = make_task(**{"dataset_kwargs": {"data_files": file}, "tail": tail} | keys)
        return load_documents(task, tmp_path / "mine.yaml", DataLocations.from_environment({"mine": tmp_path / file}))

    return load


def write_rows(file: Path, count: int, extra: str = "") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"id": n, "text": "word " * n} for n in range(count)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + extra)
    return rows


@pytest.mark.parametrize("count", [5, 6, 12])
def test_rows_are_those_of_the_file_however_often_they_are_read(tmp_path: Path, load: Load, count: int):
    rows = write_rows(tmp_path / "a.jsonl", count, '{broken\n{"id": 99, "late": 1}\n')
    rows.append({"id": 99, "late": 1})
    found = load()
    assert isinstance(found.rows, RowsByNeed)
    for _ in range(2):
        assert list(found.rows) == rows
    assert len(found.rows) == count + 1
    assert found.columns == {"id", "text", "late"}
    assert [bad.place for bad in found.bad_rows] == [f"a.jsonl:{count + 1}"]
    assert found.rows[0] == rows[0] and found.rows[-1] == rows[-1] and found.rows[3] == rows[3]
    assert found.rows[2:5] == rows[2:5]
    assert found.rows[::-2] == rows[::-2]
    assert found.rows[count + 5 :] == []
    with pytest.raises(IndexError):
        found.rows[count + 1]


def test_few_rows_are_kept(tmp_path: Path, load: Load):
    rows = write_rows(tmp_path / "a.jsonl", 5)
    assert load().rows == rows


def test_rows_of_a_list_in_json_are_kept_as_it_is_read_as_a_whole(tmp_path: Path, load: Load):
    rows = [{"id": n} for n in range(9)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert load(file="a.json").rows == rows


def test_rows_of_csv_are_read_by_need(tmp_path: Path, load: Load):
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f"{n},t{n}\n" for n in range(9)))
    found = load(file="a.csv")
    assert isinstance(found.rows, RowsByNeed)
    assert [row["text"] for row in found.rows] == [f"t{n}" for n in range(9)]


def change_length(file: Path) -> None:
    file.write_text(file.read_text() + '{"id": 1}\n')


def change_content(file: Path) -> None:
    before = file.stat()
    file.write_text(file.read_text().replace("word", "Word"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def remove(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("change", [change_length, change_content, remove])
def test_file_that_changes_between_two_readings_is_an_error(tmp_path: Path, load: Load, change: Callable[[Path], None]):
    write_rows(tmp_path / "a.jsonl", 9)
    found = load()
    change(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match=r"a\.jsonl: changed while it was read \(9 rows at first\)"):
        next(iter(found.rows))


def test_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, load: Load):
    write_rows(tmp_path / "a.jsonl", 9)
    rows = iter(load().rows)
    next(rows)
    change_content(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="changed while it was read"):
        list(rows)


READER = """
from capbench.rows import BadRow
calls = []
def rows(path, count):
    calls.append(path)
    for number in range(count):
        yield {"n": number} if number % 5 else BadRow(f"raw:{number}", "is empty")
def fewer(path, count):
    calls.append(path)
    yield from [{"n": number} for number in range(count - len(calls))]
def listed(path, count):
    calls.append(path)
    return [{"n": number} for number in range(count)]
"""


def with_reader(tmp_path: Path, load: Load, name: str) -> Documents:
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "raw").mkdir()
    return load(f"custom_dataset: !function reader.{name}\n", "raw", dataset_path=None, dataset_kwargs={"count": 20})


def test_reader_of_a_task_is_called_again(tmp_path: Path, load: Load):
    found = with_reader(tmp_path, load, "rows")
    assert isinstance(found.rows, RowsByNeed)
    assert len(found.rows) == 16 and len(found.bad_rows) == 4
    assert [row["n"] for row in found.rows] == [n for n in range(20) if n % 5]


def test_reader_that_gives_other_rows_the_second_time_is_an_error(tmp_path: Path, load: Load):
    found = with_reader(tmp_path, load, "fewer")
    with pytest.raises(DataError, match=r"changed while it was read \(19 rows at first\)"):
        list(found.rows)


def test_list_of_a_reader_is_taken_as_it_is(tmp_path: Path, load: Load):
    assert with_reader(tmp_path, load, "listed").rows == [{"n": n} for n in range(20)]


def test_process_docs_is_given_a_list(tmp_path: Path, load: Load):
    write_rows(tmp_path / "a.jsonl", 9)
    (tmp_path / "reader.py").write_text(
        "def last(docs):\n    assert type(docs) is list\n    return (doc for doc in docs[-7:])\n"
    )
    found = load("process_docs: !function reader.last\n")
    assert [row["id"] for row in found.rows] == [*range(2, 9)]
    assert type(found.rows) is list


def test_memory_does_not_grow_with_rows():
    def read(count: int):
        yield BadRow("raw:0", "is empty")
        yield from ({"n": number, "text": f"{number:0500}"} for number in range(count))

    def peak(count: int) -> int:
        tracemalloc.start()
        rows, bad = collect(lambda: read(count), "here")
        total = sum(1 for _ in rows)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (total, len(rows), len(bad)) == (count, count, 1)
        return most

    assert peak(AT_HAND + 10_000) < 1.1 * peak(AT_HAND)


def data_set(**columns: list[Any]) -> datasets.Dataset:
    return datasets.Dataset.from_dict(columns)


def test_rows_hold_what_reads_an_image_in_place_of_its_bytes():
    made = with_row_images(data_set(name=["a", "b"], binary=[b"1", b"22"]), "binary", Boundary())
    assert isinstance(made, RowsWithImages)
    assert made.column_names == ["name", "binary"]
    assert len(made) == 2
    assert [row["name"] for row in made] == ["a", "b"]
    assert [row["binary"].read_bytes() for row in made] == [b"1", b"22"]
    assert made[-1]["binary"].read_bytes() == b"22"
    assert [row["name"] for row in made[:1]] == ["a"]
    with pytest.raises(IndexError):
        made[2]


def test_data_set_of_images_alone_has_its_rows():
    made = with_row_images(data_set(binary=[b"1", b"22"]), "binary", Boundary())
    assert [row["binary"].read_bytes() for row in made] == [b"1", b"22"]
    assert made[1]["binary"].read_bytes() == b"22"


def test_lists_and_other_columns_are_left_as_they_are():
    listed = [{"binary": b"1"}]
    assert with_row_images(listed, "binary", Boundary()) is listed
    texts = data_set(name=["a"])
    assert with_row_images(texts, "binary", Boundary()) is texts


def test_images_are_read_as_the_library_keeps_them_undecoded(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"in a file")
    images = data_set(
        image=[{"bytes": b"in the row", "path": "x.png"}, {"bytes": None, "path": str(tmp_path / "a.png")}]
    )
    made = with_row_images(images, "image", Boundary.of(tmp_path))
    assert [row["image"].read_bytes() for row in made] == [b"in the row", b"in a file"]


def test_row_without_an_image_is_named():
    made = with_row_images(data_set(binary=[b"1", None]), "binary", Boundary())
    with pytest.raises(UnreadableImage, match=r"^binary of row 1: holds no image but NoneType$"):
        read_bytes(ImageHandle(made[1]["binary"]))


def test_handles_of_one_image_are_equal_and_their_digest_is_that_of_the_bytes():
    data = data_set(binary=[b"1", b"1", b"22"])
    made = with_row_images(data, "binary", Boundary())
    first, second, other = (ImageHandle(row["binary"]) for row in made)
    assert first == ImageHandle(made[0]["binary"])
    assert hash(first) == hash(ImageHandle(made[0]["binary"]))
    assert first != second
    assert first.digest() == second.digest() == ImageHandle(b"1").digest() != other.digest()
    assert RowImage(data, "binary", 0, Boundary()) != RowImage(data_set(binary=[b"1"]), "binary", 0, Boundary())
