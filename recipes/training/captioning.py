"""What both trainers of captioners share: the model, its inputs, and a step in pieces that fit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ...adapters import ImageHandle
from ...adapters.lending import Alias, LentCaptioner
from ...adapters.pixels.reading import read_image
from ...errors import DataError, UsageError
from .contract import Trainer, TrainingCall
from .drawing import Batches
from .images import ImageReader, Inputs
from .rows import Rows, TrainingRow
from .schema import Positive, Strict
from .towers import seed_of
from .tuning import lent_and_tuned

if TYPE_CHECKING:
    from PIL import Image

VALIDATION_SEED = 1
_MOST_KEPT = 2 << 30
"""Bytes of what the tower sees that are kept."""
_S = TypeVar("_S", bound="CaptionerSettings")


class CaptionerSettings(Strict):
    """What the objectives of captioners have in common."""

    batch: Positive
    """Images of a step, of all processes together."""
    piece: Positive | None = None
    """Images in memory at once; the gradients are those of the whole batch."""
    prompt: str = "Describe this image in detail."
    """What models are asked that take an instruction."""
    tokens: Positive = 30
    """The most that a caption may have, the end token counted."""
    dropout: bool = True
    """Whether the pass with gradients leaves out what the model's own settings say."""


class CaptionerTrainer(Trainer):
    """A captioner that is trained; see ``Trainer``.

    Args:
        call: What is to be done.
        settings: Of the objective.
        needs_captions: Whether rows without captions are left out.

    Raises:
        BenchError: The recipe, its data or its model do not do.
    """

    def __init__(self, call: TrainingCall, settings: CaptionerSettings, needs_captions: bool) -> None:
        recipe = call.loaded.recipe
        self.recipe, self.processes, self._shared = recipe, call.processes, settings
        self.rows = _usable(call.read(recipe.data, "data"), needs_captions)
        validation = recipe.data.validation
        self.validation: Sequence[TrainingRow] = (
            _usable(call.read(validation, "data", "validation"), needs_captions).rows if validation else []
        )
        if len(self.rows.rows) < settings.batch:
            raise UsageError(
                f"data: {len(self.rows.rows)} rows make no batch of {settings.batch}.",
                "Have more rows, or a smaller objective.batch.",
            )
        self.name, self.lent, self._tuning = lent_and_tuned(
            call, LentCaptioner, "writes no captions.", f"Trainer '{recipe.trainer}' takes captioners."
        )
        _require_positions(settings.tokens, self.lent, self.name)
        self.module, self.parameters = self.lent.module, self._tuning.parameters
        self._batches = Batches([row.id for row in self.rows.rows], settings.batch, "random", recipe.seed)
        self.steps_in_an_epoch = self._batches.in_an_epoch
        self._inputs = _CaptionerInputs(self.lent, settings.prompt)

    def rows_of(self, step: int) -> list[TrainingRow]:
        """Return a step's rows, of all processes."""
        return [self.rows.rows[number] for number in self._batches.rows(step)]

    def ids(self, step: int) -> list[str]:
        """Return the ids of a step's rows."""
        return [row.id for row in self.rows_of(step)]

    def pieces(self, rows: Sequence[TrainingRow]) -> list[Sequence[TrainingRow]]:
        """Return rows in pieces that fit into memory."""
        size = self._shared.piece or max(len(rows), 1)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def inputs(self, rows: Sequence[TrainingRow]) -> Inputs:
        """Return the model's inputs for the images of rows.

        Raises:
            DataError: An image cannot be read.
        """
        with self.lower():
            return self._inputs.of(rows)

    def read_ahead(self, step: int) -> None:
        """Begin to read the images of a step."""
        self._inputs.ask(self.processes.share(self.rows_of(step)))

    def learning(self, *seed: int) -> None:
        """Put the model into the state of a pass with gradients, with random numbers of its own."""
        import torch

        self.module.train(self._shared.dropout)
        torch.manual_seed(seed_of(self.recipe.seed, *seed, self.processes.number))

    def lower(self) -> AbstractContextManager[object]:
        """Give what the model computes in."""
        import torch

        if self.recipe.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.lent.device.type, torch.bfloat16)

    def write(self, folder: Path) -> Alias:
        """Write what was trained; see ``Trainer.write``."""
        self.module.eval()
        return self._tuning.write(folder)


class _CaptionerInputs:
    """Makes the inputs of images; what a frozen tower sees of them is computed once, and kept."""

    def __init__(self, lent: LentCaptioner, prompt: str) -> None:
        self._lent = lent
        tower = lent.tower
        is_frozen = tower is not None and not any(one.requires_grad for one in tower.parameters())
        self._grids = lent.grids if is_frozen else None
        self._kept: dict[ImageHandle, Inputs] = {}
        self._bytes = 0
        self._reader = ImageReader(_read, lambda images: (lent.inputs(images, prompt), {}))

    def ask(self, rows: Sequence[TrainingRow]) -> None:
        """Begin to read the images of rows that will be needed next."""
        self._reader.ask([row.image for row in rows if row.image not in self._kept])

    def of(self, rows: Sequence[TrainingRow]) -> Inputs:
        """Return the inputs for the images of rows."""
        import torch

        if self._grids is None:
            return self._made(rows)
        missing = [row for row in rows if row.image not in self._kept]
        # One by one on a processor, where what an image gives would else depend on those beside it.
        at_once = max(len(missing), 1) if self._lent.device.type == "cuda" else 1
        new: dict[ImageHandle, Inputs] = {}
        for start in range(0, len(missing), at_once):
            part = missing[start : start + at_once]
            made = self._grids(self._made(part))
            for number, row in enumerate(part):
                new[row.image] = {name: value[number] for name, value in made.items()}
        found = [new.get(row.image) or self._kept[row.image] for row in rows]
        for image, one in new.items():
            self._keep(image, one)
        return {name: torch.stack([one[name] for one in found]) for name in found[0]}

    def _keep(self, image: ImageHandle, inputs: Inputs) -> None:
        size = sum(value.nbytes for value in inputs.values())
        if self._bytes + size <= _MOST_KEPT:
            self._bytes += size
            self._kept[image] = {name: value.clone() for name, value in inputs.items()}

    def _made(self, rows: Sequence[TrainingRow]) -> Inputs:
        return self._reader.read([row.image for row in rows], [row.id for row in rows])


def _read(image: ImageHandle) -> Image.Image:
    return read_image(image).image.convert("RGB")


def _require_positions(tokens: int, lent: LentCaptioner, name: str) -> None:
    if lent.positions is not None and tokens > lent.positions:
        raise UsageError(
            f"objective.tokens: captions of {tokens} tokens are longer than '{name}' can write, which has "
            f"{lent.positions} positions.",
            f"Have {lent.positions} or fewer, or a model with more positions.",
        )


def _usable(rows: Rows, needs_captions: bool) -> Rows:
    if not needs_captions:
        return rows
    without = {row.id: "has no captions" for row in rows.rows if not row.captions}
    kept = [row for row in rows.rows if row.captions]
    if not kept:
        raise DataError("no row of the data has captions.", "This trainer learns from captions: add them.")
    return Rows(kept, {**rows.left_out, **without})
