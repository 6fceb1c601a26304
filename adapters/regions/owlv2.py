"""OWLv2 by transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .hf_detector import HfDetector

if TYPE_CHECKING:
    import torch


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

    def _seen_in(self, pixels: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        places, _ = self._model.image_embedder(**pixels)
        features = places.flatten(1, 2)
        return features, self._model.box_predictor(features, places)[0]

    def _found(self, seen: tuple[torch.Tensor, torch.Tensor], phrases: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        features, boxes = seen
        texts = self._on_device(self._processor(text=[phrases], truncation=True, return_tensors="pt"))
        both = self._model.owlv2
        asked = both.text_projection(both.text_model(**texts).pooler_output)
        asked = asked / asked.norm(dim=-1, keepdim=True)
        # A phrase that begins with the token 0 is padding to the model, and found nowhere.
        logits, _ = self._model.class_predictor(features, asked[None], texts["input_ids"][None, :, 0] > 0)
        return boxes, logits[0].sigmoid()

    def _scale(self, size: tuple[int, int]) -> tuple[int, int]:
        # It pads to a square, on the right and at the bottom.
        return max(size), max(size)
