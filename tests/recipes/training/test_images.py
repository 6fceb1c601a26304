"""The images of a step, read ahead: each once, and named with its row where that fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from PIL import Image
from tiny_images import noise_png

from capbench.adapters import ImageHandle
from capbench.adapters.pixels.reading import read_image
from capbench.errors import DataError
from capbench.recipes.training.images import ImageReader, Inputs


@pytest.fixture
def read() -> list[str]:
    """Names of the images that were read, in any order."""
    return []


@pytest.fixture
def reader(read: list[str]) -> ImageReader[int]:
    def width(image: ImageHandle) -> int:
        read.append(image.name)
        return read_image(image).image.width

    def collate(widths: Sequence[int]) -> tuple[Inputs, dict[int, str]]:
        inputs = {"widths": torch.tensor(widths)}
        return inputs, {at: "is narrow" for at, one in enumerate(widths) if one < 2}

    return ImageReader(width, collate)


@pytest.fixture
def images(tmp_path: Path) -> list[ImageHandle]:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(noise_png(number))
    return [ImageHandle(tmp_path / f"{number}.png") for number in range(3)]


def test_images_that_were_asked_for_are_read_once_and_in_order(reader, read, images):
    reader.ask(images[:2])
    # Asked for again, as they are where a step begins before its images were needed.
    reader.ask(images)
    order = [images[2], images[0], images[2]]
    assert reader.read(order, ["c", "a", "c"])["widths"].tolist() == [64, 60, 64]
    assert reader.read(images[1:2], ["b"])["widths"].tolist() == [50]
    assert sorted(read) == sorted(one.name for one in images)
    # What was needed is not kept.
    reader.read(images[:1], ["a"])
    assert len(read) == 4


def test_image_that_cannot_be_read_is_named_with_its_row(reader, images, tmp_path):
    (tmp_path / "1.png").write_bytes(b"no image")
    Image.new("RGB", (1, 4)).save(tmp_path / "2.png")
    with pytest.raises(DataError, match=r"row b: .*1\.png: is not an image in a known format\n?"):
        reader.read(images[:2], ["a", "b"])
    with pytest.raises(DataError, match="row c: is narrow") as caught:
        reader.read([images[0], images[2]], ["a", "c"])
    assert "take the row out of the data" in str(caught.value)
