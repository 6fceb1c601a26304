"""Prefetches the images of a step, and encodes images and texts in pieces."""

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
    """Reads images in threads, with prefetching, and makes a model's inputs.

    Args:
        read: Reads an image.
        collate: Makes the inputs of one or more read images; also returns position to reason, of unusable ones.
    """

    def __init__(
        self, read: Callable[[ImageHandle], _T], collate: Callable[[Sequence[_T]], tuple[Inputs, Mapping[int, str]]]
    ) -> None:
        self._read = read
        self._collate = collate
        self._threads = ThreadPoolExecutor(default_workers(), thread_name_prefix="read image")
        self._ahead: dict[ImageHandle, Future[_T | str]] = {}

    def ask(self, images: Sequence[ImageHandle]) -> None:
        """Start to read the next images; earlier requests for other images are dropped."""
        self._ahead = {image: self._ahead.get(image) or self._begin(image) for image in images}

    def read(self, images: Sequence[ImageHandle], ids: Sequence[str]) -> Inputs:
        """Return the model's inputs for images.

        Raises:
            DataError: An image cannot be read; names the row.
        """
        reading = {image: self._ahead.pop(image, None) or self._begin(image) for image in dict.fromkeys(images)}
        read = [reading[image].result() for image in images]
        failed: Mapping[int, str] = {number: reason for number, reason in enumerate(read) if isinstance(reason, str)}
        inputs, failed = ({}, failed) if failed else self._collate([img for img in read if not isinstance(img, str)])
        for number, reason in failed.items():
            raise DataError(f"row {ids[number]}: {reason}", "Repair the image, or remove the row from the data.")
        return inputs

    def _begin(self, image: ImageHandle) -> Future[_T | str]:
        return self._threads.submit(read_image_with, self._read, image)


_HIGHEST = (2.0**4, 2.0**-2, 2.0**-8)
"""Targets of the largest feature gradient in half precision (maximum 65,504); the first without overflow is used."""


class Encoding:
    """The features of inputs, with back-propagation of their gradients to the weights.

    A single piece keeps its graph. Several pieces are computed without a graph, and again piece by piece when their
    gradients are known (gradient caching): the loss is that of the whole batch.
    Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup".

    Args:
        encode: Returns features ``[b, d]``.
        inputs: All inputs.
        piece: Inputs per forward pass; None takes all.
        lower: Returns the autocast context of the towers.
        seed: Seed of dropout, so that each piece drops the same units in both passes.
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
        """``[n, d]`` float32; float64 of a model in it."""

    def backward(self, gradient: torch.Tensor) -> None:
        """Back-propagate the features' gradients ``[n, d]`` to the weights.

        A second call computes all features again.
        """
        if self._has_graph:
            self._has_graph = False
            self.features.backward(gradient)
            return
        for number, part in enumerate(gradient.split([len(piece) for piece in self._made])):
            self._features(number).backward(part)

    def _features(self, number: int) -> torch.Tensor:
        torch.manual_seed(seed_of(*self._seed, number))
        with self._lower():
            features = self._encode(self._pieces[number])
        return features.to(torch.promote_types(features.dtype, torch.float32))


def pass_back(
    encodings: Sequence[Encoding],
    gradients: Sequence[torch.Tensor],
    parameters: Iterable[torch.nn.Parameter],
    *,
    half: bool,
) -> None:
    """Back-propagate the features' gradients to weights without gradients.

    Half precision underflows and overflows. There the features' gradients are scaled, and the weights' gradients
    scaled back; on overflow a lower scale is tried. The scale depends on the step only and needs no state.

    Args:
        encodings: Encodings of images and of texts.
        gradients: Gradients of their features, ``[n, d]`` each.
        parameters: All trainable parameters.
        half: Whether the towers compute in half precision.
    """
    weights, scale, scaled = list(parameters), 1.0, list[torch.Tensor]()
    largest = max(float(gradient.abs().max()) for gradient in gradients)
    for highest in _HIGHEST:
        for tensor in weights:
            tensor.grad = None
        if half and 0 < largest < math.inf:
            scale = 2.0 ** math.floor(math.log2(highest / largest))
        for encoding, gradient in zip(encodings, gradients, strict=True):
            encoding.backward(gradient * scale)
        scaled = [weight.grad for weight in weights if weight.grad is not None]
        if not half or all(bool(torch.isfinite(grad).all()) for grad in scaled):
            break
    for tensor in scaled:
        tensor /= scale


def seed_of(*numbers: int) -> int:
    """Return a torch seed derived from numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def saved_bytes(module: torch.nn.Module, compute: Callable[[], object]) -> int:
    """Return the bytes that a computation saves for its gradients, without the module's weights."""
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = compute()
    del result
    return sum(kept.values())
