from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from capbench.adapters import ImageHandle
from capbench.adapters.pixels.pipeline import default_workers, image_batches
from capbench.adapters.pixels.reading import UnreadableImage
from capbench.adapters.pixels.transforms import ImageTransform, Prepared


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
        kept = [n for n, one in enumerate(batch) if one.pixels % 7 != 6]
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


def test_there_is_a_worker_a_core():
    assert default_workers() >= 1
