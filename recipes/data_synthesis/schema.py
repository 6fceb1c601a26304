"""The keys of a pipeline file: models, stages, output and evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from ...errors import UsageError
from ..training.schema import Loaded, ModelChoice, RecipeDocument, Strict, change_value, digest_without

FOLDER = Path(__file__).parent / "pipelines"
"""Pipelines that ship."""


class Output(Strict):
    """What is written."""

    form: Literal["rows", "dci"] = "rows"
    """``rows``: a table, as recipes and tasks read it. ``dci``: the folder that DCI is distributed as, with
    ``splits.json``, ``complete`` and ``photos``."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Of ``rows``: column to value, in addition to ``id``, ``image`` and ``provenance``; a single text in a list column
    (captions, further_captions, …) becomes a list of one."""
    split: Literal["train", "valid", "test"] = "test"
    """Of ``dci``: the split of all images."""

    @model_validator(mode="after")
    def _fits(self) -> Output:
        foreign = {"rows": {"split"}, "dci": {"columns"}}[self.form] & self.model_fields_set
        if foreign:
            raise ValueError(f"key '{sorted(foreign)[0]}' does not apply to the form '{self.form}'; remove it")
        return self


class JudgingSettings(Strict):
    """How the output is evaluated."""

    texts: dict[str, str]
    """Name of a text in the table to the value that holds it, a text or a list of texts; in order."""
    metrics: list[str] = Field(min_length=1)
    """Metrics, as ``bench score`` names them."""
    encoder: Annotated[
        ModelChoice | None, BeforeValidator(lambda named: {"name": named} if isinstance(named, str) else named)
    ] = None
    """The encoder of metrics: a model as in ``models``, or its name alone; by default the pipeline's own."""


def _named(models: Any) -> Any:
    return {role: model for role, model in models.items() if model is not None} if isinstance(models, dict) else models


class SynthesisPipeline(RecipeDocument):
    """A data synthesis pipeline."""

    pipeline: str
    """Its name."""
    models: Annotated[dict[str, ModelChoice], BeforeValidator(_named)] = Field(default_factory=dict)
    """Role to the model; null for none, where an included file names one."""
    stages: list[dict[str, Any]] = Field(min_length=1)
    """In order; each has ``stage``, optionally ``name``, and the stage's keys."""
    output: Output
    """Which values are written, and in which format."""
    judged: JudgingSettings | None = None
    """How the output is evaluated; by default not at all."""

    def fingerprint(self) -> str:
        """Return a hash of everything that determines the output."""
        return digest_without(self, "description", "paper", "choices", "judged")


class LoadedPipeline(Loaded[SynthesisPipeline]):
    """A pipeline with its file; stages are checked when they are built. See :class:`Loaded`."""

    kind = "pipeline"
    folder = FOLDER
    Document = SynthesisPipeline

    @property
    def pipeline(self) -> SynthesisPipeline:
        """The pipeline."""
        return self.document

    @classmethod
    def change(cls, values: dict[str, Any], change: str) -> tuple[str, ...]:
        """Set a key of the pipeline's values; that of a stage is ``stages.NAME.KEY``."""
        name, sign, text = change.partition("=")
        keys = name.split(".")
        if keys[0] != "stages" or len(keys) < 3:
            return super().change(values, change)
        hits = [
            number
            for number, stage in enumerate(values.get("stages") or ())
            if isinstance(stage, dict) and keys[1] in (stage.get("name"), stage.get("stage"))
        ]
        if len(hits) != 1:
            raise UsageError(
                f"--set {change}: '{keys[1]}' matches {len(hits)} stages", "Name one by its 'name', or its 'stage'."
            )
        # A list that is changed is a copy, as an included file's may stand in several places.
        values["stages"] = list(values["stages"])
        stage = values["stages"][hits[0]] = dict(values["stages"][hits[0]])
        return ("stages", str(hits[0]), *change_value(stage, f"{'.'.join(keys[2:])}{sign}{text}"))


list_pipelines, load_pipeline = LoadedPipeline.shipped, LoadedPipeline.load
