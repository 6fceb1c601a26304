"""The contracts of recipes that make data: what finds regions, what finds phrases, what paints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..contracts import Model
from ..pixels.handles import Box, ImageHandle

if TYPE_CHECKING:
    import numpy as np

    from .packed_masks import PackedMask


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
        from .packed_masks import PackedMask

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


class Segmenter(Model, ABC):
    """A model that finds the regions of an image."""

    name: str
    """How results call it."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a region: checkpoint, thresholds, dtype, versions."""

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


class Detector(Model, ABC):
    """A model that finds what phrases name (open-vocabulary detection)."""

    name: str
    """How results call it."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a box or a score: checkpoint, dtype, versions."""

    @abstractmethod
    def detect(self, image: ImageHandle, phrases: Sequence[str]) -> Detections:
        """Return every box of an image with a score for each phrase; without phrases there are no boxes.

        Args:
            image: The image.
            phrases: What to look for; each is asked for as it is written.

        Raises:
            UnreadableImage: The image cannot be read.
            AdapterError: The model failed.
        """


class Painter(Model, ABC):
    """A model that paints images from texts."""

    name: str
    """How results call it."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change an image: checkpoint, settings, versions."""

    @abstractmethod
    def paint(self, texts: Sequence[str], *, seed: int) -> list[ImageHandle]:
        """Return an image of each text, in order.

        Args:
            texts: What the images should show.
            seed: Of its random numbers, 0 or more: a text and a seed have one image, whatever else is asked for.

        Raises:
            AdapterError: The model failed, or cannot paint one of the texts.
        """
