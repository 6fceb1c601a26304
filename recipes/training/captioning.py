"""The base class of captioner trainers."""

from collections.abc import Sequence
from typing import Any

import torch

from ...adapters import ImageHandle
from ...adapters.contracts import TrainableCaptioner, Writing
from ...adapters.images.reading import read_image
from ...benchmarks.api import score
from ...errors import UsageError
from .contract import Trainer, TrainingCall
from .rewards import RewardPart, require_inputs
from .rows import Batches, TrainingRow
from .schema import Positive, Strict
from .towers import ImageReader, Inputs

_MOST_KEPT = 2 << 30
"""Size of the cache of vision features in bytes."""


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


def even_piece(settings: CaptionerSettings, processes: int) -> int:
    """Return the number of images per forward pass that splits the batch evenly over processes.

    Raises:
        UsageError: None does.
    """
    piece = min(settings.piece or settings.batch, max(settings.batch // processes, 1))
    if settings.batch % (piece * processes):
        raise UsageError(
            f"objective.batch: {settings.batch} is no multiple of {piece} images at once times {processes} "
            f"{'process' if processes == 1 else 'processes'}.",
            "Set an objective.piece, or a number of processes, that divides it.",
        )
    return piece


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
        for metric in self.recipe.measure.metrics:
            part = RewardPart(metric=metric, encoder=self.recipe.measure.encoder)
            require_inputs(part, self.validation, "measure.metrics")
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

    @property
    def model(self) -> Any:
        """What is trained, with peft's factors around it."""
        return self.module if self._peft is None else self._peft

    def greedy_captions(self) -> list[str]:
        """Return what greedy search writes for this process's share of the validation rows."""
        self.module.eval()
        greedy, texts = Writing(1, False, self._shared.tokens), list[str]()
        with torch.no_grad(), self.lower():
            for piece, _ in self.pieces(self.processes.share(self.validation)):
                texts += self.trainable.texts(self.trainable.write_captions(self.inputs(piece), greedy))
        return texts

    def measured(self, texts: Sequence[str] | None = None) -> dict[str, float]:
        """Return ``measure.metrics`` of the captions that greedy search writes, over all processes.

        NaN where a metric has no value.

        Args:
            texts: ``greedy_captions``, where they are known.

        Raises:
            BenchError: A metric cannot be computed.
        """
        from accelerate.utils import gather_object

        wanted = self.recipe.measure
        if not wanted.metrics:
            return {}
        ids = [row.id for row in self.processes.share(self.validation)]
        texts = self.greedy_captions() if texts is None else texts
        written: dict[str, str] = dict(gather_object(list(zip(ids, texts, strict=True))))
        if not any(any(map(str.isalnum, text)) for text in written.values()):
            # Such as a captioner at its very beginning writes.
            return dict.fromkeys(wanted.metrics, float("nan"))
        scores = score(
            [
                {
                    "id": row.id,
                    "caption": written[row.id],
                    "references": list(row.captions),
                    "image": row.image.source if row.image.box is None else read_image(row.image).image,
                }
                for row in self.validation
            ],
            wanted.metrics,
            model=wanted.encoder,
        )
        return {name: float("nan") if value is None else value for name, value in scores.system.items()}

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
