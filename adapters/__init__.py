"""Models behind three contracts: ``Captioner``, ``Encoder``, ``Judge``."""

from __future__ import annotations

from collections.abc import Callable

from ..registry import Registry
from .contracts import Captioner, CaptionRequest, Encoder, Judge

Adapter = Captioner | Encoder | Judge

adapters: Registry[Callable[..., Adapter]] = Registry(
    "adapter",
    {"captions": "capbench.adapters.recorded:RecordedCaptions"},
    entry_points="capbench.adapters",
)

register_adapter = adapters.register

__all__ = ["Adapter", "CaptionRequest", "Captioner", "Encoder", "Judge", "adapters", "register_adapter"]
