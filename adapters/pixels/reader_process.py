"""What runs in a process that reads images for another; see ``readers``.

It is given the number of a socket and that of a piece of memory, which both share. What it makes of an image goes into
the memory; what there is to say of it goes through the socket.
"""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from ...allocation import seldom_collected
from .handles import ImageHandle
from .pipeline import read_image_with
from .transforms import ImageTransform

if TYPE_CHECKING:
    import torch

_ALIGNED = 16


@dataclass(frozen=True)
class FetchedImage:
    """An encoded image that another process has fetched.

    Attributes:
        name: What messages call it.
        encoded: Its bytes.
    """

    name: str
    encoded: bytes

    def read_bytes(self) -> bytes:
        """Return the encoded bytes."""
        return self.encoded

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Place:
    """Where in the shared memory a tensor lies.

    Attributes:
        start: Of its first byte.
        shape: Of the tensor.
        dtype: The same.
    """

    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    def stop(self) -> int:
        """Return the place after its last byte."""
        count = 1
        for size in self.shape:
            count *= size
        return self.start + count * self.dtype.itemsize


@dataclass(frozen=True)
class InMemory:
    """An image that lies in the shared memory.

    Attributes:
        places: Of the model's inputs, by name; None where they were too large for it.
        remarks: What was done to read the image that is not as usual.
    """

    places: Mapping[str, Place] | None
    remarks: tuple[str, ...] = ()


def shared_tensor(memory: int) -> torch.Tensor:
    """Return a piece of shared memory, by its number, as a tensor of bytes."""
    import torch

    return torch.frombuffer(mmap.mmap(memory, os.fstat(memory).st_size), dtype=torch.uint8)


@seldom_collected()
def main(socket: int, memory: int) -> int:
    """Read images until the other process ends the connection; return 0."""
    # An interrupt from the keyboard reaches all processes; the other one decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(socket) as other, suppress(EOFError, OSError):
        import torch

        torch.set_num_threads(1)
        transform: ImageTransform = other.recv()
        block = shared_tensor(memory)
        other.send("ready")
        while True:
            other.send(_read(other.recv(), transform, block))
    return 0


def _read(handle: ImageHandle, transform: ImageTransform, block: torch.Tensor) -> InMemory | str:
    """Return where an image is, or the reason why it cannot be read."""
    import torch

    prepared = read_image_with(transform.read, handle)
    if isinstance(prepared, str):
        return prepared
    places: dict[str, Place] = {}
    start = 0
    for name, tensor in prepared.pixels.items():
        place = Place(start, tuple(tensor.shape), tensor.dtype)
        if place.stop() > len(block):
            return InMemory(None)
        block[start : place.stop()] = tensor.contiguous().reshape(-1).view(torch.uint8)
        places[name] = place
        start = -(-place.stop() // _ALIGNED) * _ALIGNED
    return InMemory(places, prepared.remarks)
