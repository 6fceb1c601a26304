"""Pictures and clips that are drawn when they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ...rows import Row
from .clips import Clip, clip_frames
from .drawing import SIDE, draw, encoded
from .scene import Scene

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class DrawnPicture:
    """A picture of a scene, as an encoded image that is made when it is read.

    Attributes:
        scene: The scene.
        side: Width and height in pixels.
    """

    scene: Scene
    side: int = SIDE

    def read_bytes(self) -> bytes:
        """Return the bytes of a JPEG file."""
        return _jpeg(self.scene, self.side)

    def __str__(self) -> str:
        return f"drawn scene {self.scene.seed}"


@dataclass(frozen=True)
class DrawnClip:
    """The frames of a clip, which are drawn when they are read.

    Attributes:
        clip: The clip.
        side: Width and height in pixels.
    """

    clip: Clip
    side: int = SIDE

    def read_frames(self) -> Iterator[Image.Image]:
        """Yield each frame."""
        from PIL import Image

        yield from map(Image.fromarray, clip_frames(self.clip, self.side))

    def digest(self) -> str:
        """Return the hash of the pixels of all frames."""
        return _frames_digest(self.clip, self.side)

    def __str__(self) -> str:
        return f"drawn clip {self.clip.scene.seed}"


def picture_row(scene: Scene) -> Row:
    """Return the columns of a document on a scene."""
    return {"id": str(scene.seed), "image": f"scene-{scene.seed}", "pixels": DrawnPicture(scene)}


@lru_cache(maxsize=1024)
def _jpeg(scene: Scene, side: int) -> bytes:
    return encoded(draw(scene, side))


@lru_cache(maxsize=1024)
def _frames_digest(clip: Clip, side: int) -> str:
    digest = hashlib.sha256()
    for frame in clip_frames(clip, side):
        digest.update(frame.tobytes())
    return digest.hexdigest()
