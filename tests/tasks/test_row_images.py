"""Encoded images that are left in the rows of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest

from capbench.adapters import ImageHandle
from capbench.adapters.pixels.reading import UnreadableImage, read_bytes
from capbench.boundary import Boundary
from capbench.tasks.row_images import RowImage, RowsWithImages, with_row_images


def rows(**columns: list[Any]) -> datasets.Dataset:
    return datasets.Dataset.from_dict(columns)


def test_rows_hold_what_reads_an_image_in_place_of_its_bytes():
    made = with_row_images(rows(name=["a", "b"], binary=[b"1", b"22"]), "binary", Boundary())
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
    made = with_row_images(rows(binary=[b"1", b"22"]), "binary", Boundary())
    assert [row["binary"].read_bytes() for row in made] == [b"1", b"22"]
    assert made[1]["binary"].read_bytes() == b"22"


def test_lists_and_other_columns_are_left_as_they_are():
    listed = [{"binary": b"1"}]
    assert with_row_images(listed, "binary", Boundary()) is listed
    texts = rows(name=["a"])
    assert with_row_images(texts, "binary", Boundary()) is texts


def test_images_are_read_as_the_library_keeps_them_undecoded(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"in a file")
    images = rows(image=[{"bytes": b"in the row", "path": "x.png"}, {"bytes": None, "path": str(tmp_path / "a.png")}])
    made = with_row_images(images, "image", Boundary.of(tmp_path))
    assert [row["image"].read_bytes() for row in made] == [b"in the row", b"in a file"]


def test_row_without_an_image_is_named():
    made = with_row_images(rows(binary=[b"1", None]), "binary", Boundary())
    with pytest.raises(UnreadableImage, match=r"^binary of row 1: holds no image but NoneType$"):
        read_bytes(ImageHandle(made[1]["binary"]))


def test_handles_of_one_image_are_equal_and_their_digest_is_that_of_the_bytes():
    data = rows(binary=[b"1", b"1", b"22"])
    made = with_row_images(data, "binary", Boundary())
    first, second, other = (ImageHandle(row["binary"]) for row in made)
    assert first == ImageHandle(made[0]["binary"])
    assert hash(first) == hash(ImageHandle(made[0]["binary"]))
    assert first != second
    assert first.digest() == second.digest() == ImageHandle(b"1").digest() != other.digest()
    assert RowImage(data, "binary", 0, Boundary()) != RowImage(rows(binary=[b"1"]), "binary", 0, Boundary())
