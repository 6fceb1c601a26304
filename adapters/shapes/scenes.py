"""Finds the scene of a picture of the shapes world, so that what it holds is known exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...tasks.shapes.drawing import mask_of, pixels
from ...tasks.shapes.pictures import DrawnPicture
from ...tasks.shapes.sampling import sample_scene
from ...tasks.shapes.scene import Scene, Thing
from ..pixels.handles import ImageHandle
from ..pixels.reading import UnreadableImage, crop_of, read_image

_LEAST = (2, 3)
"""Fewest things of the scenes of a seed, as readers draw them."""
_ANOTHER = 8.0
"""Mean difference of 256 levels above which two pictures are two: of one and its JPEG file it is below 4."""


@dataclass(frozen=True)
class SceneView:
    """What a picture, or a crop of one, shows.

    Attributes:
        scene: The scene.
        side: Width and height of the whole picture in pixels.
        window: Left, top, right and bottom of what is shown, in whole pixels.
    """

    scene: Scene
    side: int
    window: tuple[int, int, int, int]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of what is shown, in pixels."""
        left, top, right, bottom = self.window
        return right - left, bottom - top

    def mask(self, thing: Thing) -> np.ndarray:
        """Return the pixels of a thing, bool ``[height, width]`` of what is shown."""
        left, top, right, bottom = self.window
        return mask_of(thing, self.side)[top:bottom, left:right]


def see(image: ImageHandle) -> SceneView:
    """Return what a picture of the shapes world shows.

    A picture that is drawn knows its scene. Of a file the name ends with the scene's seed (``photos/17.jpg``), and its
    pixels are held against those of that scene.

    Raises:
        UnreadableImage: It cannot be read, or it is no picture of the shapes world whose scene is known.
    """
    if isinstance(image.source, DrawnPicture):
        scene, side = image.source.scene, image.source.side
    else:
        scene, side = _recognised(image)
    window = (0, 0, side, side) if image.box is None else crop_of(image, image.box, side, side)[0]
    return SceneView(scene, side, window)


def why_unseen(image: ImageHandle) -> str:
    """Return why a picture cannot be seen; empty where it can."""
    try:
        see(image)
    except UnreadableImage as error:
        return str(error)
    return ""


def _recognised(image: ImageHandle) -> tuple[Scene, int]:
    shown = np.asarray(read_image(ImageHandle(image.source)).image.convert("RGB"), np.int16)
    height, width, _ = shown.shape
    name = image.source.stem if isinstance(image.source, Path) else str(image.source)
    seed = None if isinstance(image.source, bytes) else re.search(r"(\d+)$", name)
    if seed is not None and height == width:
        for least in _LEAST:
            scene = sample_scene(int(seed[1]), least)
            if np.abs(pixels(scene, height) - shown).mean() < _ANOTHER:
                return scene, height
    raise UnreadableImage(
        f"{image.name}: is no picture of the shapes world whose scene is known; a file's name ends with its seed"
    )
