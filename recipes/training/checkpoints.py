"""What a training needs to go on where it was: weights, the optimiser's memory, and how far it is.

A file is there whole or not at all, and holds tensors and a line of JSON alone. Random numbers need not be kept: they
follow from seed and step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...drafts import written_whole
from ...errors import TrainingError

if TYPE_CHECKING:
    import torch

LAST, BEST = "last.safetensors", "best.safetensors"
_TOLD = "capbench"


@dataclass(frozen=True)
class TrainingState:
    """How far a training is.

    Attributes:
        step: Steps that were taken.
        fingerprint: Of recipe and data.
        best: The lowest validation loss so far; None before the first.
        best_step: After how many steps it was.
        ended: Whether no more steps follow, and why.
    """

    fingerprint: str
    step: int = 0
    best: float | None = None
    best_step: int = 0
    ended: str = ""


def save(path: Path, state: TrainingState, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    from safetensors.torch import save_file

    held = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    with written_whole(path) as draft:
        save_file(held, draft, {_TOLD: json.dumps(asdict(state))})


def load(path: Path) -> tuple[TrainingState, dict[str, torch.Tensor]]:
    """Read a checkpoint.

    Raises:
        TrainingError: It is damaged, or none.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            told = json.loads((file.metadata() or {})[_TOLD])
            return TrainingState(**told), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise TrainingError(f"{path}: no checkpoint of a training: {error}", "Remove it to begin anew.") from error
