"""Rows that stay where they are: of a large data set, which is read again, and encoded images of a data set."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

from capbench.adapters import ImageHandle
from capbench.adapters.images.reading import UnreadableImage, read_bytes
from capbench.boundary import Boundary
from capbench.errors import DataError
from capbench.tasks import documents as module
from capbench.tasks.documents import Documents, RowsByNeed, load_documents
from capbench.tasks.locate import DataLocations
from capbench.tasks.row_images import RowsWithImages, with_row_images
from capbench.tasks.schema import TaskConfig

pytestmark = pytest.mark.usefixtures("functions_may_run")

Load = Callable[..., Documents]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_task: Callable[..., TaskConfig]) -> Load:
    """Load the documents of a task of this folder, of which more than five are not kept."""
    monkeypatch.delenv("CAPBENCH_DATA", raising=False)
    monkeypatch.setattr(module, "AT_HAND", 5)

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
    documents = load()
    assert isinstance(documents.rows, RowsByNeed)
    for _ in range(2):
        assert list(documents.rows) == rows
    assert len(documents.rows) == count + 1
    assert documents.columns == {"id", "text", "late"}
    assert [bad.place for bad in documents.bad_rows] == [f"a.jsonl:{count + 1}"]
    assert documents.rows[0] == rows[0] and documents.rows[-1] == rows[-1] and documents.rows[3] == rows[3]
    assert documents.rows[2:5] == rows[2:5]
    assert documents.rows[::-2] == rows[::-2]
    assert documents.rows[count + 5 :] == []
    with pytest.raises(IndexError):
        documents.rows[count + 1]


def change_length(file: Path) -> None:
    file.write_text(file.read_text() + '{"id": 1}\n')


def change_content(file: Path) -> None:
    before = file.stat()
    file.write_text(file.read_text().replace("word", "Word"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


@pytest.mark.parametrize("change", [change_length, change_content, Path.unlink])
def test_file_that_changes_between_two_readings_is_an_error(tmp_path: Path, load: Load, change: Callable[[Path], None]):
    write_rows(tmp_path / "a.jsonl", 9)
    documents = load()
    change(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match=r"a\.jsonl: changed while it was read \(9 rows at first\)"):
        next(iter(documents.rows))


def test_reader_that_gives_other_rows_the_second_time_is_an_error(tmp_path: Path, load: Load):
    (tmp_path / "raw").mkdir()
    (tmp_path / "reader.py").write_text(
        "calls = []\n"
        "def fewer(path):\n"
        "    calls.append(path)\n"
        "    yield from [{'n': n} for n in range(20 - len(calls))]\n"
    )
    documents = load("custom_dataset: !function reader.fewer\n", "raw", dataset_path=None, dataset_kwargs=None)
    with pytest.raises(DataError, match=r"changed while it was read \(19 rows at first\)"):
        list(documents.rows)


def data_set(**columns: list[Any]) -> datasets.Dataset:
    return datasets.Dataset.from_dict(columns)


def test_rows_hold_what_reads_an_image_in_place_of_its_bytes():
    rows = with_row_images(data_set(name=["a", "b"], binary=[b"1", b"22"]), "binary", Boundary())
    assert isinstance(rows, RowsWithImages)
    assert rows.column_names == ["name", "binary"]
    assert len(rows) == 2
    assert [row["name"] for row in rows] == ["a", "b"]
    assert [row["binary"].read_bytes() for row in rows] == [b"1", b"22"]
    assert rows[-1]["binary"].read_bytes() == b"22"
    assert ImageHandle(rows[0]["binary"]).digest() == ImageHandle(b"1").digest()
    assert [row["name"] for row in rows[:1]] == ["a"]
    with pytest.raises(IndexError):
        rows[2]


def test_data_set_of_images_alone_has_its_rows():
    rows = with_row_images(data_set(binary=[b"1", b"22"]), "binary", Boundary())
    assert [row["binary"].read_bytes() for row in rows] == [b"1", b"22"]


def test_images_are_read_as_the_library_keeps_them_undecoded(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"in a file")
    data = data_set(image=[{"bytes": b"in the row", "path": "x.png"}, {"bytes": None, "path": str(tmp_path / "a.png")}])
    rows = with_row_images(data, "image", Boundary.of(tmp_path))
    assert [row["image"].read_bytes() for row in rows] == [b"in the row", b"in a file"]


def test_row_without_an_image_is_named():
    rows = with_row_images(data_set(binary=[b"1", None]), "binary", Boundary())
    with pytest.raises(UnreadableImage, match=r"^binary of row 1: holds no image but NoneType$"):
        read_bytes(ImageHandle(rows[1]["binary"]))
