"""The keys of a pipeline: models, stages, what is written, and what judges it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from ...errors import UsageError
from ..training.schema import Loaded, Strict, change_value

FOLDER = Path(__file__).parent / "pipelines"
"""Pipelines that ship."""


class PipelineModel(Strict):
    """A model by its alias or adapter."""

    name: str
    """An alias, an adapter, or a folder that a recipe made."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Of its adapter."""

    @property
    def told(self) -> str:
        """What reports and provenance call it: its name, and its weights where the pipeline names them."""
        weights = self.arguments.get("pretrained")
        return self.name if weights is None else f"{self.name} ({weights})"


class Output(Strict):
    """What is written."""

    form: Literal["rows", "dci"] = "rows"
    """``rows``: a table, as recipes and tasks read it. ``dci``: the folder that DCI is distributed as, with
    ``splits.json``, ``complete`` and ``photos``."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Of ``rows``: column to the value that it holds, beside ``id``, ``image`` and ``provenance``; a text in a column
    of several (captions, further_captions, …) becomes a list of one."""
    format: Literal["jsonl", "parquet"] = "jsonl"
    """Of ``rows``."""
    split: Literal["train", "valid", "test"] = "test"
    """Of ``dci``: the split that all images are of."""

    @model_validator(mode="after")
    def _fits(self) -> Output:
        foreign = {"rows": {"split"}, "dci": {"columns", "format"}}[self.form] & self.model_fields_set
        if foreign:
            raise ValueError(f"'{sorted(foreign)[0]}' is no key of the form '{self.form}'")
        return self


class JudgingSettings(Strict):
    """How what was made is judged."""

    texts: dict[str, str]
    """What a text is called in the table, in order, to the value that holds it: a text or a list of texts."""
    metrics: list[str] = Field(min_length=1)
    """Metrics, as ``bench score`` names them."""
    encoder: Annotated[
        PipelineModel | None, BeforeValidator(lambda named: {"name": named} if isinstance(named, str) else named)
    ] = None
    """The encoder of metrics: a model as in ``models``, or its name alone; by default the pipeline's own."""


def _named(models: Any) -> Any:
    return {role: one for role, one in models.items() if one is not None} if isinstance(models, dict) else models


class SynthesisPipeline(Strict):
    """How data is made."""

    pipeline: str = Field(validation_alias=AliasChoices("pipeline", "maker"))
    """Its name; ``maker`` in older files."""
    description: str = ""
    """What it makes, in a sentence."""
    paper: str = ""
    """Where the method is printed."""
    choices: dict[str, str] = Field(default_factory=dict)
    """Keys that the paper leaves open, each with what this pipeline takes and why."""
    models: Annotated[dict[str, PipelineModel], BeforeValidator(_named)] = Field(default_factory=dict)
    """Role to the model; null for none, where an included file names one."""
    stages: list[dict[str, Any]] = Field(min_length=1)
    """In order; each has ``stage``, perhaps ``name``, and the stage's own keys."""
    output: Output
    """What is written, and in which form."""
    judged: JudgingSettings | None = None
    """How what was made is judged; not at all unless given."""
    seed: Annotated[int, Field(ge=0)] = 0
    """What every choice by chance starts from."""

    def fingerprint(self) -> str:
        """Return a hash of everything that decides what is made."""
        return self.digest_without("description", "paper", "choices", "judged")


class LoadedPipeline(Loaded[SynthesisPipeline]):
    """A pipeline with the file that it is from; its stages are checked when they are built. See :class:`Loaded`."""

    kind = "pipeline"
    folder = FOLDER
    Document = SynthesisPipeline

    @property
    def pipeline(self) -> SynthesisPipeline:
        """The pipeline."""
        return self.document

    @classmethod
    def change(cls, values: dict[str, Any], change: str) -> tuple[tuple[str, ...], str, str]:
        """Set a key of the pipeline's values; that of a stage is ``stages.NAME.KEY``."""
        name, sign, text = change.partition("=")
        keys = name.split(".")
        if keys[0] != "stages" or len(keys) < 3:
            return super().change(values, change)
        found = [
            number
            for number, one in enumerate(values.get("stages") or ())
            if isinstance(one, dict) and keys[1] in (one.get("name"), one.get("stage"))
        ]
        if len(found) != 1:
            raise UsageError(
                f"--set {change}: {len(found)} stages are called '{keys[1]}'", "Name one by its 'name', or its 'stage'."
            )
        # A list that is changed is a copy, as an included file's may stand in several places.
        values["stages"] = list(values["stages"])
        stage = values["stages"][found[0]] = dict(values["stages"][found[0]])
        of_stage = change_value(stage, f"{'.'.join(keys[2:])}{sign}{text}")
        return ("stages", str(found[0]), *keys[2:]), name, of_stage[1]


list_pipelines, load_pipeline = LoadedPipeline.shipped, LoadedPipeline.load
