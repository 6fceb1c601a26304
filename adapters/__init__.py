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
from .pixels.handles import Box, EncodedImage, FrameSource, ImageHandle, VideoHandle

Adapter = Captioner | Encoder | Judge

adapters: Registry[Callable[..., Adapter]] = Registry(
    "adapter",
    {
        "captions": "capbench.adapters.captioners.recorded:RecordedCaptions",
        "hf": "capbench.adapters.captioners.hf:HfCaptioner",
        "hf_clip": "capbench.adapters.encoders.hf_clip:HfClipEncoder",
        "hf_judge": "capbench.adapters.judges.hf_judge:HfJudge",
        "lmms": "capbench.adapters.captioners.lmms:LmmsCaptioner",
        "open_clip": "capbench.adapters.encoders.open_clip:OpenClipEncoder",
        "openai": "capbench.adapters.chat.openai:OpenAICaptioner",
        "openai_judge": "capbench.adapters.chat.openai:OpenAIJudge",
        "pac": "capbench.adapters.encoders.pac:PacEncoder",
        "responses": "capbench.adapters.judges.responses:RecordedResponses",
        "vllm": "capbench.adapters.captioners.vllm:VllmCaptioner",
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
