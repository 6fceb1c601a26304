"""The cross-entropy trainer: a captioner learns to write the captions of its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ...errors import UsageError
from .captioning import VALIDATION_SEED, CaptionerSettings, CaptionerTrainer
from .contract import TrainingCall
from .drawing import BatchSampler
from .rows import TrainingRow
from .towers import saved_bytes

if TYPE_CHECKING:
    import torch


class CrossEntropySettings(CaptionerSettings):
    """The objective of cross-entropy: the mean over all tokens of a batch, the end token counted."""

    pick: Literal["first", "random"] = "random"
    """Which of an image's captions a step looks at."""


class CrossEntropyTrainer(CaptionerTrainer):
    """Trains a captioner by captions that are given; see ``Trainer`` and ``CrossEntropySettings``.

    Source: Sarto et al. 2024 (PAC-S++), section 5.1, first stage.

    Args:
        call: What is to be done.

    Raises:
        BenchError: The recipe, its data or its model do not do.
    """

    Settings = CrossEntropySettings

    def __init__(self, call: TrainingCall) -> None:
        self._settings = settings = call.loaded.settings(CrossEntropySettings)
        super().__init__(call, settings, needs_captions=True)
        self._drawing, self._fixed = (
            BatchSampler(1, settings.pick, False, False, False, "", seed)
            for seed in (self.recipe.seed, VALIDATION_SEED)
        )

    def backward(self, step: int) -> dict[str, float]:
        """Add the gradients of a step; see ``Trainer.backward``."""
        rows = self.rows_of(step)
        texts = self._drawing.draw(rows, step).texts
        own, own_texts = self.processes.share(rows), self.processes.share(texts)
        written = self._tokens(own_texts)
        (all_tokens,) = self.processes.total([sum(map(len, written))])
        loss, start = 0.0, 0
        for number, piece in enumerate(self.pieces(own)):
            inputs, these = self.inputs(piece), written[start : start + len(piece)]
            start += len(piece)
            self.learning(step, number)
            part = self._sum(inputs, these) / all_tokens
            part.backward()
            loss += part.item()
        self.read_ahead(step + 1)
        self.processes.add_up(self.parameters.values())
        (loss,) = self.processes.total([loss])
        return {"loss": loss}

    def validate(self) -> float:
        """Return the mean over all tokens of the validation captions; see ``Trainer.validate``."""
        import torch

        if not self.validation:
            raise UsageError("data: there is no 'validation'.")
        self.module.eval()
        texts = self._fixed.draw(self.validation, None).texts
        own, written = self.processes.share(self.validation), self._tokens(self.processes.share(texts))
        total, start = 0.0, 0
        for piece in self.pieces(own):
            with torch.no_grad():
                total += self._sum(self.inputs(piece), written[start : start + len(piece)]).item()
            start += len(piece)
        total, tokens = self.processes.total([total, sum(map(len, written))])
        return total / tokens

    def memory(self) -> dict[str, int]:
        """Return what the pass over one piece keeps; see ``Trainer.memory``."""
        (piece, *_) = self.pieces(self.processes.share(self.rows_of(0)))
        inputs, written = self.inputs(piece), self._tokens(self._texts_of(piece))
        self.learning(0, 0)
        return {"activations": saved_bytes(self.module, lambda: self._sum(inputs, written))}

    def _texts_of(self, rows: Sequence[TrainingRow]) -> Sequence[str]:
        return self._drawing.draw(rows, 0).texts

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of captions, each cut to the most that there may be."""
        return [ids[: self._settings.tokens] for ids in self.lent.tokens(texts, self._settings.prompt)]

    def _sum(self, inputs: dict[str, torch.Tensor], written: Sequence[list[int]]) -> torch.Tensor:
        with self.lower():
            return -self.lent.log_probs(inputs, written).sum()
