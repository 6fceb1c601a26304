"""The places of a suite's table: the run of each, or why there is none and which inputs would fill it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .inputs import NOTHING, RowInputs, RowModel
from .read import RECORDED, Suite, SuiteColumn, SuiteRow

_WITH = "(--recorded DIR: docs/suites.md)"
CAPTIONS = f"captions in DIR/TASK/ROW.jsonl fill it, or a model in DIR/models.yaml {_WITH}"
SCORES = f"scores computed elsewhere fill it, rows of image, caption and score in DIR/TASK/ROW.jsonl {_WITH}"
SCORES_OR_MODEL = f"scores in DIR/TASK/ROW.jsonl fill it, or a model in DIR/models.yaml {_WITH}"
SCORES_OF_COLUMN = f"scores computed elsewhere fill it, in DIR/TASK/ROW/COLUMN.jsonl {_WITH}"
MODEL = (
    "a model in DIR/models.yaml fills it, or rows of image, text and score, as a model elsewhere gave them, in "
    f"DIR/TASK/ROW.jsonl {_WITH}"
)


@dataclass(frozen=True)
class RowModels:
    """The models of a row, which identify its run.

    Attributes:
        model: Name of the model.
        encoder: Name of the encoder of the metrics.
        judge: Name of the judge of the metrics.
        decoding: How the model decodes.
        model_args: Arguments of the model.
        judge_args: Arguments of the judge.
    """

    model: str | None = None
    encoder: str | None = None
    judge: str | None = None
    decoding: Mapping[str, Any] = field(default_factory=dict)
    model_args: Mapping[str, Any] = field(default_factory=dict)
    judge_args: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Return the hash of its names: arguments are mappings, which have none."""
        return hash((self.model, self.encoder, self.judge))

    def named(self) -> dict[str, Any]:
        """Return the models as :func:`capbench.evaluate` takes them."""
        return {name: value for name, value in vars(self).items() if name != "decoding"}


@dataclass(frozen=True)
class TablePlace:
    """Cells that one metric of one run fills.

    Attributes:
        row: The row.
        column: The columns.
        models: The models of the run.
        metric: The metric; empty for a measure of the task itself.
        needs: Why nothing is run, and which inputs would fill the cells; empty where there is a run.
        recorded: The user's file of scores; None where they are computed.
    """

    row: SuiteRow
    column: SuiteColumn
    models: RowModels
    metric: str
    needs: str = ""
    recorded: Path | None = None

    @property
    def key(self) -> tuple[RowModels, str, str]:
        """Models, task and metric."""
        return self.models, self.column.task, self.metric


_NO_MODEL = RowModel.model_construct()


def places(suite: Suite, inputs: RowInputs = NOTHING) -> Iterator[TablePlace]:
    """Yield the places of the table that are meant to be filled, row by row.

    Args:
        suite: The suite.
        inputs: User-provided inputs for its rows.
    """
    for number, row, column in suite.places():
        model = inputs.models.get(number)
        file = inputs.files.get((number, column.task, ""))
        scores = inputs.files.get((number, column.task, column.name)) if column.name else None
        models = _models(row, column, model)
        metric = column.metric or row.metric or ""
        if file and column.metric:
            models = RowModels(f"captions:{file}", column.encoder, models.judge, judge_args=models.judge_args)
        elif file and metric:
            models, metric = RowModels(), _recorded(file, suite.name(row))
        elif file:
            models = RowModels("pair_scores", model_args={"path": str(file), "name": suite.name(row)})
        if scores:
            models, metric = replace(models, encoder=None), _recorded(scores, column.name)
        needs = _needs(row, column, model, metric, is_given=bool(file))
        # A file of captions has no scores: those are computed.
        recorded = scores if column.metric else file
        yield TablePlace(row, column, models, metric, needs, None if needs else recorded)


def _models(row: SuiteRow, column: SuiteColumn, model: RowModel | None) -> RowModels:
    model = model or _NO_MODEL
    settings = row.generation_kwargs | model.generation_kwargs, model.model_args, model.judge_args
    return RowModels(model.model or row.model, column.encoder, model.judge or row.judge, *settings)


def _recorded(file: Path, label: str) -> str:
    return f'{RECORDED}[file="{file}",label="{label}",image_names=bare]'


def _needs(row: SuiteRow, column: SuiteColumn, model: RowModel | None, metric: str, *, is_given: bool) -> str:
    """Return why nothing is run for a place; empty where something is."""
    if column.needs or row.no_task:
        return column.needs or row.no_task
    if seen := {*row.trained_on, *(model.trained_on if model else ())} & {*column.images}:
        return f"the model was trained on images that this column is measured on: {', '.join(sorted(seen))}"
    is_named = is_given or model is not None or not (row.needs or (column.metric and not row.model))
    how = ""
    if column.metric:
        how = "" if is_named else CAPTIONS
        if is_named and metric == RECORDED:
            return SCORES_OF_COLUMN
    elif row.metric == RECORDED:
        how = "" if is_given else SCORES
    elif row.metric:
        how = "" if is_named else SCORES_OR_MODEL
    elif not (is_given or model or (row.model and not row.needs)):
        how = MODEL
    return f"{row.needs}: {how}" if row.needs and how else how
