"""OWLv2 by transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .hf_detector import HfDetector

if TYPE_CHECKING:
    import torch
    from PIL import Image


class Owlv2Detector(HfDetector):
    """OWLv2 of transformers: each phrase is a query of its own, as it is written (no ``a photo of``).

    A phrase is cut to the 16 tokens that the model takes. A score is the sigmoid of a box's logit for a phrase, the
    same whatever else is asked for. See ``HfDetector`` for the arguments.

    Source: Minderer et al., Scaling Open-Vocabulary Object Detection (2023).
    """

    kinds = ("owlv2",)
    adapter = "owlv2"

    @classmethod
    def _model_class(cls) -> Any:
        from transformers import Owlv2ForObjectDetection

        return Owlv2ForObjectDetection

    def _found(self, picture: Image.Image, phrases: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = self._processor(text=[phrases], images=picture, truncation=True, return_tensors="pt")
        made = self._model(**self._on_device(inputs))
        return made.pred_boxes[0], made.logits[0].sigmoid()

    def _scale(self, size: tuple[int, int]) -> tuple[int, int]:
        # It pads to a square, on the right and at the bottom.
        return max(size), max(size)
