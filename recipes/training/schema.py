"""The keys of a training recipe, with their meaning and ranges."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, ValidationError, model_validator

from ...access import Request, requests_of
from ...errors import UsageError, did_you_mean
from ...tasks.schema import Strict, faults_of
from ...tasks.yaml_files import FunctionReference, ParsedFile, display_path, parse

FOLDER = Path(__file__).parents[1]
"""The folder of recipes that ship."""

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0)]


def digest_without(section: Strict, *keys: str) -> str:
    """Return a hash of all values of a section except those of some keys."""
    values = section.model_dump(mode="json", exclude=set(keys))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


class Source(Strict):
    """Where rows come from: one of ``file``, ``task`` and ``reader``."""

    file: str | None = None
    """JSON lines (or any table of ``capbench.rows``), relative to the recipe: ``image``, ``captions`` and optionally
    ``id``, ``box``, ``group``, ``negatives``, ``further_images``, ``further_captions``."""
    task: str | None = None
    """A task's documents: its ``doc_to_entries``, or its ``doc_to_image`` with ``doc_to_target``."""
    reader: Annotated[FunctionReference, PlainSerializer(FunctionReference.fingerprint)] | None = None
    """``!function module.name``: yields such rows."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the reader, or replacements of the task's ``dataset_kwargs``."""

    @model_validator(mode="after")
    def _is_one(self) -> Source:
        named = [name for name in ("file", "task", "reader") if getattr(self, name) is not None]
        if len(named) != 1:
            raise ValueError(f"set exactly one of 'file', 'task' and 'reader', not {named or 'none'}")
        if self.file is not None and self.arguments:
            raise ValueError("'arguments' belong to a reader or a task; a file takes none")
        return self


class Data(Source):
    """What is trained on."""

    validation: Source | None = None
    """Validation data; without it no stop rule uses a loss."""


class ModelChoice(Strict):
    """A model by its alias or adapter."""

    name: str
    """An alias, an adapter, or a folder that a recipe made."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Of its adapter."""

    @property
    def label(self) -> str:
        """Its name in reports and provenance, with its weights if the file names them."""
        weights = self.arguments.get("pretrained")
        return self.name if weights is None else f"{self.name} ({weights})"


class Lora(Strict):
    """Low-rank factors added to frozen weights."""

    kind: Literal["pac", "peft"]
    """``pac``: as in PAC-S++ (attention's input as one pair that does not start at zero, its output, both layers of the
    MLP, the patches). ``peft``: by the library, at ``targets``."""
    rank: Positive = 4
    """The rank."""
    alpha: float = 1.0
    """Factors are scaled by ``alpha / rank``."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout rate of a factor's inputs."""
    targets: list[str] | str = Field(default_factory=list)
    """Names of layers, as peft takes them."""
    bias: Literal["none", "all", "lora_only"] = "none"
    """Which biases are trained, as peft takes it."""

    @model_validator(mode="after")
    def _fits(self) -> Lora:
        if self.kind == "peft" and not self.targets:
            raise ValueError("kind 'peft' needs 'targets', the names of its layers")
        if self.kind == "pac" and (self.targets or self.bias != "none" or self.dropout):
            raise ValueError("kind 'pac' has fixed layers: remove 'targets', 'bias' and 'dropout'")
        return self


class Optimiser(Strict):
    """An optimiser of torch; by default AdamW, which is Adam where ``weight_decay`` is 0."""

    name: str = "AdamW"
    """A class of ``torch.optim``."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the class that have no key here, such as ``momentum`` of ``SGD``."""
    rate: Annotated[float, Field(gt=0, le=100)]
    """The highest learning rate."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the moments; other classes than AdamW have their own defaults."""
    eps: float = 1e-8
    """Epsilon of the denominator; as ``betas``."""
    weight_decay: Share = 0.0
    """Weight decay."""
    no_decay: Literal["vectors"] | list[str] = Field(default_factory=list)
    """Patterns of the names of trained parameters without weight decay; ``vectors`` is all with fewer than two
    dimensions: biases, norms and the logit scale."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """The maximum norm of gradients."""
    clamp: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Patterns of the names of trained parameters, with the least and greatest value that they keep after each step."""

    @model_validator(mode="after")
    def _fits(self) -> Optimiser:
        if self.no_decay and not self.weight_decay:
            raise ValueError("'no_decay' has no effect without 'weight_decay'")
        if wrong := [pattern for pattern, (least, greatest) in self.clamp.items() if least > greatest]:
            raise ValueError(f"clamp: the least value of '{wrong[0]}' exceeds the greatest")
        return self


class RateSchedule(Strict):
    """The learning rate: warm-up to the highest, constant, then ``decay``; or a schedule of transformers."""

    name: str | None = None
    """A schedule of ``transformers.get_scheduler``, in place of ``decay``, ``hold``, ``until`` and ``floor``."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Its ``scheduler_specific_kwargs``."""

    warm_up: Annotated[int, Field(ge=0)] = 0
    """Steps."""
    decay: Literal["constant", "linear", "cosine"] = "constant"
    """The form of the decay."""
    hold: Annotated[int, Field(ge=0)] = 0
    """Steps before the decay, with those of the warm-up."""
    until: Positive | None = None
    """The step at which the decay ends; by default the last."""
    floor: Share = 0.0
    """The final rate."""

    @model_validator(mode="after")
    def _is_one(self) -> RateSchedule:
        own = sorted(self.model_fields_set & {"decay", "hold", "until", "floor"})
        if self.name is not None and own:
            raise ValueError(f"'{own[0]}' does not go with 'name', which is a schedule of transformers")
        if self.name is None and self.arguments:
            raise ValueError("'arguments' need 'name', a schedule of transformers")
        return self


class Stop(Strict):
    """When training ends, and which weights are kept."""

    steps: Positive | None = None
    """The most steps."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """The maximum number of passes over the data."""
    every: Positive | None = None
    """Steps between validations and between checkpoints; by default a third of an epoch."""
    watch: str | None = None
    """The metric of ``measure`` that ``patience`` and ``keep`` go by; by default the validation loss."""
    patience: Positive | None = None
    """Number of steps without a lower validation loss, or a better value of the metric, after which training ends."""
    keep: Literal["best", "last"] = "last"
    """``best``: the weights with the lowest validation loss, or the best value of the metric."""

    @model_validator(mode="after")
    def _ends(self) -> Stop:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("set exactly one of 'steps' and 'epochs'")
        if self.watch is not None and self.patience is None and self.keep != "best":
            raise ValueError("'watch' has no effect without 'patience' or 'keep: best'")
        return self

    @property
    def watched(self) -> str:
        """The name in the history of what is watched."""
        return self.watch or "validation_loss"

    @property
    def in_words(self) -> str:
        """What is watched, in a sentence."""
        return self.watched.replace("_", " ") if self.watch is None else self.watch


class Measure(Strict):
    """Metrics of the validation rows, noted in the history beside the loss."""

    metrics: list[str] = Field(default_factory=list)
    """Of a captioner: metrics of the captions that greedy search writes, as ``--metrics`` takes them. Of an encoder:
    ``recall@K``, the share of images and of texts that have the right partner among the ``K`` nearest."""
    encoder: str | None = None
    """The encoder of a captioner's metrics that need one."""


class JudgeTask(Strict):
    """A task that evaluates the model before and after."""

    task: str
    """Name of the task."""
    metrics: list[str] = Field(default_factory=list)
    """Metrics that replace the task's; each model uses those that are defined for its family of weights."""
    limit: Positive | None = None
    """The maximum number of documents."""
    encoder: str | None = None
    """The encoder of metrics, if a captioner is evaluated."""
    generation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Decoding settings of a captioner, over those of the task."""


class RecipeDocument(Strict):
    """Keys that recipes, pipelines and loops have in common."""

    description: str = ""
    """What it does, in one sentence."""
    paper: str = ""
    """Where the method and the expected results are published."""
    choices: dict[str, str] = Field(default_factory=dict)
    """Keys that the paper leaves open, each with what is taken and why."""
    seed: Annotated[int, Field(ge=0)] = 0
    """The random seed."""


class Recipe(RecipeDocument):
    """One training."""

    recipe: str
    """Its name."""
    data: Data
    """What is trained on."""
    model: ModelChoice
    """What is trained."""
    trainer: str = "contrastive"
    """The trainer; its settings are in ``objective``."""
    objective: dict[str, Any] = Field(default_factory=dict)
    """The settings of the trainer, as the tables below list them."""
    lora: Annotated[
        Lora | None,
        BeforeValidator(lambda value: None if value == "none" else value),
        Field(examples=["none", "{kind: pac, rank: 4, alpha: 1}"]),
    ]
    """Low-rank factors that are trained instead of the weights; ``none`` trains the weights that ``train`` names."""
    train: list[str] = Field(default_factory=lambda: ["*"])
    """Without LoRA: patterns of the names of parameters that are trained; ``*`` is all of them."""
    result: Literal["own", "pac"] = "own"
    """The format of the result: the model's (with peft only its adapter), or that of PAC-S and PAC-S++."""
    optimiser: Optimiser
    """The optimiser."""
    schedule: RateSchedule = RateSchedule()
    """The learning rate over the steps."""
    stop: Stop
    """When training ends."""
    measure: Measure = Measure()
    """What is measured beside the validation loss."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Precision of the towers; weights, losses and the optimiser stay in single precision. ``fp16`` is for GPUs without
    bf16, and only for the contrastive trainer, which keeps gradients within its range."""
    judge: list[JudgeTask] = Field(default_factory=list)
    """The tasks that evaluate the model before and after."""
    probe: str | None = None
    """A task that changes captions by rules, and measures the sensitivity of a reward's metrics."""

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.lora is not None and self.train != ["*"]:
            raise ValueError("'train' needs 'lora: none': LoRA trains its factors only")
        if self.result == "pac" and self.lora is not None and (self.lora.kind, self.lora.alpha) != ("pac", 1.0):
            raise ValueError("'result: pac' needs factors of kind 'pac' and alpha 1, as released")
        if self.precision == "fp16" and self.trainer != "contrastive":
            raise ValueError("'precision: fp16' needs trainer 'contrastive'; 'bf16' works with all")
        if self.optimiser.clamp and self.trainer in ("captioner_xe", "grpo"):
            raise ValueError(f"'optimiser.clamp' has no effect with trainer '{self.trainer}': remove it")
        watches = self.stop.patience is not None or self.stop.keep == "best" or bool(self.measure.metrics)
        if watches and self.data.validation is None:
            raise ValueError("'patience', 'keep: best' and 'measure' need validation rows: set 'data.validation'")
        if self.stop.watch not in (None, *self.measure.metrics):
            raise ValueError(f"stop.watch: '{self.stop.watch}' is not in measure.metrics")
        return self

    def fingerprint(self) -> str:
        """Return a hash of everything that determines the weights."""
        return digest_without(self, "recipe", "description", "paper", "choices", "judge", "probe")


Settings = TypeVar("Settings", bound=BaseModel)


def validated(model: type[Settings], values: Mapping[str, Any], parsed: ParsedFile, *section: str) -> Settings:
    """Validate values of a file.

    Args:
        model: Their pydantic model.
        values: The values.
        parsed: The file.
        section: The keys that lead to them.

    Raises:
        UsageError: Names each fault with its file and line, or with its ``--set``.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UsageError("\n".join(faults_of(error, parsed, model, *section))) from error


_D = TypeVar("_D", bound=RecipeDocument)


class Loaded(Generic[_D]):
    """A validated YAML file.

    Args:
        document: Its content.
        parsed: Its file.
        changed: Keys that were set by ``--set``.
    """

    kind: ClassVar[str]
    """The kind of file, for messages."""
    folder: ClassVar[Path]
    """The folder of files that ship."""
    pattern: ClassVar[str] = "*.yaml"
    """Of these files."""
    Document: ClassVar[type[BaseModel]]

    def __init__(self, document: _D, parsed: ParsedFile, changed: Mapping[str, str]) -> None:
        self.document = document
        self.parsed = parsed
        self.changed = changed

    @classmethod
    def shipped(cls) -> dict[str, Path]:
        """Return the files that ship, by name."""
        return {path.stem: path for path in sorted(cls.folder.glob(cls.pattern))}

    @classmethod
    def load(cls, named: str, changes: Sequence[str] = ()) -> Self:
        """Read and validate a file.

        Args:
            named: A file, or the name of one that ships.
            changes: A list of ``key=value``, such as ``seed=1`` or ``objective.batch=64``.

        Raises:
            UsageError: There is no such file; or each fault with its file and line, or with its ``--set``.
        """
        shipped = cls.shipped()
        path = shipped.get(named, Path(named).expanduser())
        if not path.is_file():
            raise UsageError(
                f"there is no {cls.kind} '{named}'.{did_you_mean(named, shipped)}",
                f"Name a file, or one that ships: {', '.join(shipped)}.",
            )
        parsed = parse(path, named=shipped)
        changed: dict[str, str] = {}
        options: dict[tuple[str, ...], str] = {}
        for change in changes:
            options[cls.change(parsed.values, change)] = f"--set {change}"
            name, _, text = change.partition("=")
            changed[name] = text
        parsed = replace(parsed, changed=options)
        return cls(validated(cls.Document, parsed.values, parsed), parsed, changed)  # pyrefly: ignore[bad-specialization]

    @classmethod
    def change(cls, values: dict[str, Any], change: str) -> tuple[str, ...]:
        """Set a key of a file's values, and return the keys that lead to it."""
        return change_value(values, change)

    @property
    def requests(self) -> list[Request]:
        """Permissions that the file requests."""
        return requests_of(self.parsed.values, self.parsed.path, self.parsed.where, self.parsed.changed)

    @property
    def named(self) -> str:
        """The command's argument: the name of a file that ships, else the path."""
        path = self.parsed.path
        return path.stem if path in self.shipped().values() else display_path(path)

    def command(self, verb: str, *options: str) -> str:
        """Return the shell command that runs it."""
        changes = (part for key, value in self.changed.items() for part in ("--set", f"{key}={value}"))
        return shlex.join(["bench", verb, self.named, *options, *changes])

    def choices(self) -> list[str]:
        """Return the lines of a report on the choices; empty without any."""
        lines = [f"- `{key}`: {self._set_here(key) or why}" for key, why in self.document.choices.items()]
        return ["Choices that the paper leaves open:", "", *lines, ""] if lines else []

    def _set_here(self, keys: str) -> str:
        """Return what ``--set`` made of keys, or of parts of them; empty where it changed none."""
        parts = keys.split(", ")
        values = (
            f"{name}={value}"
            for name, value in self.changed.items()
            if any(f"{name}.".startswith(f"{part}.") or f"{part}.".startswith(f"{name}.") for part in parts)
        )
        return ", ".join(f"`--set {value}`" for value in values)

    def folder_of(self, *keys: str) -> Path:
        """Return the base folder of a key's paths: that of its file, or the current one if ``--set`` gave it."""
        if any(".".join(keys[:end]) in self.changed for end in range(1, len(keys) + 1)):
            return Path.cwd()
        place = self.parsed.places.get(keys)
        return (place[0] if place else self.parsed.path).parent


class LoadedRecipe(Loaded[Recipe]):
    """A recipe with its file; see :class:`Loaded`."""

    kind = "recipe"
    folder = FOLDER
    pattern = "*/*.yaml"
    Document = Recipe

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.document

    @property
    def named(self) -> str:
        """The argument of ``bench train``: the name of a recipe that ships, else of the file."""
        return Path(super().named).name

    def settings(self, model: type[Settings]) -> Settings:
        """Return the objective's settings.

        Raises:
            UsageError: Each fault with its file and line.
        """
        return validated(model, self.recipe.objective, self.parsed, "objective")

    def named_file(self, name: str, *keys: str) -> Path:
        """Return a file that the recipe names, relative to its YAML file, or to the current folder with ``--set``.

        Raises:
            UsageError: There is no such file.
        """
        path = self.folder_of(*keys) / Path(name).expanduser()
        if not path.is_file():
            raise UsageError(
                f"{self.parsed.where(*keys)}: no such file: {display_path(path)}",
                f"Create it, or set another: --set {'.'.join(keys)}=FILE (format: docs/recipes.md).",
            )
        return path


list_recipes, load_recipe = LoadedRecipe.shipped, LoadedRecipe.load


def change_value(values: dict[str, Any], change: str) -> tuple[str, ...]:
    """Set a key of a recipe's values, and return the keys that lead to it.

    Args:
        values: The values, changed in place.
        change: ``key=value``, with ``section.key`` for a nested key.

    Raises:
        UsageError: It is not a change, its value is not YAML, or its section has no keys.
    """
    name, sign, text = change.partition("=")
    *sections, key = name.split(".")
    if not sign or not all([*sections, key]):
        raise UsageError(f"--set {change}: expected KEY=VALUE, such as seed=1 or objective.batch=64")
    inner = values
    for section in sections:
        content = inner.get(section)
        if not isinstance(content, dict | None):
            raise UsageError(f"--set {change}: '{section}' is {content!r:.60}, and has no keys")
        # A copy, as the section of an included file may be used in several places.
        inner[section] = dict(content or {})
        inner = inner[section]
    try:
        inner[key] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"--set {change}: the value is not valid YAML") from error
    return (*sections, key)
