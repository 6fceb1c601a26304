"""The keys of a task file, what they mean and what they may hold; faults of values in a YAML file, with their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from ..access import HUB, Request, requests_of
from ..errors import TaskError, did_you_mean
from ..permissions import is_installed
from ..rows import SUFFIXES
from .index import DEFAULT_OUTPUT_TYPE
from .yaml_files import FunctionReference, ParsedFile, parse

GATHERED_TEMPLATES = "doc_to_*"
"""Where the model of a task keeps all keys that begin so; it is no key of a file."""


class FaultyTaskError(TaskError):
    """A task file has faults.

    Args:
        message: All of them.
        task: The task without the values that are faulty, for looking at what else is wrong.
        parsed: The file.
        faulty: The keys that have a fault, or are missing.
    """

    def __init__(self, message: str, task: TaskConfig, parsed: ParsedFile, faulty: Set[str]) -> None:
        super().__init__(message)
        self.task, self.parsed, self.faulty = task, parsed, faulty


class KeyFaultsError(ValueError):
    """Faults of several keys, found by a validator of a whole model.

    Attributes:
        faults: For each its key, and what is wrong.
    """

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(why for _, why in faults))
        self.faults = faults


def faults_of(error: ValidationError, parsed: ParsedFile, model: type[BaseModel], *section: str) -> list[str]:
    """Return each fault once, with its place and, for an unknown key, the nearest known one.

    Args:
        error: What ``model`` found.
        parsed: The file that was validated.
        model: The model.
        section: The keys that lead to what was validated; none for the whole file.
    """
    faults = (message for fault in error.errors() for message in _explain(fault, parsed, model, section))
    return list(dict.fromkeys(faults))


def _explain(fault: Any, parsed: ParsedFile, model: type[BaseModel], section: Sequence[str]) -> Iterator[str]:
    several = fault.get("ctx", {}).get("error")
    if isinstance(several, KeyFaultsError):
        yield from (f"{parsed.where(*section, key)}: {why}" for key, why in several.faults)
        return
    inner = [str(part) for part in fault["loc"] if part != GATHERED_TEMPLATES]
    keys = [*section, *inner]
    place = parsed.where(*keys)
    if fault["type"] == "extra_forbidden":
        known = _fields(model, inner[:-1]).items()
        nearest = did_you_mean(keys[-1], [field.alias or name for name, field in known])
        yield f"{place}: unknown key '{keys[-1]}'.{nearest}"
    elif fault["type"] == "missing":
        field = _fields(model, inner[:-1]).get(inner[-1])
        said = " or ".join(f"'{inner[-1]}: {example}'" for example in (field and field.examples) or ())
        yield f"{place}: key '{'.'.join(keys)}' is missing{f'; write {said}' if said else ''}"
    else:
        name = ".".join(keys)
        message = fault["msg"].removeprefix("Value error, ")
        yield f"{place}: {name + ': ' if name else ''}{message}"


def _fields(model: type[BaseModel], keys: Sequence[str]) -> dict[str, FieldInfo]:
    """Return the fields of the section that nested keys lead to (``["published"]``); none where it is no model."""
    left = iter(keys)
    for key in left:
        if key not in model.model_fields:
            return {}
        annotation = model.model_fields[key].annotation
        if get_origin(annotation) in (dict, list):
            next(left, None)  # a user-defined name, or a number
        members = (annotation, *get_args(annotation))  # of "PublishedTable | None", the former
        nested = [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]
        if not nested:
            return {}
        model = nested[0]
    return model.model_fields


def as_list(value: Any) -> Any:
    """Take one text, or one mapping, for a list of one."""
    return [value] if isinstance(value, str | dict) else value


def as_entry(key: str) -> BeforeValidator:
    """Return what takes a name, or a function, for the entry of which it is the key."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str | FunctionReference) else value)


def _as_pairs(value: Any) -> Any:
    """Take a name, or a list, of columns that are called alike for pairs."""
    names = [value] if isinstance(value, str) else value
    return {name: name for name in names} if isinstance(names, list) else names


def require_choice(key: str, value: str, known: Sequence[str]) -> None:
    """Raise if an argument of a reader has a value that is none of those that are known.

    Raises:
        TaskError: So it is.
    """
    if value not in known:
        raise TaskError(
            f"dataset_kwargs: {key} '{value}' is unknown.{did_you_mean(str(value), known)}",
            f"Known: {', '.join(known)}.",
        )


def _check_function(value: Any) -> Any:
    if not isinstance(value, FunctionReference | None):
        raise ValueError(f"expected '!function module.name', found {value!r}")
    return value


def _check_templates(value: Any) -> Any:
    if isinstance(value, dict):
        elements = list(value.values())
        if bad := [name for name in value if not re.fullmatch(r"[\w-]+", str(name))] or not elements:
            raise ValueError(f"expected names of letters, digits, '_' and '-', found {bad or value!r}")
    else:
        elements = value if isinstance(value, list) else [value]
    for element in elements:
        if not isinstance(element, str | FunctionReference):
            same = f'; what is the same for all documents is "{{{{ {element} }}}}"'
            raise ValueError(
                f"expected a column, a template or a !function, found {element!r}"
                f"{same if isinstance(element, int | float) else ''}"
            )
    return value


LOCAL_FORMATS = ("json", "csv", "parquet")
"""Values of ``dataset_path`` for data in files next to the task."""

Template = str | FunctionReference
"""A column, a Jinja template over the columns, or a function of the document."""


_Names = Annotated[list[str], BeforeValidator(as_list)]
_Function = Annotated[FunctionReference | None, BeforeValidator(_check_function)]
_Templates = Annotated[Template | list[Template] | dict[str, Template], BeforeValidator(_check_templates)]


class Strict(BaseModel):
    """A section whose unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)


class _Named(BaseModel):
    """An entry that names a registered object; its unknown keys are the object's arguments."""

    model_config = ConfigDict(extra="allow", frozen=True, arbitrary_types_allowed=True)

    # As an attribute it would be a key of the entry, and of the run's fingerprint.
    @property
    def arguments(self) -> dict[str, Any]:
        """The keys that go to the object."""
        return dict(self.model_extra or {})


class MetricEntry(_Named):
    """A metric of ``metric_list``; other keys are the metric's arguments."""

    metric: str | FunctionReference
    """A registered name, ``evaluate:NAME``, or a user-defined function or class."""
    name: str | None = None
    """What the result is called, where one metric is listed twice with other arguments."""
    aggregation: Literal["mean", "corpus"] | None = None
    """How the system-level value is computed; by default as the metric declares."""
    higher_is_better: bool | None = None
    """Whether more is better, for metrics that take it as a setting; for others it must match the metric."""

    @property
    def called(self) -> str:
        """What the result is called: its name, the label that it is given, or the metric."""
        return self.name or str(self.arguments.get("label") or _name_of(self.metric))


class StatisticEntry(_Named):
    """A statistic of ``statistics``; other keys are the statistic's arguments."""

    statistic: str | FunctionReference
    """A registered name, or a user-defined function or class."""
    name: str | None = None
    """What the result is called, where one statistic is listed twice with other arguments."""

    @property
    def called(self) -> str:
        """What the result is called: its name, or the statistic."""
        return self.name or _name_of(self.statistic)

    def names(self, aspects: Sequence[str]) -> list[str]:
        """Return what its results are called, behind which stands the aspect if there are any."""
        return [f"{self.called}.{aspect}" for aspect in aspects] or [self.called]


def _name_of(named: str | FunctionReference) -> str:
    """Return a registered name, or that of a function."""
    return named.function if isinstance(named, FunctionReference) else named


ROWS_OF = "rows of "
"""Stands before the name of a category in the name of its check."""


class Checks(Strict):
    """What a right copy of the data holds; anything else fails before work starts."""

    documents: int | None = None
    """Documents that the data set yields."""
    rows: int | None = None
    """Rated rows, after the rules of the protocol."""
    items: int | None = None
    """Distinct rated captions, after the rules of the protocol."""
    images: int | None = None
    """Distinct images of rated captions."""
    references: int | None = None
    """References of all documents together (``doc_to_target``), before the rules of the protocol."""
    categories: dict[str, int] = Field(default_factory=dict)
    """Rows of each category (``doc_to_category``), its levels separated by ``/``."""
    tau_ratio: float | None = None
    """τ-c/τ-b of a metric without ties, which depends on the ratings alone; held to 0.001."""

    def expected(self) -> dict[str, float]:
        """Return what a right copy has, by what it is called."""
        counts: dict[str, float] = self.model_dump(exclude={"categories"}, exclude_none=True)
        return counts | {f"{ROWS_OF}{name}": count for name, count in self.categories.items()}


class Join(Strict):
    """A file of which each document takes the columns of one row."""

    file: _Names
    """File in the folder of the data; several are read as one."""
    on: Annotated[dict[str, str], BeforeValidator(_as_pairs)]
    """Columns that are equal: one, a list, or those of documents to those of the file."""
    bare: _Names = Field(default_factory=list)
    """Columns of documents, of those in ``on``, that are names of files: compared without folders and suffix."""
    columns: _Names = Field(default_factory=list)
    """Columns of the file that documents take; all unless some are named."""
    mean: _Names = Field(default_factory=list)
    """Columns of the file that are numbers, of which a document takes the mean over all rows of its key."""
    required: bool = True
    """Whether a document without a row is a failure; else its columns are null."""

    @model_validator(mode="after")
    def _has_columns(self) -> Join:
        if not self.file:
            raise ValueError("'file' names no file")
        if not self.on:
            raise ValueError("'on' names no column")
        if foreign := [column for column in self.bare if column not in self.on]:
            raise ValueError(
                f"'bare' names {', '.join(foreign)}; the columns of documents in 'on' are {', '.join(self.on)}"
            )
        return self

    @property
    def named(self) -> str:
        """The files, for messages."""
        return ", ".join(self.file)


class VideoFrames(Strict):
    """The frames of a video that a captioner sees: at equal distances, from the first to the last."""

    count: Annotated[int, Field(ge=1)]
    """Their number; with ``fps`` the most that there may be."""
    fps: Annotated[float, Field(gt=0)] | None = None
    """How many of a second; without it ``count`` of any video."""


class PublishedTable(Strict):
    """The published table that results are compared with."""

    paper: str
    """Key of the paper, as in ``benchmarks/published``."""
    table: int | str
    """Number of its table."""
    task: str
    """Its name for the task; ``{category}`` stands for the category of a result, or ``mean``."""
    categories: list[str] | None = None
    """The categories of its mean; a mean over others is not compared with it."""
    metrics: dict[str, str] = Field(default_factory=dict)
    """Label of a result's metric to the published one's, where they differ; ``{category}`` is as in ``task``."""
    statistics: dict[str, str] = Field(default_factory=dict)
    """Name of a result's statistic to the published one's, where they differ."""


class TaskConfig(Strict):
    """One task. Keys that lm-eval has keep its names and meaning."""

    task: str
    """Name; unique among all folders that are searched."""
    task_alias: str | None = None
    """Name for tables."""
    description: str = ""
    """One sentence for ``bench ls tasks``."""
    tag: _Names = Field(default_factory=list)
    """Tags, by which ``bench run --task TAG`` runs all tasks that carry one."""

    dataset_path: str | None = None
    """Hub id, or ``json``, ``csv`` or ``parquet`` with ``dataset_kwargs.data_files``; a reader's folder or file."""
    dataset_name: str | None = None
    """Configuration on the hub."""
    dataset_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Additional arguments of the loader or of the reader."""
    custom_dataset: _Function = None
    """Reader of a raw format: ``f(path, **dataset_kwargs)`` yields documents (or ``BadRow``). If the data card has
    ``generated: true``, ``f(**dataset_kwargs)``. Without a path, as lm-eval calls it:
    ``f(**metadata, **dataset_kwargs)``. It may return splits by name."""
    test_split: str = "test"
    """Split on the hub."""
    data_source: str | None = None
    """YAML file with the data's source, terms and files (data card)."""
    join: Annotated[list[Join], BeforeValidator(as_list)] = Field(default_factory=list)
    """Files whose columns are added to documents."""
    process_docs: _Function = None
    """``f(documents)`` returns the documents that the task uses."""

    templates: dict[str, _Templates] = Field(default_factory=dict, alias=GATHERED_TEMPLATES)
    """The keys ``doc_to_*``: fields of documents. The protocol defines which exist, and which are required."""
    image_folder: _Names = Field(default_factory=list)
    """Folders of the images that ``doc_to_image`` names, inside the folder of the data set."""
    video_folder: _Names = Field(default_factory=list)
    """Folders of the videos, or of features recorded of their frames (``.npy``, ``.pt``), that it names."""

    video_frames: VideoFrames | None = None
    """The frames of a video that a captioner sees; 8 by default. A model's own ``frames`` and ``fps`` come first."""

    output_type: str = DEFAULT_OUTPUT_TYPE
    """Name of the protocol."""
    generation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Decoding settings of the captioner."""
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$")] = "en"
    """Language of the captions (ISO 639). One other than English sets the ``tokenizer`` of metrics that take one, and
    refuses metrics that read English alone."""
    metric_list: list[Annotated[MetricEntry, as_entry("metric")]] = Field(default_factory=list)
    """Metrics that are computed, or compared with ratings."""
    statistics: list[Annotated[StatisticEntry, as_entry("statistic")]] = Field(default_factory=list)
    """Statistics of the agreement between metrics and ratings."""
    protocol: dict[str, Any] = Field(default_factory=dict)
    """The choices of the protocol that move a number, as the file has them; its own ``Settings`` reads them."""
    checks: Checks = Checks()
    """What a right copy of the data holds."""
    published: PublishedTable | None = None
    """The published table that results are compared with."""
    category_names: dict[str, str] = Field(default_factory=dict)
    """Meaning of each category (a value of ``doc_to_category``), for the legend of a table."""
    scale: float = 1.0
    """Tables show values times this, as the papers of the field do; records keep the plain value."""
    metadata: dict[str, Any]
    """Holds ``version``, which is required: raise it whenever a change moves a number."""

    @model_validator(mode="before")
    @classmethod
    def _gather_templates(cls, values: dict[str, Any]) -> dict[str, Any]:
        templates = {key: value for key, value in values.items() if str(key).startswith("doc_to_")}
        others = {key: value for key, value in values.items() if key not in templates}
        # A file may take back a key that it includes.
        present = {key: value for key, value in templates.items() if value is not None}
        return {**others, GATHERED_TEMPLATES: present} if present else others

    @model_validator(mode="after")
    def _complete(self) -> TaskConfig:
        if faults := list(self.faults_of_the_whole()):
            raise KeyFaultsError(faults)
        return self

    def faults_of_the_whole(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with a task whose values are all of the right type: the key, and what is wrong."""
        if not re.fullmatch(r"\w[\w.-]*", self.task):
            yield "task", f"task '{self.task}': a name holds letters, digits, '_', '-' and '.' alone"
        if self.custom_dataset is None and (suffix := Path(self.dataset_path or "").suffix) in SUFFIXES:
            name = {".jsonl": "json", ".ndjson": "json", ".tsv": "csv"}.get(suffix, suffix[1:])
            yield (
                "dataset_path",
                f"dataset_path '{self.dataset_path}' is a file; write dataset_path: {name}, and name the file as "
                f"this task file sees it: dataset_kwargs: {{data_files: PATH}}, or elsewhere with "
                f"--data {self.task}={self.dataset_path}",
            )
        if self.custom_dataset is None and self.dataset_path is None:
            yield "dataset_path", "one of 'dataset_path' and 'custom_dataset' is required"
        if self.is_local and (ignored := self.dataset_kwargs.keys() - {"data_files", "key", "file"}):
            yield (
                "dataset_kwargs",
                f"dataset_kwargs of a local file are 'data_files', 'file' and, of a JSON object, 'key', not "
                f"{', '.join(sorted(ignored))}; a reader (custom_dataset) takes any",
            )
        if self.dataset_name is not None and (self.is_local or self.custom_dataset is not None):
            yield (
                "dataset_name",
                "dataset_name is the configuration of a hub data set, and this is none; a reader takes dataset_kwargs",
            )
        if self.metadata.get("version") is None:
            yield "metadata", "metadata.version is missing; results of two versions are never mixed"

    @property
    def is_local(self) -> bool:
        """Whether the data is in files next to the task, without a custom reader."""
        return self.custom_dataset is None and self.dataset_path in LOCAL_FORMATS

    @property
    def alias(self) -> str:
        """The name for tables."""
        return self.task_alias or self.task

    @property
    def version(self) -> str | float:
        """The version of the task, as its file states it."""
        return self.metadata["version"]

    @property
    def aspects(self) -> list[str]:
        """What captions are rated by, where ``doc_to_human`` is a mapping; else none."""
        human = self.templates.get("doc_to_human")
        return list(human) if isinstance(human, dict) else []

    def to_json(self) -> dict[str, Any]:
        """Return the keys that the file sets as JSON values; functions become ``!function module.name``."""
        values = {key: getattr(self, key) for key in self.model_fields_set - {"templates"}} | self.templates
        return _to_json(dict(sorted(values.items())), str, only_set=True)

    def fingerprint(self) -> dict[str, Any]:
        """Return what decides the numbers: every key but names and texts, functions with their code's hash.

        Defaults are spelled out, so that a file which states one is the same task.
        """
        left_out = _NOT_IN_FINGERPRINT | {key for key in _ONLY_WHERE_GIVEN if not getattr(self, key)}
        values = {key: value for key, value in vars(self).items() if key not in left_out}
        return _to_json(values | self.templates, FunctionReference.fingerprint, only_set=False)


_NOT_IN_FINGERPRINT = {
    "task", "task_alias", "description", "tag", "published", "scale", "data_source", "checks", "metric_list",
    "protocol", "templates", "category_names",
}  # fmt: skip
"""Names, texts and display; the metrics and the protocol, which have separate fingerprints; and ``templates``, of
which each is a key."""


_ONLY_WHERE_GIVEN = {"join", "video_frames"}
"""Keys added later: tasks without them keep their fingerprint."""


def _to_json(value: Any, function: Callable[[FunctionReference], str], *, only_set: bool) -> Any:
    if isinstance(value, FunctionReference):
        return function(value)
    if isinstance(value, BaseModel):
        kept = {key: v for key, v in value if key in value.model_fields_set or not only_set}
        return _to_json(kept, function, only_set=only_set)
    if isinstance(value, dict):
        return {key: _to_json(v, function, only_set=only_set) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(v, function, only_set=only_set) for v in value]
    return value


_NOT_ASKED = ("doc_to_text", "generation_kwargs", "published")
"""Keys of a task file whose texts name nothing that is called, read or run."""


def requests_of_task(task: TaskConfig, parsed: ParsedFile) -> list[Request]:
    """Return what a task file asks for that costs; nothing of a file that is installed.

    Args:
        task: The task.
        parsed: Its file.
    """
    values = {key: value for key, value in parsed.values.items() if key not in _NOT_ASKED}
    asked = requests_of(values, parsed.path, parsed.where)
    if task.custom_dataset is None and not task.is_local and not is_installed(parsed.path):
        asked.append(Request("addresses", f"{HUB}{task.dataset_path}", parsed.where("dataset_path")))
    return asked


def load_task(path: Path) -> tuple[TaskConfig, ParsedFile]:
    """Read and validate one task file.

    Raises:
        FaultyTaskError: Each fault with its file, line and, for an unknown key, the nearest known one.
    """
    parsed = parse(path)
    try:
        return TaskConfig.model_validate(parsed.values), parsed
    except ValidationError as error:
        faults = faults_of(error, parsed, TaskConfig)
        faulty = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
        task = _without(faulty, parsed)
        if faulty:
            # Pydantic looks at the whole only where every value is of the right type.
            faults += [f"{parsed.where(key)}: {why}" for key, why in task.faults_of_the_whole() if key not in faulty]
        raise FaultyTaskError("\n".join(faults), task, parsed, faulty) from error


def _without(faulty: Set[str], parsed: ParsedFile) -> TaskConfig:
    """Return the task of a file without some keys; required keys get placeholders."""
    stand_ins: dict[str, Any] = {"task": parsed.path.stem, "metadata": {"version": 0}}
    known = TaskConfig.model_fields.keys() - faulty - {"templates"}
    kept = {key: value for key, value in parsed.values.items() if key in known}
    present = {key: value for key, value in parsed.values.items() if str(key).startswith("doc_to_") and value}
    return TaskConfig.model_construct(**(stand_ins | kept), templates=present)
