"""The transform that an image processor of transformers is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..pixels.transforms import ExactTransform

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from PIL import Image


@dataclass(frozen=True)
class _Processed:
    """Gives what an image processor of transformers makes of one image; it can be pickled."""

    processor: Any

    def __call__(self, image: Image.Image) -> dict[str, torch.Tensor]:
        converts = bool(getattr(self.processor, "do_convert_rgb", False))
        made = self.processor(images=image if converts else image.convert("RGB"), return_tensors="pt")
        return {name: value[0] for name, value in made.items()}


def processed(
    processor: Any, device: torch.device, resized: Callable[[int, int], tuple[int, int]] | None = None
) -> ExactTransform:
    """Return the transform of a model's own image processor.

    Args:
        processor: Of transformers.
        device: Where batches go.
        resized: As of ``ExactTransform``.
    """
    spec = {k: v for k, v in processor.to_dict().items() if isinstance(v, str | int | float | list | dict)}
    return ExactTransform(_Processed(processor), spec, device, resized)
