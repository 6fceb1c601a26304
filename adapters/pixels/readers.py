"""Processes that read images, where threads would wait for one another.

Each shares a socket and a piece of memory with this process: what it makes of an image goes into the memory, what there
is to say of it through the socket.
"""

from __future__ import annotations

import logging
import mmap
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .handles import ImageHandle
from .pipeline import read_image_with
from .reading import UnreadableImage, read_bytes
from .transforms import ImageTransform, Prepared

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


class TensorSlot(NamedTuple):
    """Where in the shared memory a tensor lies: its bytes, ``start`` to ``stop``, and what they are."""

    start: int
    stop: int
    shape: tuple[int, ...]
    dtype: torch.dtype


def shared_tensor(memory: int) -> torch.Tensor:
    """Return a piece of shared memory, by its number, as a tensor of bytes."""
    import torch

    return torch.frombuffer(mmap.mmap(memory, os.fstat(memory).st_size), dtype=torch.uint8)


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


def _read(handle: ImageHandle, transform: ImageTransform, block: torch.Tensor) -> _Answer:
    """Return where an image is and the remarks on it, or the reason why it cannot be read."""
    import torch

    prepared = read_image_with(transform.read, handle)
    if isinstance(prepared, str):
        return prepared
    slots: dict[str, TensorSlot] = {}
    start = 0
    for name, tensor in prepared.pixels.items():
        slot = TensorSlot(start, start + tensor.numel() * tensor.itemsize, tuple(tensor.shape), tensor.dtype)
        if slot.stop > len(block):
            return None, prepared.remarks
        block[start : slot.stop] = tensor.contiguous().reshape(-1).view(torch.uint8)
        slots[name] = slot
        start = -(-slot.stop // _ALIGNED) * _ALIGNED
    return slots, prepared.remarks


_Answer = str | tuple[Mapping[str, TensorSlot] | None, tuple[str, ...]]
"""Why an image cannot be read; or where the model's inputs lie, None where they were too large, and the remarks."""
_MEMORY_BYTES = 1 << 24
"""What a process shares: more than any model's input of one image."""
_FEWEST_CORES, _FEWEST_IMAGES = 4, 4096
_SECONDS_TO_START, _SECONDS_TO_END = 120.0, 5.0
# Libraries would take seconds to end.
_MAIN = """
import os, sys
from capbench.adapters.pixels.readers import main
os._exit(main(*map(int, sys.argv[1:])))
"""

HAS_PROCESSES = os.name == "posix"
"""Whether processes can be started that share sockets and memory with this one."""


def processes_pay(transform: ImageTransform, device: torch.device, workers: int, images: int) -> bool:
    """Return whether images are read faster by processes.

    So it is where a GPU waits for them, and the transform is in Python and Pillow, which keep other threads waiting for
    most of an image's time; where there are cores enough; and for so many images that the seconds pay in which
    each process begins. On a CPU the model itself needs the cores.
    """
    return (
        HAS_PROCESSES
        and device.type == "cuda"
        and transform.holds_interpreter
        and workers >= _FEWEST_CORES
        and images >= _FEWEST_IMAGES
    )


class ReaderProcesses:
    """Processes, each of which reads an image at a time for a thread of this one.

    They begin in their own time: until one is ready, its thread reads by itself. One that dies costs the image that it
    had, and another takes its place. They end with this object, or with the process.

    Args:
        transform: How images are read; its inputs are tensors by name, and it can be pickled.
        count: How many processes; as many threads may read at once.
    """

    def __init__(self, transform: ImageTransform, count: int) -> None:
        self._transform = transform
        self._pickled = pickle.dumps(transform)
        self._free: queue.LifoQueue[_Reader] = queue.LifoQueue()
        self._all: set[_Reader] = set()
        # A method of this object's would keep it.
        self.close = weakref.finalize(self, _close, self._all)
        for _ in range(count):
            self._free.put(self._begun())

    @classmethod
    def begin(cls, transform: ImageTransform, count: int) -> ReaderProcesses | None:
        """Return processes that read images; None, which is said, where there can be none."""
        try:
            return cls(transform, count)
        except (AttributeError, OSError, TypeError, pickle.PicklingError) as error:
            # Objects say as they please that they cannot be pickled.
            _say_that_threads_read(str(error))
            return None

    def read(self, handle: ImageHandle) -> Prepared:
        """Read and prepare an image; see ``ImageTransform.read``.

        Raises:
            UnreadableImage: It cannot be read, or its process died of it.
        """
        reader = self._free.get()
        try:
            if not reader.is_ready(0):
                return self._transform.read(handle)
            try:
                found = reader.read(handle)
            except (EOFError, OSError) as error:
                self._all.discard(reader)
                status = reader.close()
                reader = self._begun()
                # Until then an image like this one must not be read here.
                reader.is_ready(_SECONDS_TO_START)
                raise UnreadableImage(f"{handle.name}: the process that read it ended ({_ending(status)})") from error
        finally:
            self._free.put(reader)
        return self._transform.read(handle) if found is None else found

    def _begun(self) -> _Reader:
        reader = _Reader(self._pickled)
        self._all.add(reader)
        return reader


class _Reader:
    """One process."""

    def __init__(self, transform: bytes) -> None:
        ours, theirs = socket.socketpair()
        with theirs, _memory() as memory:
            self._block = shared_tensor(memory.fileno())
            shared = theirs.fileno(), memory.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, *map(str, shared)],
                pass_fds=shared,
                stdin=subprocess.DEVNULL,
                env=os.environ
                | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}
                # It only prepares: neither a GPU nor a second core is its own.
                | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
            )
        self._connection = Connection(ours.detach())
        self._connection.send_bytes(transform)
        self._state = "starts"

    def is_ready(self, seconds: float) -> bool:
        """Return whether it has begun to take images, now or after so many seconds at most."""
        if self._state == "starts" and self._connection.poll(seconds):
            try:
                self._state = self._connection.recv()
            except (EOFError, OSError):
                self._state = "failed"
                _say_that_threads_read(f"a process ended before it began ({_ending(self.close())})")
        return self._state == "ready"

    def read(self, handle: ImageHandle) -> Prepared | None:
        """Return an image as its process prepared it; None where it is too large to be shared.

        Raises:
            UnreadableImage: It cannot be read.
            EOFError, OSError: The process has died.
        """
        self._connection.send(_to_send(handle))
        answer: _Answer = self._connection.recv()
        if isinstance(answer, str):
            raise UnreadableImage(answer)
        slots, remarks = answer
        if slots is None:
            return None
        pixels = {
            name: self._block[slot.start : slot.stop].clone().view(slot.dtype).reshape(slot.shape)
            for name, slot in slots.items()
        }
        return Prepared(pixels, remarks, handle)

    def close(self) -> int:
        """End the process, and return its exit status."""
        self._connection.close()
        if self._state == "starts":
            # It would not notice before it has loaded its libraries.
            self._process.kill()
        try:
            return self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _close(readers: Collection[_Reader]) -> None:
    for one in readers:
        one.close()


def _memory():
    """Return a file without a name that lies in memory where the system has such."""
    create = getattr(os, "memfd_create", None)
    file = open(create("images"), "r+b") if create else tempfile.TemporaryFile()  # noqa: PTH123, SIM115
    file.truncate(_MEMORY_BYTES)
    return file


def _to_send(handle: ImageHandle) -> ImageHandle:
    """Return a handle that means the same in another process."""
    if isinstance(handle.source, Path | bytes):
        return handle
    return replace(handle, source=FetchedImage(str(handle.source), read_bytes(handle)))


@cache
def _say_that_threads_read(reason: str) -> None:
    logging.getLogger(__name__).warning(
        "images are not read by processes, but by threads, which may be slower: %s", reason
    )


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit code {status}"
