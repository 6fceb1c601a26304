"""The base class of trainers, which train a model and write the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ...adapters.aliases import ModelSpec, resolve_model
from ...adapters.checkpoints import first_line
from ...adapters.contracts import Alias, TrainableEncoder, TrainableModel
from ...adapters.peft_weights import quiet_peft
from ...errors import UsageError
from ...metrics import metrics
from ...progress import Progress, silent
from ...registry import Registry
from .history import History, Tracker, TrackerName
from .processes import TrainingProcesses
from .rows import Batches, Rows, TrainingRow, read_source
from .schema import LoadedRecipe, Lora, Recipe, list_recipes

if TYPE_CHECKING:
    import torch

    from .checkpoints import TrainingState
    from .history import StepReport
    from .pac_lora import PacLora
    from .rewards import RewardPart

WEIGHTS = "weights"
"""The folder of a result's weights, next to its alias."""
VALIDATION_SEED = 1

_L = TypeVar("_L", bound=TrainableModel)


def start_of(recipe: Recipe) -> ModelSpec:
    """Return the model that a recipe starts from.

    Raises:
        UsageError: It is unknown; if another recipe makes it, the hint is the command.
    """
    name = recipe.model.name
    try:
        return resolve_model(name, recipe.model.arguments)
    except UsageError:
        if name not in list_recipes() or Path(name).exists():
            raise
    raise UsageError(
        f"model: folder '{name}' is missing; recipe '{name}' makes it.",
        f"Run 'bench train {name} --output {name}'; or set another: --set model.name=FOLDER.",
    )


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
        log_to: The tracker of experiments that gets the history, too.
    """

    loaded: LoadedRecipe
    processes: TrainingProcesses
    data: Mapping[str, str | Path] = field(default_factory=dict[str, "str | Path"])
    include_path: Sequence[str | Path] = ()
    allow_outside: Sequence[str | Path] = ()
    progress: Progress = silent
    log_to: TrackerName | None = None


class Trainer(ABC):
    """Trains a model by a recipe, and writes it.

    ``SteppedTrainer`` of ``loop.py`` has a loop for trainers that compute gradients step by step; others hand model and
    rows to a library's.

    Args:
        call: The training call.

    Raises:
        BenchError: The recipe, its data or its model are invalid.
    """

    Settings: ClassVar[Any]
    """The model of the recipe's ``objective``, a subclass of ``Strict``."""
    name: str
    """The name of the trained model."""
    rows: Rows
    module: torch.nn.Module
    """The whole model."""
    parameters: Mapping[str, torch.nn.Parameter]
    """The trainable parameters by name."""
    batches: Batches
    is_split = False
    """Whether processes share weights, gradients and optimiser instead of holding copies."""
    rewarded: Sequence[RewardPart] = ()
    """The metrics that are the reward; empty without one."""

    def __init__(self, call: TrainingCall) -> None:
        self.recipe, self.processes = call.loaded.recipe, call.processes
        self._log_to: TrackerName | None = call.log_to
        self.rows = self.usable(read_source(call, self.recipe.data, "data"))
        self.validation: Sequence[TrainingRow] = []
        if source := self.recipe.data.validation:
            self.validation = self.usable(read_source(call, source, "data", "validation")).rows

    def usable(self, rows: Rows) -> Rows:
        """Return the rows that the objective can use.

        Raises:
            BenchError: It can use none.
        """
        return rows

    @abstractmethod
    def train(self, folder: Path, on_step: Callable[[StepReport], object], fingerprint: str) -> TrainingState:
        """Train up to the recipe's end, resuming from the folder's checkpoints, and keep the weights it asks for.

        Args:
            folder: Holds checkpoints and history.
            on_step: Called after each step.
            fingerprint: Of recipe and data; a checkpoint of another training is an error.

        Raises:
            TrainingError: The folder holds another training, or the loss or the gradients are not finite.
            BenchError: An input cannot be read.
        """

    @property
    def watches_higher(self) -> bool:
        """Whether higher is better of what the stop rule watches."""
        if self.recipe.stop.watch is None:
            return False
        name = self.recipe.stop.watch.partition("[")[0]
        return name not in metrics or metrics[name].higher_is_better

    def stalled(self, steps: int) -> str:
        """Return the sentence that ends a training in which no value has been better for some steps."""
        compared = "higher" if self.watches_higher else "lower"
        return f"the {self.recipe.stop.in_words} was not {compared} for {steps} steps"

    @property
    def steps(self) -> int:
        """The maximum number of steps."""
        stop = self.recipe.stop
        return stop.steps or max(round((stop.epochs or 0) * self.batches.in_an_epoch), 1)

    @property
    def every(self) -> int:
        """Number of steps between checkpoints and between validations."""
        return self.recipe.stop.every or max(self.batches.in_an_epoch // 3, 1)

    def history(self, folder: Path, after: int) -> History:
        """Return the history of the training in a folder, from a number of completed steps on.

        Raises:
            BenchError: The tracker that the call names is missing, or refuses.
        """
        tracker = None
        if self._log_to and self.processes.is_first:
            tracker = Tracker(self._log_to, folder, self.recipe.model_dump(mode="json"))
        return History(folder, after, self.processes.is_first, tracker)

    @abstractmethod
    def memory(self) -> dict[str, int]:
        """Return the memory of one piece of a step in bytes, by kind."""

    def work(self) -> float | None:
        """Return the floating-point operations of a step, over all processes; None where they are not counted."""
        return None

    def load_trainable(self, kind: type[_L], label: str, hint: str) -> _L:
        """Return the recipe's model, and select its trainable parameters.

        Args:
            kind: The class of model that the trainer requires.
            label: The message for other models.
            hint: Its hint.

        Raises:
            BenchError: The model is unknown, not trainable, or does not fit the recipe: for example, no parameter
                matches, or the result cannot have the recipe's format.
        """
        import torch

        spec = start_of(self.recipe)
        if not {"dtype", "device"}.isdisjoint(spec.arguments):
            raise UsageError("model: 'dtype' and 'device' do not belong in a recipe.", "Use 'precision', or --device.")
        trainable = spec.to_trainable(self.processes.device)
        if not isinstance(trainable, kind):
            raise UsageError(f"model: {spec.name} {label}", hint)
        if self.recipe.result == "pac" and not (
            isinstance(trainable, TrainableEncoder)
            and trainable.head_width is not None
            and trainable.quick_gelu is not None
        ):
            raise UsageError(
                f"result: pac: {spec.name} is not a CLIP with OpenAI's names.",
                "Remove the key: the result then has the model's format.",
            )
        self.name, self.module, self._spec, self._trainable = spec.name, trainable.module, spec, trainable  # pyrefly: ignore[invalid-type-var]
        self._factors: PacLora | None = None
        self._peft: Any = None
        torch.manual_seed(self.recipe.seed)
        lora = self.recipe.lora
        if lora is None:
            self._open(self.recipe.train)
        elif lora.kind == "pac":
            from .pac_lora import PacLora

            self._factors = PacLora(self.module, lora.rank, lora.alpha)
        else:
            self._peft = _with_peft(self.module, lora)
        self.parameters = {name: param for name, param in self.module.named_parameters() if param.requires_grad}
        return trainable

    def _open(self, patterns: list[str]) -> None:
        names = [name for name, _ in self.module.named_parameters()]
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise UsageError(
                    f"train: '{pattern}' matches no weight of {self._spec.name}.",
                    f"Its weights: {', '.join(names[:6])}, …",
                )
        for name, param in self.module.named_parameters():
            param.requires_grad_(any(fnmatchcase(name, pattern) for pattern in patterns))

    def rows_of(self, step: int) -> list[TrainingRow]:
        """Return the rows of a step, over all processes."""
        return [self.rows.rows[number] for number in self.batches.rows(step)]

    def named_rows(self, step: int) -> str:
        """Return the first ids of the rows of a step, for messages."""
        ids = [row.id for row in self.rows_of(step)]
        return f"its rows: {', '.join(ids[:20])}{', …' if len(ids) > 20 else ''}"

    def lower(self) -> AbstractContextManager[object]:
        """Return the autocast context of the model."""
        import torch

        lower = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.recipe.precision)
        return torch.autocast(self._trainable.device.type, lower) if lower else nullcontext()

    def write(self, folder: Path) -> Alias:
        """Write the result below a folder, and return its alias; the model cannot be used afterwards.

        Of factors of peft over a model of the hub these alone are written, and the alias names that model with its
        commit. Over a model that lies on this machine they are merged into it, as nobody else has that one.
        """
        self.module.eval()
        place = folder / WEIGHTS
        is_beside = not self._spec.is_local and "peft" not in self._spec.arguments
        if self._peft is not None and self.recipe.result == "own" and is_beside:
            pinned = self._spec.pinned()
            for config in self._peft.peft_config.values():
                config.revision = pinned.get("revision")
                # A set has another order in each process.
                if not isinstance(config.target_modules, str):
                    config.target_modules = sorted(config.target_modules)
            self._peft.save_pretrained(place)
            # A template; the card of the folder says what was trained.
            (place / "README.md").unlink(missing_ok=True)
            return {"adapter": self._spec.adapter, **self._spec.arguments, **pinned, "peft": f"./{WEIGHTS}"}
        if self.recipe.result == "pac" and isinstance(self._trainable, TrainableEncoder):
            from ...adapters.encoders.pac import write_pac

            place.mkdir()
            lora, model = self._factors, self._trainable
            weights = (lora.plain, lora.factors) if lora else (self.module.state_dict(), {})
            return write_pac(*weights, place, model.head_width or 64, bool(model.quick_gelu), model.tokenizer_files)
        if self._peft is not None:
            self._peft.merge_and_unload()
        if self._factors is not None:
            self._factors.merge()
        return self._trainable.write(place)


def _with_peft(module: torch.nn.Module, lora: Lora) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # pyrefly: ignore[bad-argument-type] - which may be no whole number
        lora_dropout=lora.dropout,
        target_modules=lora.targets,
        bias=lora.bias,
    )
    try:
        with quiet_peft():
            return get_peft_model(module, config)
    except Exception as error:
        # peft raises errors of many types, for example for targets without a match.
        raise UsageError(
            f"lora: targets {lora.targets}: {first_line(error)}",
            "Name layers of the model, as peft takes them: the ends of their names, or one regular expression.",
        ) from error


trainers: Registry[type[Trainer]] = Registry(
    "trainer",
    {
        "captioner_xe": "capbench.recipes.training.cross_entropy:CrossEntropyTrainer",
        "contrastive": "capbench.recipes.training.contrastive:ContrastiveTrainer",
        "grpo": "capbench.recipes.training.grpo:GrpoTrainer",
        "scst": "capbench.recipes.training.scst:ScstTrainer",
    },
    entry_points="capbench.trainers",
)
