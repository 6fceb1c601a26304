"""Which weights of a lent model are trained, and in which format they are written."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...adapters.aliases import ModelSpec, resolve_model
from ...adapters.checkpoints import first_line
from ...adapters.lending import Alias, Lent, LentEncoder
from ...adapters.peft_weights import quiet_peft
from ...errors import UsageError
from ...permissions import Permissions
from .contract import TrainingCall
from .schema import Lora, Recipe, list_recipes

if TYPE_CHECKING:
    import torch

    from .pac_lora import PacLora

WEIGHTS = "weights"
"""The folder of a result's weights, beside its alias."""


_L = TypeVar("_L", bound=Lent)


def start_of(recipe: Recipe) -> ModelSpec:
    """Return the model that a recipe starts from.

    Raises:
        UsageError: It is not known; of what another recipe makes, with the call that makes it.
    """
    name = recipe.model.name
    try:
        return resolve_model(name, recipe.model.arguments)
    except UsageError:
        if name not in list_recipes() or Path(name).exists():
            raise
    raise UsageError(
        f"model: there is no folder '{name}' here, which the recipe of that name makes.",
        f"Make it: 'bench train {name} --output {name}'; or name another: --set model.name=FOLDER.",
    )


def with_start(start: ModelSpec) -> Permissions:
    """Return what lets a result name the folders of the model that it was trained from, as its LoRA needs."""
    named = (Path(value).expanduser() for value in start.arguments.values() if isinstance(value, str))
    return Permissions(folders=tuple(path for path in named if path.is_dir()))


def lent_and_tuned(call: TrainingCall, kind: type[_L], what: str, hint: str) -> tuple[str, _L, Tuning]:
    """Return the name of a recipe's model, the model, and which part of it is trained.

    Args:
        call: Holds the recipe.
        kind: What the trainer takes.
        what: Is said of a model that is something else.
        hint: Is said beside it.

    Raises:
        BenchError: The model is not known, cannot be lent, or does not do for the recipe.
    """
    recipe = call.loaded.recipe
    spec = start_of(recipe)
    if not {"dtype", "device"}.isdisjoint(spec.arguments):
        raise UsageError("model: 'dtype' and 'device' are not the model's to say here.", "Use 'precision'.")
    lent = spec.lend(call.processes.device)
    if not isinstance(lent, kind):
        raise UsageError(f"model: {spec.name} {what}", hint)
    return spec.name, lent, Tuning(recipe, spec, lent)


class Tuning:
    """A lent model of which a part is trained.

    Args:
        recipe: Says which.
        spec: What the model was before.
        lent: The model, with every weight frozen.

    Raises:
        UsageError: Nothing of the model is what the recipe names, or the result cannot be written as it says.
    """

    def __init__(self, recipe: Recipe, spec: ModelSpec, lent: Lent) -> None:
        import torch

        self._spec = spec
        self._lent = lent
        self._result = recipe.result
        self._factors: PacLora | None = None
        self._peft: Any = None
        torch.manual_seed(recipe.seed)
        if recipe.result == "pac":
            self._require_openai_names()
        if recipe.lora is None:
            self._open(recipe.train)
        elif recipe.lora.kind == "pac":
            from .pac_lora import PacLora

            self._factors = PacLora(lent.module, recipe.lora.rank, recipe.lora.alpha)
        else:
            self._peft = _with_peft(lent.module, recipe.lora)
        self.module = lent.module
        self.parameters: dict[str, torch.nn.Parameter] = {
            name: one for name, one in lent.module.named_parameters() if one.requires_grad
        }

    def write(self, folder: Path) -> Alias:
        """Write what was trained below a folder, and return the alias of the result; the module is used up.

        Raises:
            BenchError: It cannot be written in the format.
        """
        place = folder / WEIGHTS
        if self._peft is not None and self._result == "own" and "peft" not in self._spec.arguments:
            for config in self._peft.peft_config.values():
                # A set, which has another order in each process.
                if not isinstance(config.target_modules, str):
                    config.target_modules = sorted(config.target_modules)
            self._peft.save_pretrained(place)
            return {"adapter": self._spec.adapter, **_with_whole_paths(self._spec.arguments), "peft": f"./{WEIGHTS}"}
        if self._result == "pac" and isinstance(self._lent, LentEncoder):
            from ...adapters.encoders.pac_checkpoint import write_pac

            place.mkdir()
            plain = self._factors.plain if self._factors else self.module.state_dict()
            return write_pac(
                plain,
                self._factors.factors if self._factors else {},
                place,
                self._lent.head_width or 64,
                bool(self._lent.quick_gelu),
                self._lent.tokenizer_files,
            )
        if self._peft is not None:
            self._peft.merge_and_unload()
        if self._factors is not None:
            self._factors.merge()
        return self._lent.write(place)

    def _open(self, patterns: list[str]) -> None:
        names = [name for name, _ in self._lent.module.named_parameters()]
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise UsageError(
                    f"train: '{pattern}' matches no weight of {self._spec.name}.",
                    f"Its weights: {', '.join(names[:6])}, …",
                )
        for name, one in self._lent.module.named_parameters():
            one.requires_grad_(any(fnmatchcase(name, pattern) for pattern in patterns))

    def _require_openai_names(self) -> None:
        lent = self._lent
        if not isinstance(lent, LentEncoder) or lent.head_width is None or lent.quick_gelu is None:
            raise UsageError(
                f"result: pac: {self._spec.name} is no CLIP by OpenAI's names.",
                "Leave it out: the result is then written in the model's own format.",
            )


def _with_peft(module: torch.nn.Module, lora: Lora) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # pyright: ignore[reportArgumentType] - which may be no whole number
        lora_dropout=lora.dropout,
        target_modules=lora.targets,
        bias=lora.bias,
    )
    try:
        with quiet_peft():
            return get_peft_model(module, config)  # pyright: ignore[reportArgumentType] - any module will do
    except Exception as error:
        # The library raises whatever it likes, for targets that are nowhere, say.
        raise UsageError(
            f"lora: targets {lora.targets}: {first_line(error)}",
            "Name layers of the model, as peft takes them: the ends of their names, or one regular expression.",
        ) from error


def _with_whole_paths(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments in which files and folders are named from the root, so that they hold from anywhere."""
    return {
        key: str(path.resolve()) if isinstance(value, str) and (path := Path(value).expanduser()).exists() else value
        for key, value in arguments.items()
    }
