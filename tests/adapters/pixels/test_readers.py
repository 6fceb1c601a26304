"""Processes that read images: the same pixels, reasons and remarks as threads, whatever becomes of a process."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from capbench.adapters import ImageHandle
from capbench.adapters.pixels import readers as module
from capbench.adapters.pixels.fast_transform import FastTransform
from capbench.adapters.pixels.pipeline import image_batches
from capbench.adapters.pixels.readers import ReaderProcesses, processes_pay
from capbench.adapters.pixels.reading import UnreadableImage
from capbench.adapters.pixels.transforms import ExactTransform, PixelSpec

pytestmark = [pytest.mark.costly, pytest.mark.skipif(not module.HAS_PROCESSES, reason="POSIX only")]

_CPU = torch.device("cpu")
_DEADLY, _LARGE = (13, 13), (11, 11)


@dataclass(frozen=True)
class Levels:
    """Gives an image as it is, and some inputs of other kinds; dies of one size, and makes much of another."""

    parent: int

    def __call__(self, image: Image.Image) -> dict[str, torch.Tensor]:
        if image.size == _DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        levels = torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
        repeats = 12_000 if image.size == _LARGE else 1
        return {
            "odd": levels[0, 0, :3] > 100,
            "pixel_values": levels.float().repeat(repeats, 1, 1),
            "half": levels.half() / 3,
            "size": torch.tensor(image.width),
            "elsewhere": torch.tensor(os.getpid() != self.parent),
        }


def levels() -> ExactTransform:
    return ExactTransform(Levels(os.getpid()), {"kind": "levels"}, _CPU)


def awaited(processes: ReaderProcesses | None) -> ReaderProcesses:
    assert processes is not None
    for one in processes._all:
        assert one.is_ready(120)
    return processes


@pytest.fixture(scope="module")
def two() -> Iterator[ReaderProcesses]:
    processes = awaited(ReaderProcesses.begin(levels(), 2))
    yield processes
    processes.close()


@dataclass(frozen=True)
class Row:
    """An encoded image that cannot be pickled."""

    encoded: bytes
    unpickled: Any = lambda: None

    def read_bytes(self) -> bytes:
        return self.encoded

    def __str__(self) -> str:
        return "row 3"


def test_what_processes_read_is_what_threads_read(
    two: ReaderProcesses, photographs, colours: Image.Image, encoded: Callable[..., bytes], tmp_path: Path
):
    content = encoded(colours, "PNG")
    exif = Image.Exif()
    exif[0x0112] = 6
    handles = [
        *photographs[:9],
        ImageHandle(photographs[0].source, (20.4, 10.5, 151.0, 120.2)),
        ImageHandle(content),
        ImageHandle(Row(content), (-5, 0, 9, 9)),
        ImageHandle(encoded(colours, "JPEG", exif=exif)),
        ImageHandle(tmp_path / "missing.jpg"),
        ImageHandle(Row(content[:50])),
        ImageHandle(Row(content), (500, 500, 600, 600)),
        ImageHandle(Row(b"")),
    ]
    transform = levels()
    seen: list[bool] = []

    def read(handle: ImageHandle):
        found = two.read(handle)
        assert found.handle is handle
        seen.append(bool(found.pixels["elsewhere"]))
        return found

    for handle in handles:
        (here,) = image_batches([handle], transform, 1, 1)
        (there,) = image_batches([handle], transform, 1, 1, read)
        assert (there.positions, there.failures, there.remarks) == (here.positions, here.failures, here.remarks)
        assert list(there.inputs) == list(here.inputs)
        for name in here.inputs.keys() - {"elsewhere"}:
            assert there.inputs[name].dtype == here.inputs[name].dtype
            assert torch.equal(there.inputs[name], here.inputs[name])
    assert seen == [True] * 13


def test_threads_read_by_processes_at_once(two: ReaderProcesses, encoded: Callable[..., bytes]):
    handles = [ImageHandle(encoded(Image.new("RGB", (n + 20, 5), (n, 0, 0)), "PNG")) for n in range(60)]
    batches = list(image_batches(handles, levels(), 1, 2, two.read))
    assert [int(one.inputs["size"][0]) for one in batches] == [n + 20 for n in range(60)]
    assert [int(one.inputs["pixel_values"][0, 0, 0, 0]) for one in batches] == list(range(60))
    assert all(one.inputs["elsewhere"][0] for one in batches)


def test_image_that_is_too_large_to_be_shared_is_read_here(two: ReaderProcesses, encoded: Callable[..., bytes]):
    large = ImageHandle(encoded(Image.new("RGB", _LARGE, (1, 2, 3)), "PNG"))
    read = two.read(large)
    assert read.pixels["pixel_values"].shape == (36_000, 11, 11)
    assert not read.pixels["elsewhere"]


def test_process_that_dies_costs_the_image_that_it_had(encoded: Callable[..., bytes]):
    sizes = [(20, 5), _DEADLY, (21, 5), (22, 5)]
    handles = [ImageHandle(encoded(Image.new("RGB", size), "PNG")) for size in sizes]
    processes = ReaderProcesses.begin(levels(), 1)
    assert processes is not None
    # Until it is ready its thread reads.
    assert not processes.read(handles[0]).pixels["elsewhere"]
    (first,) = awaited(processes)._all

    batches = list(image_batches(handles, levels(), 1, 1, processes.read))

    inputs = [one.inputs for one in batches if one.positions]
    assert [int(one["size"]) for one in inputs] == [20, 21, 22]
    assert all(one["elsewhere"] for one in inputs)
    failures = {position: reason for one in batches for position, reason in one.failures.items()}
    assert failures == {1: f"{handles[1].name}: the process that read it ended (signal 9)"}
    (last,) = processes._all
    assert first._process.returncode == -signal.SIGKILL
    process = last._process
    assert process.poll() is None
    del processes, batches, last
    gc.collect()
    # It ends with those who had it.
    assert process.returncode == 0


def only_here(process: int) -> Levels:
    if process != os.getpid():
        raise RuntimeError("of another process")
    return Levels(process)


class Homely(Levels):
    """Cannot be made in another process."""

    def __reduce__(self) -> Any:
        return only_here, (self.parent,)


def test_where_no_process_begins_threads_read_and_it_is_said_once(
    encoded: Callable[..., bytes], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    module._say_that_threads_read.cache_clear()
    transform = ExactTransform(Homely(os.getpid()), {}, _CPU)
    processes = ReaderProcesses.begin(transform, 1)
    assert processes is not None
    assert [one.is_ready(120) for one in processes._all] == [False]

    handle = ImageHandle(encoded(Image.new("RGB", (20, 5)), "PNG"))
    assert not processes.read(handle).pixels["elsewhere"]
    with pytest.raises(UnreadableImage, match="is empty"):
        processes.read(ImageHandle(b""))
    processes.close()
    (remark,) = caplog.messages
    assert remark.endswith("which may be slower: a process ended before it began (exit code 1)")
    assert "of another process" in capfd.readouterr().err


def test_transform_that_cannot_be_pickled_is_left_to_threads(caplog: pytest.LogCaptureFixture):
    module._say_that_threads_read.cache_clear()
    assert ReaderProcesses.begin(ExactTransform(lambda image: {}, {}, _CPU), 1) is None
    assert "not read by processes, but by threads" in caplog.text


def test_processes_are_for_gpus_that_wait_for_python():
    gpu, exact = torch.device("cuda"), levels()
    spec = PixelSpec(32, "squash", "bicubic", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert processes_pay(exact, gpu, 4, 4096)
    assert not processes_pay(exact, _CPU, 4, 4096)
    assert not processes_pay(exact, gpu, 3, 4096)
    assert not processes_pay(exact, gpu, 4, 4095)
    assert not processes_pay(FastTransform(spec, _CPU), gpu, 4, 4096)
