"""The base class of captioner trainers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch

from ...adapters import ImageHandle
from ...adapters.contracts import TrainableCaptioner
from ...adapters.images.reading import read_image
from ...errors import UsageError
from .contract import Trainer, TrainingCall
from .rows import Batches, TrainingRow
from .schema import Positive, Strict
from .towers import ImageReader, Inputs

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

    def read_ahead(self, rows: Sequence[TrainingRow]) -> None:
        """Start to read the images of rows."""
        self._reader.ask([row.image for row in rows if row.image not in self._kept])
