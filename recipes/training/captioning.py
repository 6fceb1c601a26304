"""The base class of captioner trainers, and the cross-entropy trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import torch

from ...adapters import ImageHandle
from ...adapters.contracts import TrainableCaptioner
from ...adapters.images.reading import read_image
from ...errors import DataError, UsageError
from .contract import VALIDATION_SEED, Trainer, TrainingCall
from .loop import SteppedTrainer
from .rows import Batches, BatchSampler, Rows, TrainingRow
from .schema import Positive, Strict
from .towers import ImageReader, Inputs, saved_bytes, seed_of

_MOST_KEPT = 2 << 30
"""Size of the cache of vision features in bytes."""
_S = TypeVar("_S", bound="CaptionerSettings")


class CaptionerSettings(Strict):
    """Objective settings of all captioner trainers."""

    batch: Positive
    """Images per step, over all processes."""
    piece: Positive | None = None
    """Images per forward pass; gradients are those of the whole batch."""
    prompt: str = "Describe this image in detail."
    """The prompt of models that take one."""
    tokens: Positive = 30
    """The maximum length of a caption in tokens, with the end token."""
    dropout: bool = True
    """Whether the pass with gradients uses the model's dropout."""


class CaptionerTrainer(Trainer):
    """A trainer of a captioner; see ``Trainer``.

    Args:
        call: The training call.
        settings: The objective's.

    Raises:
        BenchError: The recipe, its data or its model are invalid.
    """

    def __init__(self, call: TrainingCall, settings: CaptionerSettings) -> None:
        self._shared = settings
        super().__init__(call)
        if len(self.rows.rows) < settings.batch:
            raise UsageError(
                f"data: {len(self.rows.rows)} rows are less than a batch of {settings.batch}.",
                "Add rows, or set a smaller objective.batch.",
            )
        hint = f"Trainer '{self.recipe.trainer}' takes captioners."
        self.trainable = self.load_trainable(TrainableCaptioner, "writes no captions.", hint)
        positions = self.trainable.positions
        if positions is not None and settings.tokens > positions:
            raise UsageError(
                f"objective.tokens: {settings.tokens} exceeds the {positions} positions of '{self.name}'.",
                f"Set {positions} or fewer, or a model with more positions.",
            )
        ids = [row.id for row in self.rows.rows]
        self.batches = Batches(ids, settings.batch, "random", self.recipe.seed)
        tower = self.trainable.tower
        is_frozen = tower is not None and not any(parameter.requires_grad for parameter in tower.parameters())
        # Features of a frozen tower are computed once per image, and cached.
        self._grids = self.trainable.grids if is_frozen else None
        self._kept: dict[ImageHandle, Inputs] = {}
        self._bytes = 0
        self._reader = ImageReader(
            lambda image: read_image(image).image.convert("RGB"),
            lambda images: (self.trainable.inputs(images, settings.prompt), {}),
        )

    def pieces(
        self, rows: Sequence[TrainingRow], written: Sequence[list[int]] = ()
    ) -> list[tuple[Sequence[TrainingRow], Sequence[list[int]]]]:
        """Split rows and their captions, the same number for each row, into pieces for one forward pass each."""
        size, each = self._shared.piece or max(len(rows), 1), len(written) // max(len(rows), 1)
        starts = range(0, len(rows), size)
        return [(rows[at : at + size], written[at * each : (at + size) * each]) for at in starts]

    def inputs(self, rows: Sequence[TrainingRow]) -> Inputs:
        """Return the model's inputs for the images of rows.

        Raises:
            DataError: An image cannot be read.
        """
        with self.lower():
            if self._grids is None:
                return self._read(rows)
            missing = [row for row in rows if row.image not in self._kept]
            # One by one on a CPU, where the features of an image would otherwise depend on the batch.
            at_once = max(len(missing), 1) if self.trainable.device.type == "cuda" else 1
            new: dict[ImageHandle, Inputs] = {}
            for start in range(0, len(missing), at_once):
                part = missing[start : start + at_once]
                seen = self._grids(self._read(part))
                for number, row in enumerate(part):
                    new[row.image] = {name: value[number] for name, value in seen.items()}
            inputs = [new.get(row.image) or self._kept[row.image] for row in rows]
            for image, tensors in new.items():
                size = sum(value.nbytes for value in tensors.values())
                if self._bytes + size <= _MOST_KEPT:
                    self._bytes += size
                    self._kept[image] = {name: value.clone() for name, value in tensors.items()}
            return {name: torch.stack([row[name] for row in inputs]) for name in inputs[0]}

    def _read(self, rows: Sequence[TrainingRow]) -> Inputs:
        return self._reader.read([row.image for row in rows], [row.id for row in rows])

    def read_ahead(self, step: int) -> None:
        """Start to read the images of a step."""
        rows = self.processes.share(self.rows_of(step))
        self._reader.ask([row.image for row in rows if row.image not in self._kept])

    def learning(self, *seed: int) -> None:
        """Set the model's training mode, and seed torch for the pass."""
        self.module.train(self._shared.dropout)
        torch.manual_seed(seed_of(self.recipe.seed, *seed, self.processes.number))


class CrossEntropySettings(CaptionerSettings):
    """The objective of cross-entropy: the mean over all tokens of a batch, the end token counted."""

    pick: Literal["first", "random"] = "random"
    """Which of an image's captions a step uses."""


class CrossEntropyTrainer(CaptionerTrainer, SteppedTrainer):
    """Trains a captioner on given captions; see ``Trainer`` and ``CrossEntropySettings``.

    Source: Sarto et al. 2024 (PAC-S++), section 5.1, first stage.

    Args:
        call: The training call.

    Raises:
        BenchError: The recipe, its data or its model are invalid.
    """

    Settings = CrossEntropySettings

    def __init__(self, call: TrainingCall) -> None:
        self._settings = settings = call.loaded.settings(self.Settings)
        super().__init__(call, settings)
        self._drawing, self._fixed = (
            BatchSampler(1, settings.pick, False, False, False, "", seed)
            for seed in (self.recipe.seed, VALIDATION_SEED)
        )

    def usable(self, rows: Rows) -> Rows:
        """Return the rows with captions; see ``Trainer.usable``."""
        without = {row.id: "has no captions" for row in rows.rows if not row.captions}
        kept = [row for row in rows.rows if row.captions]
        if not kept:
            raise DataError("no row of the data has captions.", "Add captions: this trainer learns from them.")
        return Rows(kept, {**rows.left_out, **without})

    def backward(self, step: int) -> dict[str, float]:
        """Add the gradients of a step; see ``Trainer.backward``."""
        rows = self.rows_of(step)
        texts = self._drawing.draw(rows, step).texts
        own, own_texts = self.processes.share(rows), self.processes.share(texts)
        written = self._tokens(own_texts)
        (all_tokens,) = self.processes.total([sum(map(len, written))])
        loss = 0.0
        for number, (piece, these) in enumerate(self.pieces(own, written)):
            inputs = self.inputs(piece)
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
        self.module.eval()
        texts = self._fixed.draw(self.validation, None).texts
        own, written = self.processes.share(self.validation), self._tokens(self.processes.share(texts))
        total = 0.0
        for piece, these in self.pieces(own, written):
            with torch.no_grad():
                total += self._sum(self.inputs(piece), these).item()
        total, tokens = self.processes.total([total, sum(map(len, written))])
        return total / tokens

    def memory(self) -> dict[str, int]:
        """Return the memory of the pass over one piece; see ``Trainer.memory``."""
        ((piece, _), *_) = self.pieces(self.processes.share(self.rows_of(0)))
        inputs, written = self.inputs(piece), self._tokens(self._drawing.draw(piece, 0).texts)
        self.learning(0, 0)
        return {"activations": saved_bytes(self.module, lambda: self._sum(inputs, written))}

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of captions, truncated to the maximum length."""
        return [ids[: self._settings.tokens] for ids in self.trainable.tokens(texts, self._settings.prompt)]

    def _sum(self, inputs: dict[str, torch.Tensor], written: Sequence[list[int]]) -> torch.Tensor:
        with self.lower():
            return -self.trainable.log_probs(inputs, written).sum()
