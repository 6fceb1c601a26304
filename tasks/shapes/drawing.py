"""Draws scenes: anti-aliased shapes with textures on backgrounds with light noise."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from .scene import Scene, Stream, Thing, generator

if TYPE_CHECKING:
    from PIL.Image import Image


def background_pixels(name: str, side: int, rng: np.random.Generator) -> np.ndarray:
    """Return a background as an array ``[side, side, 3]`` of float32, 0 to 255.

    Args:
        name: One of ``scene.BACKGROUNDS``.
        side: Width and height in pixels.
        rng: Random numbers, so that no two are the same.
    """
    tint = rng.integers(-8, 9, size=3).astype(np.float32)
    match name:
        case "gray":
            surface = np.full((side, side, 3), 142, np.float32)
        case "pink":
            surface = np.full((side, side, 3), (246, 172, 196), np.float32)
        case "grass":
            height = 6
            blades = rng.integers(-38, 39, size=(-(-side // height) + 1, side), dtype=np.int8)
            # Columns start at different heights, or the blades would stand in rows.
            rows = np.arange(side)[:, None] + rng.integers(height, size=side)
            light = blades[rows // height, np.arange(side)].astype(np.float32)
            surface = np.asarray((98, 158, 66), np.float32) + light[..., None]
        case "sky":
            down = np.linspace(0, 1, side, dtype=np.float32)[:, None, None]
            surface = np.asarray((96, 160, 232), np.float32) + down * np.asarray((100, 66, 20), np.float32)
            clouds = np.clip(1.6 * _smooth(side, 5, rng) - 0.75, 0, 0.7)[..., None]
            surface = surface + clouds * (246 - surface)
        case "sand":
            grains = rng.integers(-26, 27, size=(side, side), dtype=np.int8).astype(np.float32)
            waves = 18 * (_smooth(side, 4, rng) - 0.5)
            surface = np.asarray((226, 200, 146), np.float32) + (grains + waves)[..., None]
        case "brick":
            surface = _brick(side, rng)
        case _:
            raise ValueError(f"unknown background '{name}'")
    return surface + tint


def _brick(side: int, rng: np.random.Generator) -> np.ndarray:
    course, length = 0.105 * side, 0.25 * side
    y = np.arange(side) + rng.uniform(0, course)
    x = np.arange(side) + rng.uniform(0, length)
    row = (y // course).astype(int)[:, None]
    along = x[None, :] + row % 2 * length / 2
    column = (along // length).astype(int)
    joint = max(1.0, side / 64)
    mortar = ((y % course < joint)[:, None] | (along % length < joint))[..., None]
    shades = rng.integers(-20, 21, size=(12, 7)).astype(np.float32)
    bricks = np.asarray((170, 92, 74), np.float32) + shades[row % 12, column % 7][..., None]
    return np.where(mortar, np.float32(206), bricks)


def _smooth(side: int, cells: int, rng: np.random.Generator) -> np.ndarray:
    """Return smooth noise ``[side, side]``, 0 to 1."""
    from PIL import Image

    coarse = Image.fromarray(rng.random((cells, cells), dtype=np.float32))
    return np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC))


SIDE = 128
_COLOURS = {
    "red": ((222, 32, 38), (255, 170, 165)),
    "orange": ((250, 138, 18), (150, 72, 0)),
    "yellow": ((250, 225, 40), (165, 135, 0)),
    "green": ((28, 150, 58), (165, 232, 160)),
    "blue": ((30, 80, 215), (160, 200, 255)),
    "purple": ((135, 45, 170), (226, 178, 245)),
    "black": ((25, 25, 28), (135, 135, 138)),
    "white": ((248, 248, 248), (150, 150, 152)),
}
"""The colour of a thing and of its texture: lighter or darker, so that no other colour shows."""
_DARK, _LIGHT = (20, 20, 22), (250, 250, 250)
_FINE = 4


def draw(scene: Scene, side: int = SIDE) -> Image:
    """Draw a scene.

    Args:
        scene: The scene; its seed also decides the noise.
        side: Width and height of the picture in pixels.

    Returns:
        An RGB picture.
    """
    from PIL import Image

    return Image.fromarray(pixels(scene, side))


def pixels(scene: Scene, side: int = SIDE) -> np.ndarray:
    """Draw a scene as an array ``[side, side, 3]`` of uint8."""
    return frames_of(scene, [scene.things], side)[0]


def frames_of(scene: Scene, moments: Sequence[Sequence[Thing]], side: int) -> list[np.ndarray]:
    """Draw several moments of a scene on one background.

    Args:
        scene: Gives background and noise.
        moments: The things as they stand at each moment, in the order of the scene; the last ones may be gone.
        side: Width and height in pixels.

    Returns:
        An array ``[side, side, 3]`` of uint8 for each moment.
    """
    rng = generator(scene.seed, Stream.PIXELS)
    # Drawn before the background, which takes more or fewer numbers by its kind and the size.
    tints = rng.integers(-10, 11, size=(len(scene.things), 3))
    behind = background_pixels(scene.background, side, rng)
    frames = []
    for things in moments:
        canvas = behind.copy()
        for thing, tint in zip(things, tints, strict=False):
            _paint(canvas, thing, tint, side)
        canvas += rng.integers(-6, 7, size=canvas.shape, dtype=np.int8)
        frames.append(np.clip(canvas, 0, 255).astype(np.uint8))
    return frames


def encoded(picture: Image) -> bytes:
    """Return a picture as the bytes of a JPEG file of quality 92."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=92, subsampling=0)
    return buffer.getvalue()


def pixel_box(thing: Thing, side: int) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a thing in whole pixels, as it is drawn."""
    left, top, right, _ = thing.box
    size = round((right - left) * side)
    return round(left * side), round(top * side), round(left * side) + size, round(top * side) + size


def mask_of(thing: Thing, side: int) -> np.ndarray:
    """Return the pixels of which a thing covers more than half, rim included, as bool ``[side, side]``."""
    left, top, right, bottom = pixel_box(thing, side)
    mask = np.zeros((side, side), bool)
    mask[top:bottom, left:right] = _masks(thing.shape, right - left, _rim(side))[0][..., 0] > 0.5
    return mask


def _rim(side: int) -> float:
    return max(1.0, side / 80)


def _paint(canvas: np.ndarray, thing: Thing, tint: np.ndarray, side: int) -> None:
    left, top, right, bottom = pixel_box(thing, side)
    size = right - left
    whole, inner = _masks(thing.shape, size, _rim(side))
    first, second = map(np.asarray, _COLOURS[thing.colour])
    paint = first + _pattern(thing.texture, size, side) * (second - first) + tint
    outline = np.asarray(_LIGHT if thing.colour == "black" else _DARK)
    window = canvas[top:bottom, left:right]
    window += whole * (outline - window)
    window += inner * (paint - window)


@lru_cache(maxsize=2048)
def _masks(shape: str, size: int, rim: float) -> tuple[np.ndarray, np.ndarray]:
    """Return how far a shape covers each pixel ``[size, size, 1]``: with its rim, and without."""
    from PIL import Image, ImageDraw

    fine = Image.new("L", (size * _FINE, size * _FINE))
    corners = [(x * size * _FINE, y * size * _FINE) for x, y in _outline(shape)]
    draw = ImageDraw.Draw(fine)
    draw.polygon(corners, fill=255)
    whole = _average(np.asarray(fine) / 255, size)
    draw.line([*corners, *corners[:2]], fill=0, width=round(2 * rim * _FINE), joint="curve")
    return whole, _average(np.asarray(fine) / 255, size)


@lru_cache(maxsize=512)
def _pattern(texture: str, size: int, side: int) -> np.ndarray:
    """Return the share of the second colour in each pixel ``[size, size, 1]``."""
    if texture == "plain":
        return np.zeros((size, size, 1), np.float32)
    # From the middle, so that every shape shows some of both colours.
    y, x = (np.mgrid[: size * _FINE, : size * _FINE] + 0.5 - size * _FINE / 2) / (_FINE * side)
    match texture:
        case "striped":
            second = np.mod((x + y) / 0.085, 1) < 0.45
        case "dotted":
            period = 0.066
            row = np.floor(y / period)
            across, down = np.mod(x / period + 0.5 * np.mod(row, 2), 1) - 0.5, np.mod(y / period, 1) - 0.5
            second = across**2 + down**2 < 0.31**2
        case _:
            second = np.mod(np.floor(x / 0.047) + np.floor(y / 0.047), 2) == 1
    return _average(second.astype(float), size)


def _average(fine: np.ndarray, size: int) -> np.ndarray:
    return fine.reshape(size, _FINE, size, _FINE).mean(axis=(1, 3), dtype=np.float32)[..., None]


@lru_cache
def _outline(shape: str) -> tuple[tuple[float, float], ...]:
    """Return the corners of a shape, scaled so that it touches all four edges of the unit square."""
    turn = [2 * math.pi * step / 72 for step in range(72)]
    match shape:
        case "circle":
            points = [(math.cos(t), math.sin(t)) for t in turn]
        case "square":
            points = [(0, 0), (1, 0), (1, 1), (0, 1)]
        case "triangle":
            points = [(0.5, 0), (1, 1), (0, 1)]
        case "star":
            radii = (1.0, 0.42)
            points = [
                (radii[i % 2] * math.sin(math.pi * i / 5), -radii[i % 2] * math.cos(math.pi * i / 5)) for i in range(10)
            ]
        case "heart":
            points = [
                (16 * math.sin(t) ** 3, -13 * math.cos(t) + 5 * math.cos(2 * t) + 2 * math.cos(3 * t) + math.cos(4 * t))
                for t in turn
            ]
        case "cross":
            near, far = 0.32, 0.68
            points = [
                *((near, 0), (far, 0), (far, near), (1, near), (1, far), (far, far)),
                *((far, 1), (near, 1), (near, far), (0, far), (0, near), (near, near)),
            ]
        case "diamond":
            points = [(0.5, 0), (1, 0.5), (0.5, 1), (0, 0.5)]
        case "moon":
            outer = [math.radians(50 + 260 * step / 40) for step in range(41)]
            tip = math.sin(outer[0])
            shift, radius = math.cos(outer[0]) + 0.28, math.hypot(0.28, tip)
            start = math.atan2(tip, -0.28)
            inner = [start + (2 * math.pi - 2 * start) * step / 40 for step in range(41)]
            points = [(math.cos(t), math.sin(t)) for t in outer]
            points += [(shift + radius * math.cos(t), radius * math.sin(t)) for t in reversed(inner)]
        case "arrow":
            points = [(0, 0.3), (0.5, 0.3), (0.5, 0), (1, 0.5), (0.5, 1), (0.5, 0.7), (0, 0.7)]
        case _:
            raise ValueError(f"unknown shape '{shape}'")
    across, down = zip(*points, strict=True)
    width, height = max(across) - min(across), max(down) - min(down)
    return tuple(((x - min(across)) / width, (y - min(down)) / height) for x, y in points)
