"""Videos that give their frames themselves, as bytes that another process can read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...adapters.pixels.handles import FrameSource

if TYPE_CHECKING:
    from PIL import Image

_HEAD = 8


@dataclass(frozen=True)
class KeptFrames:
    """The frames of a video that another process drew.

    Attributes:
        known: What that video's digest was.
        name: How messages call it.
        content: The frames.
    """

    known: str
    name: str
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, video: FrameSource) -> KeptFrames:
        """Return the frames of a video."""
        frames = [np.asarray(frame.convert("RGB")) for frame in video.read_frames()]
        head = json.dumps([frame.shape for frame in frames]).encode()
        pixels = b"".join(frame.tobytes() for frame in frames)
        return cls(video.digest(), str(video), len(head).to_bytes(_HEAD, "little") + head + pixels)

    def read_frames(self) -> Iterator[Image.Image]:
        """Return every frame in RGB, in order."""
        from PIL import Image

        at = _HEAD + int.from_bytes(self.content[:_HEAD], "little")
        for shape in json.loads(self.content[_HEAD:at]):
            size = int(np.prod(shape))
            yield Image.fromarray(np.frombuffer(self.content, np.uint8, size, at).reshape(shape))
            at += size

    def digest(self) -> str:
        """Return a text that changes with the frames."""
        return self.known

    def __str__(self) -> str:
        return self.name
