"""What is known of shards before anything is scored."""

from __future__ import annotations

import weakref
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
import pytest

from capbench.adapters import ImageHandle
from capbench.benchmarks.inputs.items import CaptionRow, gather, gathered
from capbench.benchmarks.protocols.job import Shard, Summary, caption_columns
from capbench.benchmarks.running.planned_metrics import PlannedMetric
from capbench.benchmarks.running.shards.codec import Originals
from capbench.benchmarks.running.shards.folder_shelf import FolderShelf
from capbench.benchmarks.running.shards.gathering import Distinct, Gathering
from capbench.benchmarks.running.shards.placing import Placing
from capbench.benchmarks.running.shards.shelf import MemoryShelf
from capbench.benchmarks.running.units import Unit
from capbench.metrics import Items
from capbench.metrics.clip_s import ClipS


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """Images of five captions: the third is not there, and the last is that of the first caption."""
    files = [tmp_path / name for name in ("0", "1", "nowhere", "3", "0")]
    for file in files:
        if file.name != "nowhere":
            file.write_bytes(file.name.encode())
    return files


def placed(images: Sequence[Path], size: int) -> tuple[list[Unit], Gathering]:
    """Return the units that score captions of images in shards of a size, and what was gathered."""
    rows = [
        CaptionRow(str(n), str(n), f"a dog {n}", (), pixels=ImageHandle(file))
        for n, file in enumerate(images)
    ]

    def shards() -> Generator[Shard, None, Summary]:
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            items, of_row, numbers = gathered(some)
            yield Shard(items, of_row, caption_columns(some, [None] * len(some)), item_numbers=numbers)
        return Summary(len(rows))

    gathering = Gathering(MemoryShelf(), hash_images=True)
    placing = Placing([PlannedMetric("one", ClipS(), "mean", True)], gathering, {"encoder": "one"})
    return list(placing.units(gathering.gather(shards()))), gathering


@pytest.mark.parametrize(("changed", "shards"), [(0, {0, 2}), (1, {0}), (2, {1}), (3, {1})])
def test_image_that_is_another_makes_another_unit_of_its_shards_alone(
    images: list[Path], changed: int, shards: set[int]
):
    before, _ = placed(images, 2)
    images[changed].write_bytes(b"another image")
    after, _ = placed(images, 2)
    pairs = zip(before, after, strict=True)
    assert {number for number, (one, other) in enumerate(pairs) if one.key != other.key} == shards


@pytest.mark.parametrize("size", [1, 2, 3])
def test_images_of_a_run_have_one_hash_whatever_the_shards(images: list[Path], size: int):
    _, whole = placed(images, 10)
    _, cut = placed(images, size)
    assert cut.hashes.images == whole.hashes.images != placed(images[:-2], size)[1].hashes.images
    # An image counts where it first occurs.
    assert whole.hashes.images == placed(images[:-1], size)[1].hashes.images


def test_shard_without_images_has_no_hash_of_them():
    gathering = Gathering(MemoryShelf(), hash_images=True)
    row = CaptionRow("1", "1", "a dog", ())

    def shards() -> Generator[Shard, None, Summary]:
        items, of_row, numbers = gathered([row])
        yield Shard(items, of_row, caption_columns([row], [None]), item_numbers=numbers)
        return Summary(1)

    (shard,) = gathering.gather(shards())
    assert shard.images is None and gathering.hashes.images is None


def test_score_of_an_item_is_the_first_that_there_is():
    distinct = Distinct.of(np.array([7, 5, 7, 9, 5, 7]))
    assert distinct.first.tolist() == [0, 1, 3]
    assert distinct.of_item.tolist() == [0, 1, 0, 2, 1, 0]
    nan = np.nan
    assert distinct.chosen(np.array([nan, 1, 2, nan, 3, 4])).tolist() == [2, 1, 3]


@pytest.mark.parametrize(("several", "beside"), [(True, [0, 0, 0]), (False, [0, 1, 0])])
def test_texts_of_a_shard_are_gone_when_the_next_one_is_made(
    tmp_path: Path, several: bool, beside: list[int]
):
    made: list[weakref.ref[Items]] = []
    found: list[int] = []

    def shards() -> Generator[Shard, None, Summary]:
        for number in range(3):
            found.append(sum(one() is not None for one in made))
            some = [CaptionRow(str(number), str(number), "a dog", ("a cat",))]
            items, of_row = gather(some)
            made.append(weakref.ref(items))
            yield Shard(items, of_row, caption_columns(some, [None]))
            del items
        return Summary(3)

    gathering = Gathering(FolderShelf(tmp_path, Originals()), several=several)
    shelved = list(gathering.gather(shards()))
    assert found == beside
    assert [(one.number, one.alone, one.rows) for one in shelved] == [
        (n, False, (n, n + 1)) for n in range(3)
    ]
    assert gathering.collected.item_of_sample.tolist() == [0, 1, 2]


def test_whether_anything_has_an_image_is_known_of_all_shards(images: list[Path]):
    assert placed(images, 2)[1].has_images
    gathering = Gathering(MemoryShelf())

    def shards() -> Generator[Shard, None, Summary]:
        for number in range(2):
            items, of_row, _ = gathered([CaptionRow(str(number), str(number), "a dog", ())])
            yield Shard(items, of_row, {"id": [str(number)]})
        return Summary(2)

    assert len(list(gathering.gather(shards()))) == 2
    assert not gathering.has_images
