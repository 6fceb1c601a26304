"""Entries: crops of images with the texts that are held against them."""

from __future__ import annotations

from dataclasses import dataclass

from ....adapters import ImageHandle


@dataclass(frozen=True)
class Entry:
    """A crop, or a whole image, with the texts that are held against it.

    Attributes:
        id: Its name in messages and records.
        image: Id of its document, which is one image.
        pixels: The crop.
        captions: Those that are used.
        negatives: Empty where the task does not ask for them.
    """

    id: str
    image: str
    pixels: ImageHandle
    captions: tuple[str, ...]
    negatives: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """Captions, then negatives."""
        return self.captions + self.negatives
