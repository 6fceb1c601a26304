"""Models behind three contracts: ``Captioner``, ``Encoder``, ``Judge``."""

from __future__ import annotations

from collections.abc import Callable

from ..registry import Registry
from .contracts import (
    Caption,
    Captioned,
    Captioner,
    CaptionRequest,
    Encoded,
    Encoder,
    Judge,
    Judged,
    Judgement,
    JudgeRequest,
    JudgeToken,
)
from .image_handles import Box, EncodedImage, FrameSource, ImageHandle, VideoHandle

Adapter = Captioner | Encoder | Judge

adapters: Registry[Callable[..., Adapter]] = Registry(
    "adapter",
    {
        "captions": "capbench.adapters.recorded:RecordedCaptions",
        "hf": "capbench.adapters.hf:HfCaptioner",
        "hf_clip": "capbench.adapters.hf_clip:HfClipEncoder",
        "hf_judge": "capbench.adapters.hf_judge:HfJudge",
        "lmms": "capbench.adapters.lmms:LmmsCaptioner",
        "open_clip": "capbench.adapters.open_clip:OpenClipEncoder",
        "openai": "capbench.adapters.openai:OpenAICaptioner",
        "openai_judge": "capbench.adapters.openai:OpenAIJudge",
        "pac": "capbench.adapters.pac:PacEncoder",
        "responses": "capbench.adapters.responses:RecordedResponses",
        "vllm": "capbench.adapters.vllm:VllmCaptioner",
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
    "EncodedImage",
    "Encoder",
    "FrameSource",
    "ImageHandle",
    "Judge",
    "JudgeRequest",
    "JudgeToken",
    "Judged",
    "Judgement",
    "VideoHandle",
    "adapters",
    "register_adapter",
]
