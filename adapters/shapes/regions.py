"""Sees the scene of a picture of the shapes world; a segmenter and a detector, which know it.

So results with them are meaningful.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...tasks.shapes.drawing import mask_of, pixel_box, pixels
from ...tasks.shapes.pictures import DrawnPicture
from ...tasks.shapes.sampling import sample_scene
from ...tasks.shapes.scene import Scene, Thing
from ..images.handles import ImageHandle
from ..images.reading import UnreadableImage, crop_of, read_image
from ..regions.contracts import Detections, Detector, Region, Segmenter, wanted_points
from .phrases import ByRule, Named, named_in, words_of

if TYPE_CHECKING:
    from ...tasks.shapes.scene import Box

_LEAST = (2, 3)
"""Fewest things of the scenes of a seed, as readers draw them."""
_ANOTHER = 8.0
"""Mean difference of 256 levels above which two pictures are two: of one and its JPEG file it is below 4."""


@dataclass(frozen=True)
class SceneView:
    """The content of a picture, or of a crop of one.

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
    """Return the content of a picture of the shapes world.

    A picture that is drawn knows its scene. Of a file the name ends with the scene's seed (``photos/17.jpg``), and its
    pixels are compared with those of that scene.

    Raises:
        UnreadableImage: It cannot be read, or it is no picture of the shapes world whose scene is known.
    """
    if isinstance(image.source, DrawnPicture):
        scene, side = image.source.scene, image.source.side
    else:
        scene, side = _recognised(image)
    window = (0, 0, side, side) if image.box is None else crop_of(image, image.box, side, side)[0]
    return SceneView(scene, side, window)


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


class ShapesSegmenter(ByRule, Segmenter):
    """Finds the things of a picture of the shapes world, exactly.

    Args:
        name: How results call it.
    """

    adapter = "shapes_segmenter"

    def masks(self, image: ImageHandle, *, points: np.ndarray | None = None, grid: int | None = None) -> list[Region]:
        """Return the things that a point lies on, or all of them; see ``Segmenter.masks``."""
        seen = see(image)
        masks = [seen.mask(thing) for thing in seen.scene.things]
        if points is not None or grid is not None:
            x, y = wanted_points(points, grid, seen.size).astype(int).T
            masks = [mask for mask in masks if mask[y, x].any()]
        return [Region.of(mask, 1.0, 1.0) for mask in masks if mask.any()]


class ShapesDetector(ByRule, Detector):
    """Finds what phrases name in a picture of the shapes world.

    Each thing has its box, and the background has one in which nothing stands. A text scores above 0.5 in the box of
    what it names if all of it is there, the more the fewer words it has; and at most 0.005 where it is not. Each box
    has a fellow, a little smaller and less sure.

    Args:
        name: How results call it.
    """

    adapter = "shapes_detector"

    def detect(self, image: ImageHandle, phrases: Sequence[str]) -> Detections:
        """Return the boxes of a picture with a score for each phrase; see ``Detector.detect``."""
        seen = see(image)
        if not phrases:
            return Detections(np.zeros((0, 4)), np.zeros((0, 0)))
        detected: list[tuple[Box, list[float]]] = []
        for number, box in enumerate(_boxes(seen)):
            if box is None:
                continue
            scores = [_score(phrase, seen.scene, number) for phrase in phrases]
            detected += [(box, scores), (_within(box), [0.9 * score for score in scores])]
        boxes = np.array([box for box, _ in detected], np.float64).reshape(-1, 4)
        return Detections(boxes, np.array([scores for _, scores in detected]).reshape(-1, len(phrases)))


def _boxes(seen: SceneView) -> list[Box | None]:
    """Return the box of each thing, and last that of the background; None for what is not shown."""
    drawn = [pixel_box(thing, seen.side) for thing in seen.scene.things]
    left, top = (min(box[edge] for box in drawn) for edge in (0, 1))
    right, bottom = (max(box[edge] for box in drawn) for edge in (2, 3))
    side = seen.side
    # Outside all objects, so that non-maximum suppression takes it for none of them.
    strips = [(0, 0, left, side), (right, 0, side, side), (0, 0, side, top), (0, bottom, side, side)]
    background = max(strips, key=lambda strip: (strip[2] - strip[0]) * (strip[3] - strip[1]))
    return [_shown(box, seen) for box in (*drawn, background)]


def _shown(box: tuple[int, int, int, int], seen: SceneView) -> Box | None:
    """Return the part of a box in a window, in pixels of the window."""
    left, top, right, bottom = seen.window
    edges = max(box[0], left), max(box[1], top), min(box[2], right), min(box[3], bottom)
    if edges[2] <= edges[0] or edges[3] <= edges[1]:
        return None
    return (float(edges[0] - left), float(edges[1] - top), float(edges[2] - left), float(edges[3] - top))


def _within(box: Box) -> Box:
    left, top, right, bottom = box
    across, down = 0.05 * (right - left), 0.05 * (bottom - top)
    return left + across, top + down, right - across, bottom - down


def _score(phrase: str, scene: Scene, number: int) -> float:
    """Return how much of a phrase is in the box of a thing, or behind the last of them, in that of the background."""
    named = named_in(phrase)
    share = min((thing.share_in(scene) for thing in named), default=0.0)

    def is_here(thing: Named) -> bool:
        in_things = number < len(scene.things)
        return thing.is_of(scene.things[number]) if in_things else scene.background in thing.places()

    if share == 1 and any(map(is_here, named)):
        return 0.5 + 0.4 / len(words_of(phrase))
    return 0.005 * (share if share < 1 else 0.5)
