"""Models behind three contracts: ``Captioner``, ``Encoder``, ``Judge``."""

from __future__ import annotations

from collections.abc import Callable

from ..registry import Registry
from .contracts import Caption, Captioned, Captioner, CaptionRequest, Encoded, Encoder, Judge
from .image_handles import Box, ImageHandle, VideoHandle

Adapter = Captioner | Encoder | Judge

adapters: Registry[Callable[..., Adapter]] = Registry(
    "adapter",
    {
        "captions": "capbench.adapters.recorded:RecordedCaptions",
        "hf_clip": "capbench.adapters.hf_clip:HfClipEncoder",
        "open_clip": "capbench.adapters.open_clip:OpenClipEncoder",
        "pac": "capbench.adapters.pac:PacEncoder",
    },
    entry_points="capbench.adapters",
)

register_adapter = adapters.register

__all__ = [
    "Adapter",
    "Box",
    "Caption",
    "CaptionRequest",
    "Captioned",
    "Captioner",
    "Encoded",
    "Encoder",
    "ImageHandle",
    "Judge",
    "VideoHandle",
    "adapters",
    "register_adapter",
]
