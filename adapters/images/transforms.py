"""From an image to the numbers that a model takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .handles import ImageHandle
from .reading import MAX_PIXELS, UnreadableImage, read_image

if TYPE_CHECKING:
    import torch
    from PIL import Image

Framing = Literal["processor", "pad", "crop"]
"""What makes an image a square: the model's own processor if need be, or padding or a centre crop before it."""


@dataclass(frozen=True)
class PixelSpec:
    """How the pixels of an image become a model's input.

    Attributes:
        size: Pixels a side of the square that the model sees.
        resize: Whether the shorter side is brought to ``size`` and the centre cut out, or both sides are.
        interpolation: Always with antialiasing.
        mean: Of each channel, pixels counted from 0 to 1.
        std: The same.
    """

    size: int
    resize: Literal["shortest", "squash"]
    interpolation: Literal["bicubic", "bilinear"]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width after the resize, before the centre is cut out."""
        if self.resize == "squash":
            return self.size, self.size
        short = min(height, width)
        return int(self.size * height / short), int(self.size * width / short)


@dataclass(frozen=True)
class Prepared:
    """One image on its way to the model.

    Attributes:
        pixels: The transform's result so far.
        remarks: Unusual steps in reading it.
        handle: Where it is from; None for a frame of a video.
    """

    pixels: Any
    remarks: tuple[str, ...] = ()
    handle: ImageHandle | None = None


class ImageTransform(ABC):
    """Two steps: one image at a time, in worker threads or processes, and then a batch, on the device."""

    @abstractmethod
    def read(self, handle: ImageHandle) -> Prepared:
        """Read and prepare an image.

        Raises:
            UnreadableImage: It cannot be read.
        """

    @abstractmethod
    def of_frame(self, image: Image.Image) -> Prepared:
        """Prepare an image that is decoded already."""

    @abstractmethod
    def collate(self, batch: Sequence[Prepared]) -> tuple[dict[str, torch.Tensor], dict[int, str]]:
        """Put a batch of one image or more together, on the device.

        Returns:
            The model's inputs by name, a row an image that did not fail; and, by its number in the batch, the
            reason why an image did.
        """

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a pixel."""


@dataclass(frozen=True)
class ExactTransform(ImageTransform):
    """The transform of the model's library, in Python and Pillow, which block other threads.

    Args:
        transform: Makes the model's inputs of one image, by name, without a batch dimension.
        spec: Its steps, for the fingerprint.
        device: Where batches go.
        resized: Returns height and width after the resize, for images that would become too large by it.
    """

    transform: Callable[[Image.Image], Mapping[str, torch.Tensor]]
    spec: Mapping[str, Any]
    device: torch.device
    resized: Callable[[int, int], tuple[int, int]] | None = None

    @classmethod
    def of_processor(
        cls, processor: Any, device: torch.device, resized: Callable[[int, int], tuple[int, int]] | None = None
    ) -> ExactTransform:
        """Return the transform that an image processor of transformers is."""
        converts = bool(getattr(processor, "do_convert_rgb", False))

        def processed(image: Image.Image) -> dict[str, torch.Tensor]:
            outputs = processor(images=image if converts else image.convert("RGB"), return_tensors="pt")
            return {name: value[0] for name, value in outputs.items()}

        spec = {k: v for k, v in processor.to_dict().items() if isinstance(v, str | int | float | list | dict)}
        return cls(processed, spec, device, resized)

    def read(self, handle: ImageHandle) -> Prepared:
        """Read and prepare an image; see ``ImageTransform.read``."""
        read = read_image(handle)
        width, height = read.image.size
        if self.resized:
            check_ratio(handle, height, width, self.resized)
        return Prepared(self.transform(read.image), read.remarks, handle)

    def of_frame(self, image: Image.Image) -> Prepared:
        """Prepare a frame."""
        return Prepared(self.transform(image))

    def collate(self, batch: Sequence[Prepared]) -> tuple[dict[str, torch.Tensor], dict[int, str]]:
        """Put a batch together, on the device."""
        import torch

        names = batch[0].pixels
        return {name: to_device(torch.stack([img.pixels[name] for img in batch]), self.device) for name in names}, {}

    def fingerprint(self) -> dict[str, Any]:
        """Return the specification, and the version of what decodes and resizes."""
        import PIL

        return {"kind": "exact", **self.spec, "pillow": PIL.__version__}


def squared(image: Image.Image, framing: Framing, colour: tuple[int, ...] | int) -> Image.Image:
    """Return an image as a square: padded on both sides, the odd pixel behind, or its middle.

    LLaVA's ``expand2square`` (mm_utils.py) pads so, with ``int(255 * mean)`` of CLIP's mean colour.

    Args:
        image: The image, RGB.
        framing: ``pad`` or ``crop``.
        colour: Colour of what is padded.
    """
    from PIL import Image

    side = (max if framing == "pad" else min)(image.size)
    square = Image.new(image.mode, (side, side), colour)
    square.paste(image, (int((side - image.width) / 2), int((side - image.height) / 2)))
    return square


def check_ratio(handle: ImageHandle, height: int, width: int, resized: Callable[[int, int], tuple[int, int]]) -> None:
    """Raise where a long strip of an image would grow beyond all bounds when its shorter side is resized.

    Raises:
        UnreadableImage: It would.
    """
    tall, wide = resized(height, width)
    if tall * wide > MAX_PIXELS:
        raise UnreadableImage(
            f"{handle.name}: {width} x {height} pixels would be resized to {wide} x {tall}, which is too large"
        )


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on the device; where that is a GPU, it is copied while the GPU computes."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
