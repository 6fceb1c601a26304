"""Which rows a step has and which of their texts; images that are read ahead: each once, and named with its row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from PIL import Image
from tiny_images import noise_png

from capbench.adapters import ImageHandle
from capbench.adapters.pixels.reading import read_image
from capbench.errors import DataError
from capbench.recipes.training.rows import Batches, BatchSampler, TrainingRow
from capbench.recipes.training.towers import ImageReader, Inputs

GROUPS = [f"image {n % 7}" for n in range(45)]


def row(n: int, **more: tuple) -> TrainingRow:
    captions = tuple(f"caption {n}.{at}" for at in range(6))
    return TrainingRow(f"row {n}", ImageHandle(b"%d" % n), f"image {n}", captions, **more)


def drawing(**changes: object) -> BatchSampler:
    settings = {
        "captions": 1, "pick": "random", "negatives": False, "further_images": False, "further_texts": False,
        "prompt": "", "seed": 0,
    }  # fmt: skip
    return BatchSampler(**settings | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("sampler", ["random", "by_image"])
def test_an_epoch_has_each_row_at_most_once_and_whole_batches_alone(sampler):
    batches = Batches(GROUPS, 8, sampler, seed=3)
    assert batches.in_an_epoch == 5
    epochs = [[batches.rows(epoch * 5 + n) for n in range(5)] for epoch in range(2)]
    for epoch in epochs:
        assert {len(batch) for batch in epoch} == {8}
        assert max(Counter(at for batch in epoch for at in batch).values()) == 1
    assert epochs[0] != epochs[1]
    # In whatever order steps are asked for, and by whom.
    assert Batches(GROUPS, 8, sampler, seed=3).rows(7) == epochs[1][2]
    assert Batches(GROUPS, 8, sampler, seed=4).rows(7) != epochs[1][2]


def test_by_image_keeps_the_rows_of_an_image_together_in_a_new_order_of_images_and_rows():
    batches = Batches(GROUPS, 9, "by_image", seed=0)
    orders = [[at for n in range(5) for at in batches.rows(5 * epoch + n)] for epoch in range(2)]
    for order in orders:
        groups = [GROUPS[at] for at in order]
        assert sum(one != other for one, other in pairwise(groups)) == 6
    firsts = [list(dict.fromkeys(GROUPS[at] for at in order)) for order in orders]
    assert firsts[0] != firsts[1]
    within = [[at for at in order if GROUPS[at] == "image 0"] for order in orders]
    assert within[0] != within[1]


def test_each_look_draws_other_captions_and_the_same_step_the_same():
    rows = [row(n) for n in range(8)]
    looks = [tuple(drawing(captions=2).draw(rows, step).texts) for step in (0, 1, 0)]
    assert looks[0] == looks[2] != looks[1]
    for number, text in enumerate(looks[0]):
        assert text.startswith(f"caption {number // 2}.")
    assert all(one != other for one, other in zip(looks[0][::2], looks[0][1::2], strict=True))
    first = drawing(captions=2, pick="first", prompt="A photo depicts ").draw(rows[:1], 5)
    assert first.texts == ["A photo depicts caption 0.0", "A photo depicts caption 0.1"]


def test_negatives_do_not_change_and_what_a_row_has_not_is_left_out():
    negatives = tuple(f"false {n}" for n in range(9))
    rows = [
        row(0, negatives=negatives),
        row(1),
        row(2, further_captions=("a", "b"), further_images=(ImageHandle(b"x"),)),
    ]
    full = drawing(negatives=True, further_images=True, further_texts=True)
    looks = [full.draw(rows, step) for step in range(6)]
    assert len({one.texts[3] for one in looks}) == 1
    assert looks[0].texts[3] in negatives
    assert {one.texts[4] for one in looks} == {"a", "b"}
    assert (looks[0].with_negative, looks[0].with_image, looks[0].with_text) == ([0], [2], [2])
    assert [one.source for one in looks[0].images] == [b"0", b"1", b"2", b"x"]
    plain = drawing().draw(rows, 0)
    assert (len(plain.texts), len(plain.images)) == (3, 3)


def test_what_is_looked_at_without_a_step_is_always_the_same():
    rows = [row(n) for n in range(8)]
    first, again, other = (drawing(seed=seed).draw(rows, None).texts for seed in (0, 0, 1))
    assert first == again != other
    assert first not in [drawing().draw(rows, step).texts for step in range(4)]


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
