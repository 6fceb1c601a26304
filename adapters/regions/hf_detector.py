"""What detectors of transformers share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...hub import unreachable
from ..devices import PRECISIONS, find_device, require_dtype, torch_dtype
from ..hf_checkpoint import find_source, load_part
from ..pixels.handles import Box, ImageHandle
from ..pixels.reading import read_bytes, read_image
from .contracts import Detections, Detector
from .hf_models import load_whole, preparing, require_kind, versions

if TYPE_CHECKING:
    import torch


class HfDetector(Detector):
    """A detector of transformers; a subclass says which, and what it makes of an image and phrases.

    Args:
        pretrained: A hub id, or a folder that ``save_pretrained`` wrote.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or is of another kind.
    """

    kinds: ClassVar[tuple[str, ...]]
    """Kinds of checkpoints that it takes, as their configurations call them."""
    adapter: ClassVar[str]
    """Its own name."""

    def __init__(
        self,
        pretrained: str,
        revision: str | None = None,
        dtype: str = "fp32",
        device: str | None = None,
        name: str | None = None,
    ) -> None:
        from transformers import AutoProcessor

        require_dtype(dtype, PRECISIONS)
        self.name = name or pretrained
        self._dtype, self._device = dtype, find_device(device)
        self._source = find_source(str(pretrained), revision)
        require_kind(self._source, self.kinds, "find what phrases name")
        self._model = load_whole(self._source, self._model_class(), torch_dtype(dtype)).to(self._device)
        self._processor: Any = load_part(AutoProcessor, self._source, "processor")
        self._seen: tuple[tuple[bytes, Box | None], tuple[int, int], Any] | None = None

    @classmethod
    def check(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if it is nowhere on this machine, and the hub does not answer; see ``Model.check``."""
        if unreachable():
            find_source(str(arguments["pretrained"]), arguments.get("revision"))

    def fingerprint(self) -> dict[str, Any]:
        """Return the weights and all that was done with them."""
        return {
            "adapter": self.adapter,
            "checkpoint": self._source.checkpoint(),
            "model": type(self._model).__name__,
            "dtype": self._dtype,
            **versions(),
        }

    def detect(self, image: ImageHandle, phrases: Sequence[str]) -> Detections:
        """Return every box of an image with a score for each phrase; see ``Detector.detect``.

        An image that is asked about again before another one is not looked at anew.
        """
        import numpy as np
        import torch

        with torch.inference_mode():
            size, seen = self._look(image)
            if not phrases:
                return Detections(np.zeros((0, 4)), np.zeros((0, 0)))
            centred, scores = self._found(seen, list(phrases))
        x, y, width, height = centred.double().unbind(-1)
        across, down = self._scale(size)
        edges = ((x - width / 2) * across, (y - height / 2) * down, (x + width / 2) * across, (y + height / 2) * down)
        return Detections(torch.stack(edges, dim=-1).cpu().numpy(), scores.double().cpu().numpy())

    @classmethod
    @abstractmethod
    def _model_class(cls) -> Any:
        """Return the class of transformers."""

    def _look(self, image: ImageHandle) -> tuple[tuple[int, int], Any]:
        """Return width and height of an image in pixels, and what the model makes of it whatever is asked for."""
        encoded = read_bytes(image)
        if self._seen is None or self._seen[0] != (encoded, image.box):
            picture = read_image(image, encoded).image.convert("RGB")
            with preparing(image):
                pixels = self._processor.image_processor(images=picture, return_tensors="pt")
            self._seen = ((encoded, image.box), picture.size, self._seen_in(self._on_device(pixels)))
        return self._seen[1:]

    @abstractmethod
    def _seen_in(self, pixels: dict[str, torch.Tensor]) -> Any:
        """Return what the model makes of a picture before it knows what is asked for."""

    @abstractmethod
    def _found(self, seen: Any, phrases: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return boxes as centre, width and height in shares of the model's picture, and a score for each phrase."""

    def _scale(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return width and height in pixels of what the model takes for the picture."""
        return size

    def _on_device(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        dtype = torch_dtype(self._dtype)
        return {
            name: value.to(self._device, dtype if value.is_floating_point() else None) for name, value in inputs.items()
        }
