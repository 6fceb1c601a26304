"""Reads the images of a step while the one before is computed, and encodes them and its texts, in pieces that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

import numpy as np
import torch

from ...adapters import ImageHandle
from ...adapters.images.pipeline import default_workers, read_image_with
from ...errors import DataError

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
        read = [reading[image].result() for image in images]
        failed: Mapping[int, str] = {number: one for number, one in enumerate(read) if isinstance(one, str)}
        inputs, failed = ({}, failed) if failed else self._collate([one for one in read if not isinstance(one, str)])
        for number, reason in failed.items():
            raise DataError(f"row {ids[number]}: {reason}", "Mend the image, or take the row out of the data.")
        return inputs

    def _begin(self, image: ImageHandle) -> Future[_T | str]:
        return self._threads.submit(read_image_with, self._read, image)


_HIGHEST = (2.0**4, 2.0**-2, 2.0**-8)
"""What the largest gradient of features is brought to in half precision, which ends at 65,504: the first that does."""


class Encoding:
    """The features of some inputs, and the way of their gradients back to the weights.

    Where all fit into one piece, the features keep their graph. Where they do not, they are computed without one, and
    once more piece by piece when their gradients are known: the loss is that of the whole batch all the same.
    Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup".

    Args:
        encode: Returns features ``[b, d]``.
        inputs: Of all.
        piece: Inputs at once; None takes all.
        lower: Gives what the towers compute in.
        seed: Decides what dropout leaves out, of each piece the same whenever it is computed.
    """

    def __init__(
        self,
        encode: Callable[[Inputs], torch.Tensor],
        inputs: Inputs,
        piece: int | None,
        lower: Callable[[], AbstractContextManager[object]],
        seed: Sequence[int],
    ) -> None:
        self._encode = encode
        self._lower = lower
        self._seed = seed
        count = len(next(iter(inputs.values())))
        size = piece or count
        self._pieces = [
            {name: value[start : start + size] for name, value in inputs.items()} for start in range(0, count, size)
        ]
        self._has_graph = torch.is_grad_enabled() and len(self._pieces) == 1
        with torch.set_grad_enabled(self._has_graph):
            self._made = [self._features(number) for number in range(len(self._pieces))]
        self.features = torch.cat(self._made)
        """``[n, d]`` float32."""

    def backward(self, gradient: torch.Tensor) -> None:
        """Add to the weights' gradients what follows from those of the features ``[n, d]``.

        Called again, it computes all once more.
        """
        if self._has_graph:
            self._has_graph = False
            self.features.backward(gradient)
            return
        for number, part in enumerate(gradient.split([len(one) for one in self._made])):
            self._features(number).backward(part)

    def _features(self, number: int) -> torch.Tensor:
        torch.manual_seed(seed_of(*self._seed, number))
        with self._lower():
            made = self._encode(self._pieces[number])
        return made.float()


def pass_back(
    encodings: Sequence[Encoding],
    gradients: Sequence[torch.Tensor],
    parameters: Iterable[torch.nn.Parameter],
    *,
    half: bool,
) -> None:
    """Give the weights, which have no gradients yet, those that follow from the features' gradients.

    In half precision small numbers are 0 and large ones infinite. There the features' gradients are brought to a scale
    of which both are far, and the weights' brought back from it; where one is infinite all the same, a lower scale
    follows. So the scale depends on the step alone, and is nothing to remember.

    Args:
        encodings: Of images and of texts.
        gradients: Of their features, ``[n, d]`` each.
        parameters: All that have gradients then.
        half: Whether the towers compute in half precision, whose range is small.
    """
    if not half:
        for encoding, gradient in zip(encodings, gradients, strict=True):
            encoding.backward(gradient)
        return
    weights, scale = list(parameters), 1.0
    largest = max(float(one.abs().max()) for one in gradients)
    found: list[torch.Tensor] = []
    for highest in _HIGHEST:
        for one in weights:
            one.grad = None
        scale = 2.0 ** math.floor(math.log2(highest / largest)) if 0 < largest < math.inf else 1.0
        for encoding, gradient in zip(encodings, gradients, strict=True):
            encoding.backward(gradient * scale)
        found = [one.grad for one in weights if one.grad is not None]
        if all(bool(torch.isfinite(one).all()) for one in found):
            break
    for one in found:
        one /= scale


def seed_of(*numbers: int) -> int:
    """Return a seed for torch that is another for any other numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def saved_bytes(module: torch.nn.Module, compute: Callable[[], object]) -> int:
    """Return how many bytes a computation keeps for its gradients, the module's weights not counted."""
    kept: dict[int, int] = {}
    weights = {one.untyped_storage().data_ptr() for one in module.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        found = compute()
    del found
    return sum(kept.values())
