"""Models behind contracts: ``Captioner``, ``Encoder``, ``Judge``; of recipes also ``Segmenter`` and others."""

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
    PairwiseEncoder,
    ScoredPairs,
)
from .images.handles import Box, EncodedImage, FrameSampling, FrameSource, ImageHandle, VideoHandle
from .regions.contracts import Detections, Detector, Painter, Region, Segmenter

Adapter = Captioner | Encoder | Judge | Segmenter | Detector | Painter

adapters: Registry[Callable[..., Adapter]] = Registry(
    "adapter",
    {
        "blip_itm": "capbench.adapters.encoders.hf_pairs:BlipItm",
        "captions": "capbench.adapters.captioners.recorded:RecordedCaptions",
        "data_captions": "capbench.adapters.captioners.from_data:DataCaptions",
        "diffusion": "capbench.adapters.regions.diffusion:DiffusionPainter",
        "flava": "capbench.adapters.encoders.hf_pairs:Flava",
        "grounding_dino": "capbench.adapters.regions.detectors:GroundingDinoDetector",
        "hf": "capbench.adapters.captioners.hf:HfCaptioner",
        "hf_clip": "capbench.adapters.encoders.hf_clip:HfClipEncoder",
        "hf_judge": "capbench.adapters.judges.hf_judge:HfJudge",
        "lmms": "capbench.adapters.captioners.lmms:LmmsCaptioner",
        "open_clip": "capbench.adapters.encoders.open_clip:OpenClipEncoder",
        "openai": "capbench.adapters.chat.openai:OpenAICaptioner",
        "openai_judge": "capbench.adapters.chat.openai:OpenAIJudge",
        "owlv2": "capbench.adapters.regions.detectors:Owlv2Detector",
        "pac": "capbench.adapters.encoders.pac:PacEncoder",
        "pair_scores": "capbench.adapters.encoders.pair_scores:RecordedPairs",
        "responses": "capbench.adapters.judges.responses:RecordedResponses",
        "sam": "capbench.adapters.regions.sam:SamSegmenter",
        "sentences": "capbench.adapters.encoders.sentences:SentenceEncoder",
        "shapes_detector": "capbench.adapters.shapes.regions:ShapesDetector",
        "shapes_painter": "capbench.adapters.shapes.painter:ShapesPainter",
        "shapes_planted": "capbench.adapters.shapes.planted:PlantedCaptioner",
        "shapes_segmenter": "capbench.adapters.shapes.regions:ShapesSegmenter",
        "shapes_writer": "capbench.adapters.shapes.writer:ShapesWriter",
        "vllm": "capbench.adapters.captioners.vllm:VllmCaptioner",
    },
    entry_points="capbench.adapters",
)

register_adapter = adapters.register
"""A decorator that registers an adapter: ``@capbench.register_adapter("parrot")`` above its class.

Raises:
    UsageError: The name is taken.
"""

__all__ = [
    "Adapter",
    "Box",
    "Caption",
    "CaptionRequest",
    "Captioned",
    "Captioner",
    "Detections",
    "Detector",
    "Encoded",
    "EncodedImage",
    "Encoder",
    "FrameSampling",
    "FrameSource",
    "ImageHandle",
    "Judge",
    "JudgeRequest",
    "JudgeToken",
    "Judged",
    "Judgement",
    "Painter",
    "PairwiseEncoder",
    "Region",
    "ScoredPairs",
    "Segmenter",
    "VideoHandle",
    "adapters",
    "register_adapter",
]
