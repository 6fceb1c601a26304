"""A faster way from an image to a model's input: torchcodec's JPEG decoders, and a resize in torch."""

from __future__ import annotations

import importlib
import io
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ...batches import grouped
from ...errors import AdapterError
from .handles import ImageHandle
from .jpeg_header import plain_jpeg
from .reading import UnreadableImage, check_size, crop_of, is_fill, orientation_remarks, read_bytes, read_image
from .transforms import ImageTransform, PixelSpec, Prepared, check_ratio, to_device

if TYPE_CHECKING:
    import torch
    from PIL import Image

_PIXELS_AT_ONCE = 1 << 26
"""Pixels that a GPU holds decoded at a time: 0.2 GB, and four times that while they are resized."""


@dataclass(frozen=True)
class _Encoded:
    """A JPEG file to decode, without its orientation.

    Attributes:
        data: Its bytes, uint8.
        size: Height and width.
        crop: Left, top, right, bottom; None for the whole.
    """

    data: torch.Tensor
    size: tuple[int, int]
    crop: tuple[int, int, int, int] | None


class FastTransform(ImageTransform):
    """Decodes JPEG by torchcodec, on a GPU in batches by nvJPEG, and resizes in torch.

    On a CPU pixels are decoded to what Pillow makes of them, and differ from the exact transform's by a rounding of
    the resize; on a GPU by a little more, since its decoder interpolates colours in its own way. What is no plain JPEG
    is decoded by Pillow, and made RGB before the resize.

    Args:
        spec: The transform of the pixels.
        device: Where batches go. On a GPU for which torchcodec has no decoder, the CPU decodes, with a warning.

    Raises:
        AdapterError: torchcodec is not installed, or does not go with torch.
    """

    def __init__(self, spec: PixelSpec, device: torch.device) -> None:
        _require_torchcodec()
        self._spec = spec
        self._device = device
        self._decodes_on_gpu = device.type == "cuda" and _gpu_decodes(device)

    def read(self, handle: ImageHandle) -> Prepared:
        """Read and prepare an image; images that the GPU decodes stay encoded."""
        import torch

        encoded = read_bytes(handle)
        header = plain_jpeg(encoded)
        if header is None:
            return self._read_by_pillow(handle, encoded)
        check_size(handle, header.width, header.height)
        remarks = orientation_remarks(encoded) if header.has_exif else ()
        size, crop = (header.height, header.width), None
        if handle.box is not None:
            crop, remark = crop_of(handle, handle.box, header.width, header.height)
            remarks = (*remarks, remark) if remark else remarks
            size = (crop[3] - crop[1], crop[2] - crop[0])
        check_ratio(handle, *size, self._spec.resized)
        jpeg = _Encoded(
            torch.frombuffer(bytearray(header.unturned), dtype=torch.uint8), (header.height, header.width), crop
        )
        if self._decodes_on_gpu:
            return Prepared(jpeg, remarks, handle)
        try:
            (decoded,) = _decode([jpeg], torch.device("cpu"))
        except RuntimeError:
            decoded = None
        if decoded is None:
            # A damaged file: Pillow says what is wrong with it, or reads it after all.
            return self._read_by_pillow(handle, encoded)
        return Prepared(self._fitted(decoded[None])[0], remarks, handle)

    def of_frame(self, image: Image.Image) -> Prepared:
        """Prepare a frame."""
        return Prepared(self._fitted(_tensor_of(image)[None])[0])

    def collate(self, batch: Sequence[Prepared]) -> tuple[dict[str, torch.Tensor], dict[int, str]]:
        """Decode the images that are still encoded, and build the batch on the device."""
        import torch

        if self._device.type != "cuda":
            return self._normalized([image.pixels for image in batch]), {}
        # On a separate stream, so that the decoder does not wait for the model.
        stream = torch.cuda.Stream(self._device)
        with torch.cuda.stream(stream):
            decoded, failures = self._decoded_on_gpu(batch)
            inputs = self._normalized([decoded[n] for n in range(len(batch)) if n in decoded])
            stream.synchronize()
        return inputs, failures

    def fingerprint(self) -> dict[str, Any]:
        """Return the specification, and the versions of what decodes and resizes."""
        import PIL

        decoder = "nvjpeg" if self._decodes_on_gpu else "libjpeg"
        versions = {"pillow": PIL.__version__, "torchcodec": _require_torchcodec()}
        return {"kind": "fast", "decoder": decoder, **asdict(self._spec), **versions}

    def _read_by_pillow(self, handle: ImageHandle, encoded: bytes) -> Prepared:
        read = read_image(handle, encoded)
        width, height = read.image.size
        check_ratio(handle, height, width, self._spec.resized)
        return Prepared(self._fitted(_tensor_of(read.image)[None])[0], read.remarks, handle)

    def _decoded_on_gpu(self, batch: Sequence[Prepared]) -> tuple[dict[int, torch.Tensor], dict[int, str]]:
        import torch

        encoded = {n: image.pixels for n, image in enumerate(batch) if isinstance(image.pixels, _Encoded)}
        pixels = {n: to_device(image.pixels, self._device) for n, image in enumerate(batch) if n not in encoded}
        failures: dict[int, str] = {}
        areas = {n: image.size[0] * image.size[1] for n, image in encoded.items()}
        for piece in grouped(areas, areas.__getitem__, _PIXELS_AT_ONCE):
            try:
                decoded = _decode([batch[n].pixels for n in piece], self._device)
            except RuntimeError:
                # Fails as a whole where nvJPEG cannot read one of them.
                decoded = [None] * len(piece)
            # Few sizes are common among photographs: those of one size are resized together.
            groups: dict[tuple[int, ...], dict[int, torch.Tensor]] = {}
            for number, image in zip(piece, decoded, strict=True):
                if image is not None:
                    groups.setdefault(tuple(image.shape), {})[number] = image
                    continue
                try:
                    handle: Any = batch[number].handle
                    pixels[number] = self._read_by_pillow(handle, read_bytes(handle)).pixels.to(self._device)
                except UnreadableImage as error:
                    failures[number] = str(error)
            for group in groups.values():
                pixels |= zip(group, self._fitted(torch.stack(list(group.values()))), strict=True)
        return pixels, failures

    def _fitted(self, images: torch.Tensor) -> torch.Tensor:
        """Return images ``[b, 3, size, size]`` of images ``[b, 3, h, w]``; uint8."""
        import torch
        from torch.nn.functional import interpolate
        from torchvision.transforms.functional import center_crop

        height, width = images.shape[-2:]
        target = self._spec.resized(height, width)
        if target != (height, width):
            # On a CPU torch resizes bytes as they are; on a GPU only floats.
            source = images.float() if images.is_cuda else images
            images = interpolate(
                source, size=target, mode=self._spec.interpolation, align_corners=False, antialias=True
            )
            images = images.round().clamp(0, 255).to(torch.uint8)
        return center_crop(images, [self._spec.size, self._spec.size])

    def _normalized(self, images: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        import torch

        if not images:
            return {}
        stacked = torch.stack(list(images))
        pixels = stacked if stacked.is_cuda else to_device(stacked, self._device)
        mean, std = (
            torch.tensor(values, device=self._device)[:, None, None] * 255
            for values in (self._spec.mean, self._spec.std)
        )
        return {"pixel_values": (pixels.float() - mean) / std}


def _decode(images: Sequence[_Encoded], device: torch.device) -> list[torch.Tensor | None]:
    """Return images ``[3, h, w]``, uint8, on the device; None for one that may be truncated, which Pillow decides.

    Raises:
        RuntimeError: One of them cannot be decoded.
    """
    import torch
    from torchcodec.decoders import decode_jpeg

    decoded = decode_jpeg([image.data for image in images], mode="RGB", device=device)
    last_pixels = torch.stack([image[:, -1, -1] for image in decoded]).tolist()
    return [
        None if is_fill(last) else image[:, jpg.crop[1] : jpg.crop[3], jpg.crop[0] : jpg.crop[2]] if jpg.crop else image
        for jpg, image, last in zip(images, decoded, last_pixels, strict=True)
    ]


def _tensor_of(image: Image.Image) -> torch.Tensor:
    """Return an image as ``[3, h, w]``, uint8."""
    import numpy as np
    import torch

    return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1).contiguous()


@cache
def _require_torchcodec() -> str:
    """Return torchcodec's version.

    Raises:
        AdapterError: It is not installed, or was built for another version of torch.
    """
    try:
        codec = importlib.import_module("torchcodec")
    except (ImportError, OSError, RuntimeError) as error:
        raise AdapterError(
            f"transform=fast needs torchcodec, which cannot be loaded: {str(error).partition(chr(10))[0]}",
            "pip install torchcodec, in the version that goes with the torch that is installed; "
            "or leave it out: transform=exact needs none.",
        ) from error
    return codec.__version__.partition("+")[0]


@cache
def _gpu_decodes(device: torch.device) -> bool:
    """Return whether a GPU can decode JPEG: torchcodec is also built without that."""
    import torch
    from PIL import Image

    encoded = io.BytesIO()
    Image.new("RGB", (16, 16)).save(encoded, "JPEG")
    probe = _Encoded(torch.frombuffer(bytearray(encoded.getvalue()), dtype=torch.uint8), (16, 16), None)
    try:
        _decode([probe], device)
    except RuntimeError as error:
        logging.getLogger(__name__).warning(
            "torchcodec cannot decode JPEG on %s, so the CPU does, more slowly: %s",
            device,
            str(error).partition("\n")[0],
        )
        return False
    return True
