import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_images import COLOURS, encoded, turned
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from capbench.adapters import ImageHandle
from capbench.adapters.images import pipeline
from capbench.adapters.images.pipeline import HAS_PROCESSES, ImageBatch, image_batches
from capbench.adapters.images.reading import UnreadableImage
from capbench.adapters.images.transforms import ExactTransform, ImageTransform, Prepared


class Numbers(ImageTransform):
    """Reads the number that is an image's name, the even ones slowly; keeps count of what is held."""

    def __init__(self) -> None:
        self.read_so_far = 0
        self.lock = threading.Lock()

    def read(self, handle: ImageHandle) -> Prepared:
        with self.lock:
            self.read_so_far += 1
        number = int(str(handle.source))
        if number % 2 == 0:
            time.sleep(0.002)
        if number % 7 == 3:
            raise UnreadableImage(f"{number} is unreadable")
        if number % 7 == 5:
            raise ZeroDivisionError("in a decoder")
        return Prepared(number, ("a", "b") if number % 7 == 1 else (), handle)

    def of_frame(self, image: Any) -> Prepared:
        return Prepared(image)

    def collate(self, batch: Sequence[Prepared]) -> tuple[dict[str, Any], dict[int, str]]:
        kept = [n for n, handle in enumerate(batch) if handle.pixels % 7 != 6]
        return {"numbers": [batch[n].pixels for n in kept]}, {
            n: "not on this device" for n in range(len(batch)) if n not in kept
        }

    def fingerprint(self) -> dict[str, Any]:
        return {}


def _handles(count: int) -> list[ImageHandle]:
    return [ImageHandle(Path(str(number))) for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 53])
@pytest.mark.parametrize("workers", [1, 4])
def test_batches_come_in_order_with_the_failures_of_each(count: int, workers: int):
    batches = list(image_batches(_handles(count), Numbers(), 10, workers))
    assert len(batches) == -(-count // 10)
    for number, batch in enumerate(batches):
        positions = range(10 * number, min(10 * number + 10, count))
        assert batch.positions == [p for p in positions if p % 7 not in (3, 5, 6)]
        assert batch.inputs.get("numbers", []) == batch.positions
        assert {p for p in positions if p % 7 in (3, 5, 6)} == set(batch.failures)
        assert batch.remarks == {p: "a; b" for p in positions if p % 7 == 1}
    reasons = {p: reason for batch in batches for p, reason in batch.failures.items()}
    if count > 6:
        assert reasons[3] == "3 is unreadable"
        assert reasons[5] == "5: cannot be prepared: ZeroDivisionError: in a decoder"
        assert reasons[6] == "not on this device"


def test_batch_of_which_nothing_could_be_read_is_empty():
    batches = list(image_batches([ImageHandle(Path("3"))] * 4, Numbers(), 2, 2))
    assert [(batch.positions, batch.inputs, len(batch.failures)) for batch in batches] == [([], {}, 2)] * 2


def test_reading_goes_only_so_far_ahead_of_a_slow_model():
    transform = Numbers()
    batches = image_batches(_handles(500), transform, 10, 4)
    for taken in range(1, 4):
        next(batches)
        time.sleep(0.2)
        # The one taken, and those ahead of it.
        assert transform.read_so_far <= 10 * (taken + 2)
    batches.close()
    done = transform.read_so_far
    time.sleep(0.1)
    assert transform.read_so_far == done


def test_threads_end_with_the_last_batch():
    before = threading.active_count()
    list(image_batches(_handles(30), Numbers(), 10, 4))
    assert threading.active_count() == before


_DEADLY = (13, 13)
processes = pytest.mark.skipif(not HAS_PROCESSES, reason="needs fork")


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_IMAGES_A_PART", 3)
    # Outside of the main thread torch looks every 5 seconds whether its processes live.
    monkeypatch.setattr(_MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.2,))


def levels() -> ExactTransform:
    """Return what gives an image as it is, and inputs of other kinds; its process dies of one size."""
    parent = os.getpid()

    def read(image: Image.Image) -> dict[str, torch.Tensor]:
        if image.size == _DEADLY and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        pixels = torch.from_numpy(np.array(image.convert("RGB").resize((9, 7)))).permute(2, 0, 1)
        return {
            "odd": pixels[0, 0, :3] > 100,
            "half": pixels.half() / 3,
            "size": torch.tensor(image.width),
            "elsewhere": torch.tensor(os.getpid() != parent),
        }

    return ExactTransform(read, {"kind": "levels"}, torch.device("cpu"))


def widths(*sizes: int) -> list[ImageHandle]:
    return [ImageHandle(encoded(Image.new("RGB", (size, 13), (size, 0, 0)), "PNG")) for size in sizes]


def seen(batches: list[ImageBatch]) -> tuple[list[int], list[bool]]:
    """Return the widths of images, and whether another process read them."""
    inputs = [part.inputs for part in batches if part.positions]
    return [int(n) for part in inputs for n in part["size"]], [bool(n) for part in inputs for n in part["elsewhere"]]


@processes
@pytest.mark.parametrize("batch_size", [1, 5, 40])
def test_what_processes_read_is_what_threads_read(batch_size: int, photographs, tmp_path: Path):
    content = encoded(COLOURS, "PNG")
    handles = [
        *widths(*range(20, 53)),
        *photographs[:3],
        ImageHandle(photographs[0].source, (20.4, 10.5, 151.0, 120.2)),
        ImageHandle(content, (-5, 0, 9, 9)),
        ImageHandle(encoded(COLOURS, "JPEG", exif=turned(6))),
        ImageHandle(tmp_path / "missing.jpg"),
        ImageHandle(content, (500, 500, 600, 600)),
    ]
    here, there = (list(image_batches(handles, levels(), batch_size, 2, processes)) for processes in (False, True))
    assert len(here) == len(there)
    for batch, other in zip(here, there, strict=True):
        assert (batch.positions, batch.failures, batch.remarks) == (other.positions, other.failures, other.remarks)
        assert list(batch.inputs) == list(other.inputs)
        for name in batch.inputs.keys() - {"elsewhere"}:
            assert other.inputs[name].dtype == batch.inputs[name].dtype
            assert torch.equal(other.inputs[name], batch.inputs[name])
    assert seen(there)[1] == [True] * 39


@processes
@pytest.mark.costly
@pytest.mark.usefixtures("_small_parts")
def test_where_a_process_dies_threads_go_on_and_it_is_said(caplog: pytest.LogCaptureFixture):
    handles = widths(*range(20, 24), _DEADLY[0], *range(24, 31))
    batches = list(image_batches(handles, levels(), 8, 2, True))
    assert seen(batches)[0] == [*range(20, 24), _DEADLY[0], *range(24, 31)]
    assert not any(batch.failures for batch in batches)
    (remark,) = caplog.messages
    assert "threads do, which may be slower" in remark
    assert not multiprocessing.active_children()


@processes
def test_where_no_process_begins_threads_read_and_it_is_said(caplog, monkeypatch):
    def refused() -> int:
        raise OSError("no more processes")

    monkeypatch.setattr(os, "fork", refused)
    batches = list(image_batches(widths(*range(20, 90)), levels(), 40, 2, True))
    assert seen(batches) == (list(range(20, 90)), [False] * 70)
    (remark,) = caplog.messages
    assert remark.endswith("threads do, which may be slower: no more processes")


@processes
@pytest.mark.costly
@pytest.mark.usefixtures("_small_parts")
def test_too_little_shared_memory_is_no_fault_of_an_image(caplog, monkeypatch):
    share = torch.Tensor.share_memory_

    def little(tensor: torch.Tensor) -> torch.Tensor:
        if len(tensor) > 1:
            raise RuntimeError("unable to allocate shared memory")
        return share(tensor)

    monkeypatch.setattr(torch.Tensor, "share_memory_", little)
    batches = list(image_batches(widths(*range(20, 30)), levels(), 8, 2, True))
    assert seen(batches) == (list(range(20, 30)), [False] * 10)
    assert not batches[0].failures
    assert "unable to allocate shared memory" in caplog.text or "RuntimeError" in caplog.text
