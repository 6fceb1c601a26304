"""The transform of open_clip, which for CLIP is OpenAI's own; and the fast one that stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError
from ..images.transforms import ExactTransform, ImageTransform, PixelSpec

if TYPE_CHECKING:
    import torch
    from PIL import Image


def open_clip_transform(configuration: Mapping[str, Any], kind: str, device: torch.device) -> ImageTransform:
    """Return open_clip's transform, which for CLIP is OpenAI's, or the fast one that stands for it.

    Args:
        configuration: The fields of open_clip's ``PreprocessCfg``.
        kind: ``exact`` or ``fast``.
        device: Where batches go.

    Raises:
        AdapterError: There is no fast transform for this specification.
    """
    from open_clip.transform import PreprocessCfg, image_transform_v2

    preprocess = PreprocessCfg(**configuration)
    spec = _pixel_spec(preprocess)
    if kind == "fast":
        from ..images.fast_transform import FastTransform

        if spec is None:
            raise AdapterError(
                f"transform=fast cannot do resize_mode '{preprocess.resize_mode}' to {preprocess.size}.",
                "Set transform=exact.",
            )
        return FastTransform(spec, device)
    transform: Any = image_transform_v2(preprocess, is_train=False)

    def pixel_values(image: Image.Image) -> dict[str, torch.Tensor]:
        return {"pixel_values": transform(image)}

    return ExactTransform(pixel_values, asdict(preprocess), device, spec.resized if spec else None)


def _pixel_spec(preprocess: Any) -> PixelSpec | None:
    size = preprocess.size if isinstance(preprocess.size, tuple | list) else (preprocess.size,) * 2
    if size[0] != size[1] or preprocess.resize_mode not in ("shortest", "squash"):
        return None
    interpolation = "bilinear" if preprocess.interpolation == "bilinear" else "bicubic"
    return PixelSpec(size[0], preprocess.resize_mode, interpolation, tuple(preprocess.mean), tuple(preprocess.std))
