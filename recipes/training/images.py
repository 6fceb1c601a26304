"""Reads the images of a step, while the one before is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

from ...adapters import ImageHandle
from ...adapters.pixels.pipeline import default_workers, read_image_with
from ...errors import DataError

if TYPE_CHECKING:
    import torch

Inputs = dict[str, "torch.Tensor"]
_T = TypeVar("_T")


class ImageReader(Generic[_T]):
    """Makes a model's inputs of images, which threads read; those of the next step may be asked for beforehand.

    Args:
        read: Reads an image.
        collate: Makes inputs of what was read of one image or more; says of places why nothing can be made of them.
    """

    def __init__(
        self, read: Callable[[ImageHandle], _T], collate: Callable[[Sequence[_T]], tuple[Inputs, Mapping[int, str]]]
    ) -> None:
        self._read = read
        self._collate = collate
        self._threads = ThreadPoolExecutor(default_workers(), thread_name_prefix="read image")
        self._ahead: dict[ImageHandle, Future[_T | str]] = {}

    def ask(self, images: Sequence[ImageHandle]) -> None:
        """Begin to read images that will be needed next; others that were asked for before are forgotten."""
        self._ahead = {image: self._ahead.get(image) or self._begin(image) for image in images}

    def read(self, images: Sequence[ImageHandle], ids: Sequence[str]) -> Inputs:
        """Return the model's inputs for images.

        Raises:
            DataError: One cannot be read; it is named with its row's id.
        """
        reading = {image: self._ahead.pop(image, None) or self._begin(image) for image in dict.fromkeys(images)}
        found: list[_T] = []
        for image, identity in zip(images, ids, strict=True):
            one = reading[image].result()
            if isinstance(one, str):
                raise _unreadable(identity, one)
            found.append(one)
        inputs, failed = self._collate(found)
        for number, reason in failed.items():
            raise _unreadable(ids[number], reason)
        return inputs

    def _begin(self, image: ImageHandle) -> Future[_T | str]:
        return self._threads.submit(read_image_with, self._read, image)


def _unreadable(identity: str, reason: str) -> DataError:
    return DataError(f"row {identity}: {reason}", "Mend the image, or take the row out of the data.")
