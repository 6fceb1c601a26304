"""The interface of trainers, which compute the gradients of an objective step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...adapters.contracts import Alias
from ...progress import Progress, silent
from ...registry import Registry
from .processes import TrainingProcesses
from .rows import Rows
from .schema import LoadedRecipe, Strict

if TYPE_CHECKING:
    import torch

    from .rewards import RewardPart


@dataclass(frozen=True)
class TrainingCall:
    """A recipe and its environment.

    Attributes:
        loaded: The recipe.
        processes: The processes of the training.
        data: Task name to the path of its local data.
        include_path: Folders with user-defined task files.
        allow_outside: Additional folders whose files tasks may read.
        progress: Returns a reporter of (done, total) for a named step.
    """

    loaded: LoadedRecipe
    processes: TrainingProcesses
    data: Mapping[str, str | Path] = field(default_factory=dict[str, "str | Path"])
    include_path: Sequence[str | Path] = ()
    allow_outside: Sequence[str | Path] = ()
    progress: Progress = silent


class Trainer(ABC):
    """Computes the gradients of an objective step by step.

    A step depends on the recipe, the weights and the step's number only, so that an interrupted training resumes
    exactly.

    Args:
        call: The training call.

    Raises:
        BenchError: The recipe, its data or its model are invalid.
    """

    Settings: ClassVar[type[Strict]]
    """The model of the recipe's ``objective``."""
    name: str
    """The name of the trained model."""
    rows: Rows
    module: torch.nn.Module
    """The whole model."""
    parameters: Mapping[str, torch.nn.Parameter]
    """The trainable parameters by name."""
    steps_in_an_epoch: int
    rewarded: Sequence[RewardPart] = ()
    """The metrics that are the reward; empty without one."""

    @abstractmethod
    def __init__(self, call: TrainingCall) -> None: ...

    @abstractmethod
    def backward(self, step: int) -> dict[str, float]:
        """Add the gradients of a step to those of the parameters.

        Returns:
            ``loss``, and its parts by name.

        Raises:
            BenchError: An input cannot be read.
        """

    @abstractmethod
    def ids(self, step: int) -> list[str]:
        """Return the ids of the rows of a step."""

    @abstractmethod
    def validate(self) -> float:
        """Return the mean loss of the validation rows, always with the same texts, without gradients."""

    @abstractmethod
    def memory(self) -> dict[str, int]:
        """Return the memory of one piece of a step in bytes, by kind."""

    @abstractmethod
    def write(self, folder: Path) -> Alias:
        """Write the result below a folder, and return its alias; the model cannot be used afterwards."""


trainers: Registry[type[Trainer]] = Registry(
    "trainer",
    {
        "captioner_xe": "capbench.recipes.training.captioning:CrossEntropyTrainer",
        "contrastive": "capbench.recipes.training.contrastive:ContrastiveTrainer",
        "scst": "capbench.recipes.training.scst:ScstTrainer",
    },
    entry_points="capbench.trainers",
)
