"""The keys of a task file, what they mean and what they may hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ..errors import TaskError, did_you_mean
from ..rows import SUFFIXES
from .yaml_files import FunctionReference, ParsedFile, parse


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_statistic(value: Any) -> Any:
    return {"statistic": value} if isinstance(value, str) else value


def _as_metric(value: Any) -> Any:
    return {"metric": value} if isinstance(value, str) else value


def _check_function(value: Any) -> Any:
    if not isinstance(value, FunctionReference | None):
        raise ValueError(f"expected '!function module.name', found {value!r}")
    return value


def _check_template(value: Any) -> Any:
    if not isinstance(value, str | FunctionReference | None):
        raise ValueError(f"expected a column, a template or a !function, found {value!r}")
    return value


def _check_templates(value: Any) -> Any:
    for element in value if isinstance(value, list) else [value]:
        _check_template(element)
    return value


LOCAL_FORMATS = ("json", "csv", "parquet")
"""What ``dataset_path`` names when the data is in files beside the task."""

Template = str | FunctionReference
"""A column, a Jinja template over the columns, or a function of the document."""


_Function = Annotated[FunctionReference | None, BeforeValidator(_check_function)]
_Getter = Annotated[Template | None, BeforeValidator(_check_template)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)


class _Named(BaseModel):
    """An entry that names a registered object; its unknown keys are the object's arguments."""

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def arguments(self) -> dict[str, Any]:
        """The keys that go to the object."""
        return dict(self.model_extra or {})


class MetricEntry(_Named):
    """A metric of ``metric_list``; other keys are the metric's arguments."""

    metric: str
    name: str | None = None
    """What the result is called, where one metric is listed twice with other arguments."""
    aggregation: Literal["mean", "corpus"] | None = None
    higher_is_better: bool | None = None


class StatisticEntry(_Named):
    """A statistic of ``statistics``; other keys are the statistic's arguments."""

    statistic: str
    name: str | None = None
    """What the result is called, where one statistic is listed twice with other arguments."""


class ProtocolSettings(_Strict):
    """The choices of a protocol that move a number."""

    raters: Literal["flatten", "mean", "per_rater_mean"] = "flatten"
    """Several ratings of one caption: a row each; their mean; or one statistic per rater, then the mean."""
    rated_reference: Literal["keep", "drop_pair", "drop_for_image", "drop_cumulative"] = "keep"
    """A rated caption that is itself a reference of its image: kept; the pair is dropped; that reference is
    dropped for every candidate of the image; or dropped so once a rating, so that of two equal references
    one stays (the released reader of Flickr8k-CF)."""
    reference_match: Literal["exact", "letters_and_digits"] = "exact"
    """When a caption is a reference: same text, or same lower-cased letters and digits."""
    ties: Literal["half", "wrong", "right"] = "half"
    """What a pair counts whose captions have the same score: a half, nothing, or one."""
    first_references: int | None = Field(default=None, ge=1)
    """Only the first so many references of a caption are used."""
    drawn_references: int | None = Field(default=None, ge=1)
    """So many references are drawn at random for each pair, the same for both of its captions."""
    draws: int = Field(default=1, ge=1)
    """How often references are drawn; accuracy is the mean over draws."""
    draw_seed: int = 0
    round_scores: int | None = Field(default=None, ge=0)
    """Scores are rounded to so many decimals before they are held against ratings, which makes ties."""
    human_range: tuple[float, float] | None = None
    """Least and greatest rating; ratings are mapped from it to 0-1. None keeps them as they are."""
    measure: Literal["scm", "neg"] = "scm"
    """What a matching task reports: whether an entry's image finds its captions among those of its group
    (subcrop-caption matching), or prefers them to the entry's negatives."""
    grouping: Literal["blocks", "per_image"] = "blocks"
    """The entries whose captions compete: consecutive ones, over the borders of images; or those of one image."""
    block_size: int = Field(default=8, ge=1)
    """Entries of a block; the last block holds what is left."""
    captions: int = Field(default=1, ge=1)
    """So many captions of an entry are used; entries with fewer are left out."""
    pick: Literal["first", "random"] = "first"
    """Which ones: the first, or drawn at random without repetition."""
    pick_seed: int = Field(default=0, ge=0)

    @field_validator("human_range")
    @classmethod
    def _ascending(cls, human_range: tuple[float, float] | None) -> tuple[float, float] | None:
        if human_range is not None and not human_range[0] < human_range[1]:
            raise ValueError("the least rating stands first, the greatest second")
        return human_range


class Checks(_Strict):
    """What a right copy of the data holds; anything else fails before work starts."""

    documents: int | None = None
    """Documents that the data set yields."""
    rows: int | None = None
    """Rated rows, after the rules of the protocol."""
    items: int | None = None
    """Distinct rated captions, after the rules of the protocol."""
    images: int | None = None
    tau_ratio: float | None = None
    """τ-c/τ-b of a metric without ties, which depends on the ratings alone; held to 0.001."""


class PublishedTable(_Strict):
    """The published table that the results are put beside."""

    paper: str
    table: int
    task: str
    """Its name for the task; ``{category}`` stands for the category of a result, or ``mean``."""
    categories: list[str] | None = None
    """The categories behind its mean; a mean of others is not put beside it."""
    metrics: dict[str, str] = Field(default_factory=dict)
    """Label of a result's metric to the published one's, where they differ."""
    statistics: dict[str, str] = Field(default_factory=dict)
    """Name of a result's statistic to the published one's, where they differ."""


class TaskConfig(_Strict):
    """One task. Keys that lm-eval has keep its names and meaning."""

    task: str
    task_alias: str | None = None
    description: str = ""
    tag: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)

    dataset_path: str | None = None
    """Hub id, or ``json``, ``csv`` or ``parquet`` with ``dataset_kwargs.data_files``."""
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] = Field(default_factory=dict)
    custom_dataset: _Function = None
    """Reader of a raw format: ``f(path, **dataset_kwargs)`` yields documents (or ``BadRow``). Of data that is
    generated, as its data card says, ``f(**dataset_kwargs)``."""
    test_split: str = "test"
    data_source: str | None = None
    """YAML file that says where the data comes from, under which terms, in which files."""
    process_docs: _Function = None
    """``f(documents)`` returns the documents that the task uses."""

    doc_to_id: _Getter = None
    doc_to_text: _Getter = None
    doc_to_image: _Getter = None
    doc_to_pixels: _Getter = None
    """The column with the encoded image, where ``doc_to_image`` gives no more than its name."""
    doc_to_target: Annotated[Template | list[Template] | None, BeforeValidator(_check_templates)] = None
    image_folder: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    """Folders of the images that ``doc_to_image`` names, inside the folder of the data set."""
    video_folder: Annotated[list[str], BeforeValidator(_as_list)] = Field(default_factory=list)
    """Folders of the videos, or of features recorded of their frames (``.npy``, ``.pt``), that it names."""
    doc_to_span: _Getter = None
    """The part of a video: start, end and duration of the whole, in seconds."""
    doc_to_boxes: _Getter = None
    """The parts of an image: a list of boxes, each left, top, right, bottom in pixels."""
    doc_to_entries: _Getter = None
    """The parts of an image that are matched with captions: a list of mappings with ``captions`` and
    ``negatives`` (lists of texts), ``box`` (as above; null for the whole image) and ``key`` (its name)."""
    doc_to_objects: _Getter = None
    """Names of the objects that annotators marked in the image: a list."""
    doc_to_candidate: _Getter = None
    doc_to_human: _Getter = None
    doc_to_candidates: Annotated[Template | list[Template] | None, BeforeValidator(_check_templates)] = None
    """The two captions of a pair."""
    doc_to_preferred: _Getter = None
    """Which of the two is preferred: 0 or 1."""
    doc_to_category: _Getter = None
    """Accuracy is given by category, and as the mean of categories."""
    doc_to_pair: _Getter = None
    """Documents of one pair (the sentences of two paragraphs, say): their scores are averaged first."""

    output_type: str = "generate_until"
    generation_kwargs: dict[str, Any] = Field(default_factory=dict)
    metric_list: list[Annotated[MetricEntry, BeforeValidator(_as_metric)]] = Field(default_factory=list)
    statistics: list[Annotated[StatisticEntry, BeforeValidator(_as_statistic)]] = Field(default_factory=list)
    protocol: ProtocolSettings = ProtocolSettings()
    checks: Checks = Checks()
    published: PublishedTable | None = None
    scale: float = 1.0
    """Tables show values times this, as the papers of the field do; records keep the plain value."""
    metadata: dict[str, Any]

    @model_validator(mode="after")
    def _complete(self) -> TaskConfig:
        if not re.fullmatch(r"\w[\w.-]*", self.task):
            raise ValueError(f"task '{self.task}': a name holds letters, digits, '_', '-' and '.' alone")
        if self.dataset_path and (suffix := Path(self.dataset_path).suffix) in SUFFIXES:
            name = {".jsonl": "json", ".ndjson": "json", ".tsv": "csv"}.get(suffix, suffix[1:])
            raise ValueError(
                f"dataset_path '{self.dataset_path}' is a file; write dataset_path: {name} and "
                f"dataset_kwargs: {{data_files: {self.dataset_path}}}"
            )
        if self.custom_dataset is None and self.dataset_path is None:
            raise ValueError("one of 'dataset_path' and 'custom_dataset' must say where the data is")
        if self.dataset_path in LOCAL_FORMATS and (ignored := self.dataset_kwargs.keys() - {"data_files"}):
            raise ValueError(
                f"dataset_kwargs of a local file are 'data_files' alone, not {', '.join(sorted(ignored))}; "
                "a reader (custom_dataset) takes any"
            )
        required = {
            "generate_until": ("doc_to_text", "metric_list"),
            "agreement": ("doc_to_candidate", "doc_to_human", "metric_list", "statistics"),
            "preference": ("doc_to_candidates", "doc_to_preferred", "metric_list"),
            "matching": ("doc_to_image", "doc_to_entries"),
        }.get(self.output_type, ())
        if missing := [key for key in required if not getattr(self, key)]:
            raise ValueError(f"output_type '{self.output_type}' needs {', '.join(missing)}")
        if self.metadata.get("version") is None:
            raise ValueError("metadata.version is missing; results of two versions are never mixed")
        return self

    @property
    def alias(self) -> str:
        """The name for tables."""
        return self.task_alias or self.task

    @property
    def version(self) -> str | float:
        """The version of the task, as its file states it."""
        return self.metadata["version"]

    def to_json(self) -> dict[str, Any]:
        """Return the keys that the file sets as JSON values; functions become ``!function module.name``."""
        return {
            key: _to_json(getattr(self, key), str, only_set=True) for key in sorted(self.model_fields_set)
        }

    def fingerprint(self) -> dict[str, Any]:
        """Return what decides the numbers: every key but names and texts, functions with their code's hash.

        Defaults are spelled out, so that a file which states one is the same task.
        """
        return {
            key: _to_json(getattr(self, key), FunctionReference.fingerprint, only_set=False)
            for key in type(self).model_fields
            if key not in _NOT_IN_FINGERPRINT
        }


_NOT_IN_FINGERPRINT = {
    "task", "task_alias", "description", "tag", "published", "scale", "data_source", "checks", "metric_list"
}  # fmt: skip
"""Names, texts and display; and the metrics, which a run lists with their own fingerprints."""


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


def load_task(path: Path) -> tuple[TaskConfig, ParsedFile]:
    """Read and validate one task file.

    Raises:
        TaskError: Each fault with its file, line and, for an unknown key, the nearest known one.
    """
    parsed = parse(path)
    try:
        return TaskConfig.model_validate(parsed.values), parsed
    except ValidationError as error:
        faults = dict.fromkeys(_explain(fault, parsed) for fault in error.errors())
        raise TaskError("\n".join(faults)) from error


def _explain(fault: Any, parsed: ParsedFile) -> str:
    keys = [str(part) for part in fault["loc"]]
    place = parsed.where(*keys)
    if fault["type"] == "extra_forbidden":
        return f"{place}: unknown key '{keys[-1]}'.{did_you_mean(keys[-1], _section(keys[:-1]).model_fields)}"
    if fault["type"] == "missing":
        return f"{place}: key '{'.'.join(keys)}' is missing"
    name = ".".join(keys)
    message = fault["msg"].removeprefix("Value error, ")
    return f"{place}: {name + ': ' if name else ''}{message}"


def _section(keys: list[str]) -> type[BaseModel]:
    """Return the model of the section that nested keys lead to (``["published"]``)."""
    section: type[BaseModel] = TaskConfig
    for key in keys:
        annotation = section.model_fields[key].annotation
        members = (annotation, *get_args(annotation))  # of "PublishedTable | None", the former
        section = next(m for m in members if isinstance(m, type) and issubclass(m, BaseModel))
    return section
