"""Training pictures, drawn once and kept in memory, and views of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....tasks.shapes.clips import FRAMES, Clip, moments, sample_clip
from ....tasks.shapes.drawing import SIDE, frames_of, pixels
from ....tasks.shapes.sampling import SPLITS, sample_scene
from ....tasks.shapes.scene import BACKGROUNDS, COLOURS, SHAPES, SIZES, TEXTURES, Scene, Thing
from .clip import IMAGE_SIZE, PATCH

GRID = IMAGE_SIZE // PATCH
PROPERTIES = (("shape", SHAPES), ("colour", COLOURS), ("size", SIZES), ("texture", TEXTURES))
"""Properties of a thing, each with its values."""
_CROPPED = 0.35
"""Share of pictures that are cropped."""
_A_CLIP = 12
"""Every n-th picture is a frame of a clip."""


@dataclass(frozen=True)
class View:
    """A picture, or a crop of it.

    Attributes:
        pixels: ``[side, side, 3]`` uint8.
        scene: Its scene.
        things: The things that it shows in full, with the boxes of the scene.
        clip: The clip of a frame; None for a picture.
        labels: ``[5, patches]`` int64: shape, colour, size and texture of the thing in the middle of each patch, 0
            where there is none; and the background.
    """

    pixels: np.ndarray
    scene: Scene
    things: tuple[Thing, ...]
    labels: np.ndarray
    clip: Clip | None = None


@dataclass(frozen=True)
class PoolPicture:
    """A picture of a scene, or a frame of a clip.

    Attributes:
        pixels: ``[side, side, 3]`` uint8, of the side of the world's pictures.
        scene: Its scene.
        clip: The clip of a frame; None for a picture.
    """

    pixels: np.ndarray
    scene: Scene
    clip: Clip | None = None


def draw_pool(numbers: Iterable[int]) -> list[PoolPicture]:
    """Return pictures of the training split by number; some are frames of clips."""
    pictures = []
    for number in numbers:
        seed = SPLITS["train"][number]
        if number % _A_CLIP:
            scene = sample_scene(seed)
            pictures.append(PoolPicture(pixels(scene), scene))
            continue
        clip = sample_clip(seed)
        # Any frame; as clips are many, each is seen at another moment.
        things = moments(clip)[number // _A_CLIP % FRAMES]
        (frame,) = frames_of(clip.scene, [things], SIDE)
        pictures.append(PoolPicture(frame, replace(clip.scene, things=tuple(things)), clip))
    return pictures


def whole(drawn: PoolPicture) -> View:
    """Return the view of the whole picture."""
    scene = drawn.scene
    return View(as_seen(drawn.pixels), scene, scene.things, _labels(scene, (0, 0, 1, 1)), drawn.clip)


def view_of(drawn: PoolPicture, rng: np.random.Generator) -> View:
    """Return the picture or, at random, a crop with at least one thing; frames are not cropped."""
    scene = drawn.scene
    if drawn.clip or rng.random() >= _CROPPED:
        return whole(drawn)
    chosen = [scene.things[at] for at in rng.permutation(len(scene.things))[: rng.integers(1, 3)]]
    left, top = (min(thing.box[at] for thing in chosen) for at in (0, 1))
    right, bottom = (max(thing.box[at] for thing in chosen) for at in (2, 3))
    # As tight as the boxes of things, or with a margin.
    reach = rng.uniform(0, 0.12, size=4) if rng.random() < 0.6 else np.zeros(4)
    sides = np.array([left, top, right, bottom]) + reach * (-1, -1, 1, 1)
    edges = np.clip(np.round(sides * SIDE).astype(int), 0, SIDE)
    area = tuple((edges / SIDE).tolist())
    things = tuple(thing for thing in scene.things if _inside(thing, area))
    crop = drawn.pixels[edges[1] : edges[3], edges[0] : edges[2]]
    return View(as_seen(crop), scene, things or tuple(chosen), _labels(scene, area))


def as_seen(pixels: np.ndarray) -> np.ndarray:
    """Resize a picture ``[h, w, 3]`` to the model's input, like the transform of the loaded model."""
    from PIL import Image

    size = (IMAGE_SIZE, IMAGE_SIZE)
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))


def kinds_of(thing: Thing) -> list[int]:
    """Return shape, colour, size and texture of a thing by number."""
    return [values.index(getattr(thing, name)) for name, values in PROPERTIES]


def _inside(thing: Thing, area: tuple[float, ...]) -> bool:
    left, top, right, bottom = thing.box
    slack = 1 / SIDE
    return (
        left >= area[0] - slack and top >= area[1] - slack
        and right <= area[2] + slack and bottom <= area[3] + slack
    )  # fmt: skip


def _labels(scene: Scene, area: tuple[float, ...]) -> np.ndarray:
    labels = np.zeros((5, GRID, GRID), dtype=np.int64)
    labels[4] = BACKGROUNDS.index(scene.background)
    label_boxes(labels[:4], scene.things, [[1 + kind for kind in kinds_of(thing)] for thing in scene.things], area)
    return labels.reshape(5, -1)


def label_boxes(
    labels: np.ndarray, things: Sequence[Thing], values: Sequence[Sequence[int]], area: Sequence[float] = (0, 0, 1, 1)
) -> None:
    """Label the patches whose middle lies in the box of a thing; later things cover earlier ones.

    Args:
        labels: ``[rows, side, side]``, changed in place.
        things: The things.
        values: The label of each thing in each row.
        area: Left, top, right and bottom of the patches in the scene.
    """
    middles = (np.arange(GRID) + 0.5) / GRID
    x, y = area[0] + middles * (area[2] - area[0]), area[1] + middles * (area[3] - area[1])
    for thing, of_thing in zip(things, values, strict=True):
        left, top, right, bottom = thing.box
        labels[:, np.outer((top <= y) & (y <= bottom), (left <= x) & (x <= right))] = np.array(of_thing)[:, None]
