"""Grounding DINO by transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .hf_detector import HfDetector

if TYPE_CHECKING:
    import torch


class GroundingDinoDetector(HfDetector):
    """Grounding DINO of transformers: phrases are asked for together, as ``first. second.``, in lower case.

    The score of a phrase in a box is the highest of its tokens', as sigmoids of their logits. Boxes depend on all that
    is asked for; phrases that have more tokens together than the model takes are asked for one lot after the other, and
    score 0 in the boxes of other lots. See ``HfDetector`` for the arguments.

    Source: Liu et al., Grounding DINO (2023).
    """

    kinds = ("grounding-dino", "mm-grounding-dino")
    adapter = "grounding_dino"

    @classmethod
    def _model_class(cls) -> Any:
        from transformers import AutoModelForZeroShotObjectDetection

        return AutoModelForZeroShotObjectDetection

    def _seen_in(self, pixels: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        # Image and phrases pass through the model together.
        return pixels

    def _found(self, seen: dict[str, torch.Tensor], phrases: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        tokens = [self._tokens(phrase) for phrase in phrases]
        boxes, scores = [], []
        for lot in self._lots(tokens):
            ids, places = self._asked([tokens[number] for number in lot])
            texts = {
                "input_ids": torch.tensor([ids]),
                "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
                "token_type_ids": torch.zeros(1, len(ids), dtype=torch.long),
            }
            made = self._model(**seen, **self._on_device(texts))
            of_tokens = made.logits[0].sigmoid()
            of_phrases = of_tokens.new_zeros(len(of_tokens), len(phrases))
            for number, (start, end) in zip(lot, places, strict=True):
                if start < end:
                    of_phrases[:, number] = of_tokens[:, start:end].max(dim=1).values
            boxes.append(made.pred_boxes[0])
            scores.append(of_phrases)
        return torch.cat(boxes), torch.cat(scores)

    def _tokens(self, phrase: str) -> list[int]:
        """Return the tokens of a phrase; a dot or a question mark would end it, so that these are left out."""
        plain = phrase.lower().replace(".", " ").replace("?", " ")
        ids = self._processor.tokenizer(plain, add_special_tokens=False)["input_ids"]
        return ids[: self._room - 1]

    @property
    def _room(self) -> int:
        """Tokens that all phrases may have together, with a dot behind each."""
        return self._model.config.max_text_len - 2

    def _lots(self, tokens: list[list[int]]) -> Iterator[list[int]]:
        """Yield the positions of phrases that the model takes together."""
        lot: list[int] = []
        used = 0
        for number, ids in enumerate(tokens):
            if lot and used + len(ids) + 1 > self._room:
                yield lot
                lot, used = [], 0
            lot.append(number)
            used += len(ids) + 1
        yield lot

    def _asked(self, tokens: list[list[int]]) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of phrases in one text, and where each stands in it."""
        tokenizer = self._processor.tokenizer
        (dot,) = tokenizer(".", add_special_tokens=False)["input_ids"]
        ids, places = [tokenizer.cls_token_id], []
        for one in tokens:
            places.append((len(ids), len(ids) + len(one)))
            ids += [*one, dot]
        return [*ids, tokenizer.sep_token_id], places
