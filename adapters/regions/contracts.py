"""The contracts of recipes that make data: what finds regions, what finds phrases, what paints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ...errors import AdapterError
from ..contracts import Model
from ..images.handles import Box, ImageHandle

WholeBox: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom in whole pixels or cells; right and bottom are exclusive."""
_WORD = 64


@dataclass(frozen=True, eq=False)
class PackedMask:
    """A mask of an image as packed bits, of which what lies within its box is kept.

    Hundreds of large ones take little memory, and are compared in a moment.

    Attributes:
        words: Its bits, uint64 ``[bottom - top, words]``; the first bit of a row is a column that 64 divides.
        box: Left, top, right, bottom of its pixels, right and bottom exclusive; zeros where it has none.
        shape: Height and width of the image.
    """

    words: np.ndarray
    box: WholeBox
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: np.ndarray) -> PackedMask:
        """Return a mask, bool ``[height, width]``, packed."""
        # Rows first, then columns of these rows alone.
        rows = np.flatnonzero(mask.any(axis=1))
        if not len(rows):
            return cls(np.zeros((0, 0), np.uint64), (0, 0, 0, 0), mask.shape)
        top, bottom = int(rows[0]), int(rows[-1]) + 1
        columns = np.flatnonzero(mask[top:bottom].any(axis=0))
        left, right = int(columns[0]), int(columns[-1]) + 1
        start = left // _WORD * _WORD
        packed = np.packbits(mask[top:bottom, start:right], axis=1)
        packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % (_WORD // 8))))
        return cls(packed.view(np.uint64), (left, top, right, bottom), mask.shape)

    @cached_property
    def size(self) -> int:
        """How many pixels it has."""
        return int(np.bitwise_count(self.words).sum(dtype=np.int64))

    def shared(self, other: PackedMask) -> int:
        """Return how many pixels two masks have in common."""
        top, bottom = max(self.box[1], other.box[1]), min(self.box[3], other.box[3])
        if top >= bottom or max(self.box[0], other.box[0]) >= min(self.box[2], other.box[2]):
            return 0
        start = max(self._first_word, other._first_word)
        end = min(self._first_word + self.words.shape[1], other._first_word + other.words.shape[1])
        first, second = (
            mask.words[top - mask.box[1] : bottom - mask.box[1], start - mask._first_word : end - mask._first_word]
            for mask in (self, other)
        )
        return int(np.bitwise_count(first & second).sum(dtype=np.int64))

    def united(self, other: PackedMask) -> PackedMask:
        """Return the pixels of either of two masks that have some."""
        left, top = (min(self.box[edge], other.box[edge]) for edge in (0, 1))
        right, bottom = (max(self.box[edge], other.box[edge]) for edge in (2, 3))
        first = left // _WORD
        words = np.zeros((bottom - top, -(-right // _WORD) - first), np.uint64)
        for mask in (self, other):
            begin = mask._first_word - first
            rows = slice(mask.box[1] - top, mask.box[3] - top)
            words[rows, begin : begin + mask.words.shape[1]] |= mask.words
        return PackedMask(words, (left, top, right, bottom), self.shape)

    def unpacked(self) -> np.ndarray:
        """Return the mask as bool ``[height, width]``."""
        mask = np.zeros(self.shape, bool)
        _, top, right, bottom = self.box
        start = self._first_word * _WORD
        mask[top:bottom, start:right] = np.unpackbits(self.words.view(np.uint8), axis=1)[:, : right - start]
        return mask

    @property
    def _first_word(self) -> int:
        return self.box[0] // _WORD


@dataclass(frozen=True, eq=False)
class Region:
    """A part of an image that belongs together.

    Attributes:
        mask: Which pixels of the whole image are its own; ``mask.unpacked()`` is bool ``[height, width]``.
        iou: How well the model thinks that the mask fits (predicted IoU), 0 to 1; models may say a little more than 1.
        stability: IoU of the masks of a stricter and a laxer threshold, 0 to 1.
    """

    mask: PackedMask
    iou: float
    stability: float

    @classmethod
    def of(cls, mask: np.ndarray, iou: float, stability: float) -> Region:
        """Return a region whose mask is bool ``[height, width]`` of the whole image."""
        return cls(PackedMask.of(mask), iou, stability)

    @property
    def box(self) -> Box:
        """Left, top, right, bottom of its pixels, right and bottom exclusive."""
        return self.mask.box


@dataclass(frozen=True, eq=False)
class Detections:
    """Everything that a detector found: before any suppression, and above no threshold.

    Attributes:
        boxes: Left, top, right, bottom in pixels of the image, float64 ``[n, 4]``; they may reach over its edges.
        scores: How much of each phrase is in each box, 0 to 1, float64 ``[n, phrases]``.
    """

    boxes: np.ndarray
    scores: np.ndarray


class Segmenter(Model):
    """A model that finds the regions of an image."""

    @abstractmethod
    def masks(self, image: ImageHandle, *, points: np.ndarray | None = None, grid: int | None = None) -> list[Region]:
        """Return the regions of an image, or of a crop of one.

        Args:
            image: The image.
            points: Where to look, ``[n, 2]``: x and y in pixels of the image.
            grid: Points a side of an even grid; without points and grid it is the model's own.

        Returns:
            Its regions, none of them empty, in the model's order; an empty list where it finds none.

        Raises:
            UnreadableImage: The image cannot be read.
            AdapterError: Both points and grid are given, or they are none; or the model failed.
        """


class Detector(Model):
    """A model that finds what phrases name (open-vocabulary detection)."""

    @abstractmethod
    def detect(self, image: ImageHandle, phrases: Sequence[str]) -> Detections:
        """Return every box of an image with a score for each phrase; without phrases there are no boxes.

        Args:
            image: The image.
            phrases: What to look for; each is used unchanged.

        Raises:
            UnreadableImage: The image cannot be read.
            AdapterError: The model failed.
        """


class Painter(Model):
    """A model that paints images from texts."""

    @abstractmethod
    def paint(self, texts: Sequence[str], *, seed: int) -> list[ImageHandle]:
        """Return an image of each text, in order.

        Args:
            texts: Descriptions of the images.
            seed: Of its random numbers, 0 or more: a text and a seed have one image, regardless of the other texts.

        Raises:
            AdapterError: The model failed, or cannot paint one of the texts.
        """


def wanted_points(points: np.ndarray | None, grid: int | None, size: tuple[int, int]) -> np.ndarray:
    """Return the points of an image at which regions are looked for.

    Args:
        points: x and y in pixels, ``[n, 2]``; see ``Segmenter.masks``.
        grid: Points a side.
        size: Width and height of the image in pixels.

    Returns:
        x and y in pixels, float64 ``[n, 2]``; of a grid row by row, each in the middle of its cell.

    Raises:
        AdapterError: Both are given, or they are no points.
    """
    if points is not None and grid is not None:
        raise AdapterError("regions take either points or a grid, not both.", "Give one of the two.")
    if points is not None:
        array = np.asarray(points, np.float64)
        # What is not finite is inside of nothing.
        if array.ndim != 2 or array.shape[1] != 2 or not ((array >= 0) & (array < size)).all():
            raise AdapterError(
                f"points are not x and y ([n, 2]) inside of the image of {size[0]} x {size[1]} pixels.",
                "Points are x, y in pixels.",
            )
        return array
    if not isinstance(grid, int) or grid < 1:
        raise AdapterError(f"grid={grid} is not a whole number above 0.", "It is the number of points a side.")
    along = (np.arange(grid) + 0.5) / grid
    return np.stack([np.tile(along, grid) * size[0], np.repeat(along, grid) * size[1]], axis=1)
