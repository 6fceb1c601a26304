"""What every trainer has in common: it takes a recipe, and gives gradients of its objective step by step."""

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
from .rows import Rows, read_source
from .schema import LoadedRecipe, Source, Strict

if TYPE_CHECKING:
    import torch

    from .rewards import RewardPart


@dataclass(frozen=True)
class TrainingCall:
    """A recipe, and where it is carried out.

    Attributes:
        loaded: The recipe.
        processes: Those that train together.
        data: Task name to the path of its local data.
        include_path: Folders with task files of the user's own.
        allow_outside: Folders besides those of tasks and data whose files tasks may read.
        progress: Gives a reporter of (done, total) for a step of that name.
    """

    loaded: LoadedRecipe
    processes: TrainingProcesses
    data: Mapping[str, str | Path] = field(default_factory=dict[str, "str | Path"])
    include_path: Sequence[str | Path] = ()
    allow_outside: Sequence[str | Path] = ()
    progress: Progress = silent

    def read(self, source: Source, *keys: str) -> Rows:
        """Read the rows of a source that stands at these keys of the recipe; see ``read_source``."""
        return read_source(self, source, keys)


class Trainer(ABC):
    """Gives gradients of an objective, a step at a time.

    What a step does follows from the recipe, the weights and the step's number alone; so a training that was cut off
    goes on as if it had not been.

    Args:
        call: What is to be done.

    Raises:
        BenchError: The recipe, its data or its model do not do.
    """

    Settings: ClassVar[type[Strict]]
    """What ``objective`` of the recipe holds."""
    name: str
    """Of the model that is trained."""
    rows: Rows
    module: torch.nn.Module
    """All of the model."""
    parameters: Mapping[str, torch.nn.Parameter]
    """What is trained, by name."""
    steps_in_an_epoch: int
    rewarded: Sequence[RewardPart] = ()
    """The metrics that the objective pays for; none where it learns from what is given."""

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
        """Return the ids of the rows that a step looks at."""

    @abstractmethod
    def validate(self) -> float:
        """Return the mean loss of the validation rows, always of the same texts; no gradients."""

    @abstractmethod
    def memory(self) -> dict[str, int]:
        """Return what one piece of a step holds, in bytes, by what it is."""

    @abstractmethod
    def write(self, folder: Path) -> Alias:
        """Write what was trained below a folder, and return the alias of the result; the model is used up."""


trainers: Registry[type[Trainer]] = Registry(
    "trainer",
    {
        "captioner_xe": "capbench.recipes.training.captioning:CrossEntropyTrainer",
        "contrastive": "capbench.recipes.training.contrastive:ContrastiveTrainer",
        "scst": "capbench.recipes.training.scst:ScstTrainer",
    },
    entry_points="capbench.trainers",
)
