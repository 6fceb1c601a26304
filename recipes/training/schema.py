"""The keys of a training recipe, what they mean and what they may hold."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator

from ...access import Request, requests_of
from ...errors import UsageError, did_you_mean
from ...tasks.schema import faults_of
from ...tasks.yaml_files import FunctionReference, ParsedFile, display_path, parse

FOLDER = Path(__file__).parents[1]
"""Recipes that ship lie below it."""

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0)]


class Strict(BaseModel):
    """A section whose unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)

    def digest_without(self, *keys: str) -> str:
        """Return a hash of all values but those of some keys."""
        values = self.model_dump(mode="json", exclude=set(keys))
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


class Source(Strict):
    """Where rows come from: one of ``file``, ``task`` and ``reader``."""

    file: str | None = None
    """JSON lines (or any table of ``capbench.rows``) beside the recipe: ``image``, ``captions`` and, where there are
    any, ``id``, ``box``, ``group``, ``negatives``, ``further_images``, ``further_captions``."""
    task: str | None = None
    """A task's documents: its ``doc_to_entries``, or its ``doc_to_image`` with ``doc_to_target``."""
    reader: Annotated[FunctionReference, PlainSerializer(FunctionReference.fingerprint)] | None = None
    """``!function module.name``: yields such rows."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Of the reader, or in place of the task's ``dataset_kwargs``."""

    @model_validator(mode="after")
    def _is_one(self) -> Source:
        given = [name for name in ("file", "task", "reader") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"one of 'file', 'task' and 'reader' says where rows come from, not {given or 'none'}")
        if self.file is not None and self.arguments:
            raise ValueError("'arguments' are those of a reader or a task; a file takes none")
        return self


class Data(Source):
    """What is trained on."""

    validation: Source | None = None
    """What the loss is watched on; without it no rule looks at a loss."""


class ModelChoice(Strict):
    """What is trained."""

    name: str
    """An alias, an adapter, or a folder that a recipe made."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Of its adapter."""


class Lora(Strict):
    """Low-rank factors beside frozen weights."""

    kind: Literal["pac", "peft"]
    """``pac``: as PAC-S++ has them (attention's input as one pair that starts other than zero, its output, both layers
    of the MLP, the patches). ``peft``: by the library, at ``targets``."""
    rank: Positive = 4
    """Columns of a factor."""
    alpha: float = 1.0
    """They are scaled by ``alpha / rank``."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of a factor's inputs that is left out in training."""
    targets: list[str] | str = Field(default_factory=list)
    """Names of layers, as peft takes them."""
    bias: Literal["none", "all", "lora_only"] = "none"
    """Which biases are trained, as peft takes it."""

    @model_validator(mode="after")
    def _fits(self) -> Lora:
        if self.kind == "peft" and not self.targets:
            raise ValueError("'targets' names the layers that peft adds to")
        if self.kind == "pac" and (self.targets or self.bias != "none" or self.dropout):
            raise ValueError("factors of kind 'pac' have places of their own: no targets, no bias, no dropout")
        return self


class Optimiser(Strict):
    """AdamW, or Adam where ``weight_decay`` is 0."""

    rate: Annotated[float, Field(gt=0, le=100)]
    """The highest learning rate."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the means of gradients and of their squares."""
    eps: float = 1e-8
    """Added to the root of the mean square."""
    weight_decay: Share = 0.0
    """Of AdamW, apart from the gradient."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """The norm that gradients are cut to."""


class RateSchedule(Strict):
    """The learning rate: rises to the highest over the warm-up, stays there, then falls as ``decay`` says."""

    warm_up: Annotated[int, Field(ge=0)] = 0
    """Steps."""
    decay: Literal["constant", "linear", "cosine"] = "constant"
    """How it falls, or not."""
    hold: Annotated[int, Field(ge=0)] = 0
    """Steps, with those of the warm-up, before it falls."""
    until: Positive | None = None
    """The step at which it has fallen; by default the last."""
    floor: Share = 0.0
    """What it falls to."""


class Stop(Strict):
    """When training ends, and which weights are kept."""

    steps: Positive | None = None
    """The most steps."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """The most passes over the data."""
    every: Positive | None = None
    """Steps between two looks at the validation loss, and between two checkpoints; by default a third of an epoch."""
    patience: Positive | None = None
    """Ends after so many steps in which the validation loss was not lower."""
    keep: Literal["best", "last"] = "last"
    """``best``: the weights of the lowest validation loss."""

    @model_validator(mode="after")
    def _ends(self) -> Stop:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("one of 'steps' and 'epochs' says how long is trained at most")
        return self


class JudgeTask(Strict):
    """A task that judges the model before and after."""

    task: str
    """Name of the task."""
    metrics: list[str] = Field(default_factory=list)
    """In place of the task's; of these each model takes those that are defined with its family of weights."""
    limit: Positive | None = None
    """The first so many documents alone."""
    encoder: str | None = None
    """Which model encodes for the metrics, where a captioner is judged."""
    generation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Decoding settings of a captioner, over those of the task."""


class Recipe(Strict):
    """One training."""

    recipe: str
    """Its name."""
    description: str = ""
    """What it trains, in a sentence."""
    paper: str = ""
    """Where the method, and what must come out, is printed."""
    choices: dict[str, str] = Field(default_factory=dict)
    """Keys that the paper leaves open, each with what this recipe takes and why."""
    data: Data
    """What is trained on."""
    model: ModelChoice
    """What is trained."""
    trainer: str = "contrastive"
    """Which objective; its settings are in ``objective``."""
    objective: dict[str, Any] = Field(default_factory=dict)
    """The settings of the trainer, as the tables below list them."""
    lora: Annotated[
        Lora | None,
        BeforeValidator(lambda value: None if value == "none" else value),
        Field(examples=["none", "{kind: pac, rank: 4, alpha: 1}"]),
    ]
    """Factors that are trained in place of the weights; ``none`` trains the weights that ``train`` names."""
    train: list[str] = Field(default_factory=lambda: ["*"])
    """Without LoRA: patterns of the names of parameters that are trained; ``*`` is all of them."""
    result: Literal["own", "pac"] = "own"
    """The format of what is written: the model's own (with peft its adapter alone), or that of PAC-S and PAC-S++."""
    optimiser: Optimiser
    """What steps are made with."""
    schedule: RateSchedule = RateSchedule()
    """The learning rate over the steps."""
    stop: Stop
    """When training ends."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """What towers compute in; weights, losses and the optimiser stay in single precision. ``fp16`` is for GPUs without
    bf16, and for the contrastive trainer alone, which keeps gradients within its range."""
    seed: Annotated[int, Field(ge=0)] = 0
    """What every choice by chance starts from."""
    judge: list[JudgeTask] = Field(default_factory=list)
    """The tasks that judge the model before and after."""
    probe: str | None = None
    """A task that changes captions by rules, and so tells what the metrics of a reward notice."""

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.lora is not None and self.train != ["*"]:
            raise ValueError("'train' names weights where 'lora' is none; with LoRA its factors are trained alone")
        if self.result == "pac" and self.lora is not None and self.lora != Lora(kind="pac", rank=4, alpha=1.0):
            raise ValueError("'result: pac' holds factors of kind 'pac', rank 4 and alpha 1 alone, as released")
        if self.precision == "fp16" and self.trainer != "contrastive":
            raise ValueError("'precision: fp16' goes with trainer 'contrastive' alone; 'bf16' goes with all")
        watches = self.stop.patience is not None or self.stop.keep == "best"
        if watches and self.data.validation is None:
            raise ValueError("'stop' watches a validation loss, and 'data' has no 'validation'")
        return self

    def fingerprint(self) -> str:
        """Return a hash of everything that decides the weights."""
        return self.digest_without("recipe", "description", "paper", "choices", "judge", "probe")


Settings = TypeVar("Settings", bound=BaseModel)


def validated(model: type[Settings], values: Mapping[str, Any], parsed: ParsedFile, *section: str) -> Settings:
    """Return what values of a file mean.

    Args:
        model: What they are.
        values: The values.
        parsed: The file.
        section: The keys that lead to them.

    Raises:
        UsageError: Each fault with its file and line, or the change that made it.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UsageError("\n".join(faults_of(error, parsed, model, *section))) from error


_D = TypeVar("_D", bound=BaseModel)


class Loaded(Generic[_D]):
    """What a YAML file holds, with the file that it is from.

    Args:
        document: What it holds.
        parsed: Its file.
        changed: Keys that were set from outside.
    """

    kind: ClassVar[str]
    """What it is of, for people."""
    folder: ClassVar[Path]
    """Those that ship lie below it."""
    Document: ClassVar[type[BaseModel]]

    def __init__(self, document: _D, parsed: ParsedFile, changed: Mapping[str, str]) -> None:
        self.document = document
        self.parsed = parsed
        self.changed = changed

    @classmethod
    def shipped(cls) -> dict[str, Path]:
        """Return the files of those that ship, by name."""
        return {path.stem: path for path in sorted(cls.folder.glob("*.yaml"))}

    @classmethod
    def load(cls, named: str, changes: Sequence[str] = ()) -> Self:
        """Read and check one.

        Args:
            named: A file, or the name of one that ships.
            changes: ``key=value`` each, such as ``seed=1`` or ``objective.batch=64``.

        Raises:
            UsageError: There is none, or each fault with its file and line, or the change that made it.
        """
        shipped = cls.shipped()
        path = shipped.get(named, Path(named).expanduser())
        if not path.is_file():
            raise UsageError(
                f"there is no {cls.kind} '{named}'.{did_you_mean(named, shipped)}",
                f"Name a file, or one that ships: {', '.join(shipped)}.",
            )
        parsed = parse(path)
        changed: dict[str, str] = {}
        options: dict[tuple[str, ...], str] = {}
        for change in changes:
            keys, name, text = cls.change(parsed.values, change)
            changed[name] = text
            options[keys] = f"--set {name}={text}"
        parsed = replace(parsed, changed=options)
        return cls(validated(cls.Document, parsed.values, parsed), parsed, changed)  # pyright: ignore[reportArgumentType]

    @classmethod
    def change(cls, values: dict[str, Any], change: str) -> tuple[tuple[str, ...], str, str]:
        """Set a key of a file's values.

        Returns:
            The keys that lead to it, what it is called, and its text.
        """
        name, text = change_value(values, change)
        return tuple(name.split(".")), name, text

    @property
    def requests(self) -> list[Request]:
        """What the file asks for that costs."""
        return requests_of(self.parsed.values, self.parsed.path, self.parsed.where, self.parsed.changed)

    @property
    def named(self) -> str:
        """What the command takes: the name of one that ships, else the file."""
        path = self.parsed.path
        return path.stem if path in self.shipped().values() else display_path(path)

    def command(self, verb: str, *options: str) -> str:
        """Return the command line that carries it out, as a shell takes it."""
        changes = (part for key, value in self.changed.items() for part in ("--set", f"{key}={value}"))
        return shlex.join(["bench", verb, self.named, *options, *changes])

    def choices(self) -> list[str]:
        """Return what a report says of what the paper leaves open, line by line; nothing where that is nothing."""
        chosen: Mapping[str, str] = getattr(self.document, "choices")  # noqa: B009 - of each kind of document
        lines = [f"- `{key}`: {why}" for key, why in chosen.items()]
        return ["What the paper leaves open, and was chosen:", "", *lines, ""] if lines else []

    def folder_of(self, *keys: str) -> Path:
        """Return where paths of a key begin: beside the file in which it stands, or where this runs if it was set."""
        if any(".".join(keys[:end]) in self.changed for end in range(1, len(keys) + 1)):
            return Path.cwd()
        place = self.parsed.places.get(keys)
        return (place[0] if place else self.parsed.path).parent


class LoadedRecipe(Loaded[Recipe]):
    """A recipe with the file that it is from; see :class:`Loaded`."""

    kind = "recipe"
    folder = FOLDER
    Document = Recipe

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.document

    @classmethod
    def shipped(cls) -> dict[str, Path]:
        """Return the recipes that ship, by name."""
        return {path.stem: path for path in sorted(FOLDER.glob("*/*.yaml"))}

    @property
    def named(self) -> str:
        """What ``bench train`` takes: the name of a recipe that ships, else the name of the file."""
        return Path(super().named).name

    def settings(self, model: type[Settings]) -> Settings:
        """Return the objective's settings.

        Raises:
            UsageError: Each fault with its file and line.
        """
        return validated(model, self.recipe.objective, self.parsed, "objective")

    def named_file(self, name: str, *keys: str) -> Path:
        """Return a file that the recipe names, beside the YAML file that does, or from here where ``--set`` does.

        Raises:
            UsageError: There is none.
        """
        path = self.folder_of(*keys) / Path(name).expanduser()
        if not path.is_file():
            raise UsageError(
                f"{self.parsed.where(*keys)}: there is no file {display_path(path)}",
                f"Make it, or name yours: --set {'.'.join(keys)}=FILE. docs/recipes.md says what its rows hold.",
            )
        return path


list_recipes, load_recipe = LoadedRecipe.shipped, LoadedRecipe.load


def change_value(values: dict[str, Any], change: str) -> tuple[str, str]:
    """Set a key of a recipe's values, and return it with its value.

    Args:
        values: The values, changed in place.
        change: ``key=value``, with ``section.key`` for one further in.

    Raises:
        UsageError: It is none, its value is no YAML, or it leads into what has no keys.
    """
    name, sign, text = change.partition("=")
    *sections, key = name.split(".")
    if not sign or not all([*sections, key]):
        raise UsageError(f"--set {change}: expected KEY=VALUE, such as seed=1 or objective.batch=64")
    inner = values
    for section in sections:
        found = inner.get(section)
        if not isinstance(found, dict | None):
            raise UsageError(f"--set {change}: '{section}' is {found!r:.60}, and has no keys")
        # A section that is set is a copy, as an included file's may stand in several places.
        inner[section] = dict(found or {})
        inner = inner[section]
    try:
        inner[key] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"--set {change}: the value is no YAML") from error
    return name, text
