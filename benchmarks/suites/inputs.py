"""User-provided scores, captions and models for rows of a suite.

``FOLDER/TASK/ROW.jsonl`` (or another suffix that rows are read from) holds scores of the row's metric on a task; where
columns are metrics, captions by the row's model; and where the task measures an encoder, scores that it gave images and
texts. ``FOLDER/TASK/ROW/COLUMN.jsonl`` holds scores of captions by the metric of a column. A row is called as the table
calls it, with its model in brackets where several rows have one metric, and with ``-`` for ``/``.
``FOLDER/models.yaml`` names models: ``{SUITE: {ROW: {model: NAME, model_args: {...}}}}``. One folder may serve several
suites.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...access import Request, linked_outside, requests_of, require_permitted
from ...errors import TaskError, UsageError, did_you_mean
from ...rows import SUFFIXES
from ...tasks.schema import faults_of
from ...tasks.yaml_files import parse
from .read import RECORDED, Suite, list_suites

MODELS = "models.yaml"
_WIDTH = 113
_INDENT = " " * 13


class RowModel(BaseModel):
    """A model for a row: as ``bench run`` takes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = None
    """Alias, adapter, or ``captions:FILE``."""
    model_args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of its adapter."""
    judge: str | None = None
    """Alias or adapter of the judge."""
    judge_args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of its adapter."""
    generation_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Decoding settings, over those of the row."""
    trained_on: list[str] = Field(default_factory=list)
    """Images that it was trained on, by their names in the suite's columns."""

    @model_validator(mode="after")
    def _something(self) -> RowModel:
        if not (self.model or self.judge):
            raise ValueError("give a model or a judge")
        return self


@dataclass(frozen=True)
class RowInputs:
    """User-provided inputs for the rows of a suite, by row number.

    Attributes:
        files: By row, task and name of the column, scores of the row's captions; and without a column (empty), scores
            of the row's metric, captions by its model, or scores of pairs.
        models: By row, the model.
        requests: Requests of the folder that need permission.
    """

    files: Mapping[tuple[int, str, str], Path] = field(default_factory=dict)
    models: Mapping[int, RowModel] = field(default_factory=dict)
    requests: Sequence[Request] = ()


NOTHING = RowInputs()


def read_inputs(suite: Suite, folder: Path) -> RowInputs:
    """Return the inputs of a folder for the rows of a suite; inputs for other suites are ignored.

    Args:
        suite: The suite.
        folder: The folder.

    Raises:
        UsageError: There is no such folder, a file in it is of no row, task or column of any suite, or a request is
            not permitted.
        TaskError: Its ``models.yaml`` is faulty.
    """
    if not folder.is_dir():
        raise UsageError(f"--recorded {folder}: there is no such folder")
    require_permitted(requests := _requests(folder))
    files: dict[tuple[int, str, str], Path] = {}
    for file in sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        place = _place_or_none(suite, file, file.relative_to(folder).parts)
        if place in files:
            raise UsageError(f"--recorded {folder}: {files[place]} and {file} fill the same cells", "Keep one of them.")
        if place:
            files[place] = file
    return RowInputs(files, _models(suite, folder / MODELS), requests)


def file_name(name: str) -> str:
    """Return the file name of a row or a column."""
    return name.replace("/", "-")


def _place_or_none(suite: Suite, file: Path, parts: Sequence[str]) -> tuple[int, str, str] | None:
    """Return the place of a file in a suite; None if the file is for another suite."""
    faults: dict[str, UsageError] = {}
    for candidate in (suite, *(other for other in list_suites() if other.suite != suite.suite)):
        try:
            place = _place_of(candidate, file, parts)
        except UsageError as error:
            faults[candidate.suite] = error
        else:
            return place if candidate is suite else None
    # The error of a suite with the task, preferably of one with a similar row name.
    with_task = [faults[other.suite] for other in (suite, *list_suites()) if parts[0] in _tasks_of(other)]
    raise min(with_task or [faults[suite.suite]], key=lambda fault: "Did you mean" not in fault.message)


def _tasks_of(suite: Suite) -> list[str]:
    return list(dict.fromkeys(column.task for column in suite.columns if column.task))


def _place_of(suite: Suite, file: Path, parts: Sequence[str]) -> tuple[int, str, str]:
    """Return the row, the task and, of scores of captions, the column that a file is for."""
    if len(parts) not in (2, 3):
        raise UsageError(f"--recorded {file}: expected DIR/TASK/ROW{file.suffix} or DIR/TASK/ROW/COLUMN{file.suffix}")
    task, tasks = parts[0], _tasks_of(suite)
    if task not in tasks:
        everywhere = [name for other in [suite, *list_suites()] for name in _tasks_of(other)]
        raise UsageError(
            f"--recorded {file}: suite '{suite.suite}' has no task '{task}'."
            f"{'' if task in everywhere else did_you_mean(task, everywhere)}",
            f"Its tasks: {', '.join(tasks)}. 'bench show SUITE' lists tasks and rows of each.",
        )
    columns = [column for column in suite.columns if column.task == task]
    number = _rows_of(suite, file, file.stem if len(parts) == 2 else parts[1], task)[0]
    if len(parts) == 2:
        return number, task, ""
    measured = [column for column in columns if column.metric]
    matches = [
        column.name
        for column in measured
        if file.stem in {file_name(name) for name in (column.name, column.printed_metric) if name}
    ]
    if len(matches) != 1:
        known = [column.name for column in measured]
        raise UsageError(
            f"--recorded {file}: '{file.stem}' matches {'several columns' if matches else 'no column'} of task "
            f"'{task}' in suite '{suite.suite}'.{did_you_mean(file.stem, known)}",
            f"Its columns: {', '.join(known) or 'none'}.",
        )
    return number, task, matches[0]


def _rows_of(suite: Suite, file: Path, called: str, task: str = "") -> list[int]:
    """Return the numbers of the rows with a name: several where a row has another metric for some of the tasks."""
    rows = [(at, row) for at, row in enumerate(suite.rows) if not (task and row.only and task not in row.only)]
    names = {at: file_name(suite.name(row)) for at, row in rows}
    short = {at: [file_name(name) for name in (suite.label(row), row.printed_model) if name] for at, row in rows}
    matches = [at for at, _ in rows if called in (names[at], *short[at])]
    exact = [at for at in matches if names[at] == called] or matches
    if len({names[at] for at in exact}) != 1 or (task and len(exact) > 1):
        several = f"several rows of suite '{suite.suite}': {', '.join(names[at] for at in exact)}."
        known = list(dict.fromkeys(names.values()))
        none = f"no row of suite '{suite.suite}'.{did_you_mean(called, known)}"
        raise UsageError(
            f"--recorded {file}: '{called}' matches {several if exact else none}", f"Its rows: {', '.join(known)}."
        )
    if no_task := suite.rows[exact[0]].no_task:
        raise UsageError(f"--recorded {file}: row '{called}' of suite '{suite.suite}' cannot be filled: {no_task}")
    return exact


def _requests(folder: Path) -> list[Request]:
    """Return the requests of a folder: its models, and links to outside files."""
    asked = list(linked_outside(folder))
    if (file := folder / MODELS).is_file():
        parsed = parse(file)
        asked += requests_of(parsed.values, parsed.path, parsed.where)
    return asked


def _models(suite: Suite, file: Path) -> dict[int, RowModel]:
    if not file.is_file():
        return {}
    parsed = parse(file)
    known = [suite.suite for suite in list_suites()]
    for name, rows in parsed.values.items():
        if name not in (*known, suite.suite):
            raise TaskError(f"{parsed.where(name)}: unknown suite '{name}'.{did_you_mean(name, known)}")
        if not isinstance(rows, dict):
            raise TaskError(f"{parsed.where(name)}: expected ROW: {{model: NAME, ...}}")
    models: dict[int, RowModel] = {}
    for called, values in parsed.values.get(suite.suite, {}).items():
        numbers = _rows_of(suite, file, file_name(str(called)))
        if any(suite.rows[number].metric == RECORDED for number in numbers):
            raise TaskError(
                f"{parsed.where(suite.suite, called)}: no model can compute the metric of this row",
                "Fill the row with precomputed scores: DIR/TASK/ROW.jsonl.",
            )
        try:
            model = RowModel.model_validate({"model": values} if isinstance(values, str) else values)
        except ValidationError as error:
            raise TaskError("\n".join(faults_of(error, parsed, RowModel, suite.suite, called))) from error
        models |= dict.fromkeys(numbers, model)
    return models


def describe(suite: Suite) -> str:
    """Return a suite as lines for people.

    Args:
        suite: The suite.
    """
    tasks: dict[str, list[str]] = {}
    for column in suite.columns:
        if column.task:
            names = [column.name] if column.name else column.statistics
            tasks.setdefault(column.task, []).extend(map(file_name, names))
    rows = dict.fromkeys(file_name(suite.name(row)) for row in suite.rows)
    lines = [suite.suite, *textwrap.wrap(suite.description, 100), ""]
    lines += _part("tasks", [f"{task}: {', '.join(dict.fromkeys(names))}" for task, names in tasks.items()])
    lines += _part("rows", ["; ".join(rows)])
    lines += _part("to fill", ["DIR/TASK/ROW.jsonl with --recorded DIR, and more in docs/suites.md"])
    lines += _part("note", [suite.note]) if suite.note else []
    return "\n".join(lines)


def _part(name: str, texts: list[str]) -> list[str]:
    """Return texts after a name, each on a new line."""
    indented = textwrap.TextWrapper(_WIDTH, _INDENT, _INDENT, break_on_hyphens=False)
    first, *others = (line for text in texts for line in indented.wrap(text))
    return [name + first[len(name) :], *others]
