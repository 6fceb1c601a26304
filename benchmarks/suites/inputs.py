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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from ...access import Request, linked_outside, requests_of, require_permitted
from ...errors import TaskError, UsageError, did_you_mean
from ...rows import SUFFIXES
from ...tasks.schema import Strict, faults_of
from ...tasks.yaml_files import ParsedFile, parse
from .read import RECORDED, Suite, list_suites

MODELS = "models.yaml"
_WIDTH = 113


class RowModel(Strict):
    """A model for a row: as ``bench run`` takes it."""

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
    parsed = parse(folder / MODELS) if (folder / MODELS).is_file() else None
    requests = [*linked_outside(folder), *(requests_of(parsed.values, parsed.path, parsed.where) if parsed else ())]
    require_permitted(requests)
    files: dict[tuple[int, str, str], Path] = {}
    for file in sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        place = _place_or_none(suite, file, file.relative_to(folder).parts)
        if place in files:
            raise UsageError(f"--recorded {folder}: {files[place]} and {file} fill the same cells", "Keep one of them.")
        if place:
            files[place] = file
    return RowInputs(files, _models(suite, parsed) if parsed else {}, requests)


def file_name(name: str) -> str:
    """Return the file name of a row or a column."""
    return name.replace("/", "-")


def _place_or_none(suite: Suite, file: Path, parts: Sequence[str]) -> tuple[int, str, str] | None:
    """Return the row, the task and, of scores of captions, the column of a file; None if it is for another suite."""
    if len(parts) not in (2, 3):
        raise UsageError(f"--recorded {file}: expected DIR/TASK/ROW{file.suffix} or DIR/TASK/ROW/COLUMN{file.suffix}")
    task, row, *of_captions = *parts[:-1], file.stem
    suites = [suite, *(other for other in list_suites() if other.suite != suite.suite)]
    tasks = {column.task: column.task for other in suites for column in other.columns if column.task}
    _find(suite, file, "task", task, tasks)
    faults: list[UsageError] = []
    for candidate in suites:
        columns = [column for column in candidate.columns if column.task == task]
        if not columns:
            continue
        try:
            number = _rows_of(candidate, file, row, task)[0]
            measured = [column for column in columns if column.metric]
            known = _unique((name, column.name) for column in measured for name in (column.name, column.printed_metric))
            column = _find(candidate, file, "column", file.stem, known) if of_captions else ""
        except UsageError as error:
            faults.append(error)
        else:
            return (number, task, column) if candidate is suite else None
    # The error of a suite with a similar name, if there is one.
    raise min(faults, key=lambda fault: "Did you mean" not in fault.message)


def _unique(names: Iterable[tuple[str | None, str]]) -> dict[str, str]:
    """Return what each name stands for, without names of several things."""
    things: dict[str, set[str]] = {}
    for name, thing in names:
        if name:
            things.setdefault(file_name(name), set()).add(thing)
    return {name: thing for name, (thing, *others) in things.items() if not others}


def _find(suite: Suite, file: Path, kind: str, name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise UsageError(
            f"--recorded {file}: suite '{suite.suite}' has no {kind} '{name}'.{did_you_mean(name, known)}",
            f"'bench show {suite.suite}' lists its tasks, columns and rows.",
        )
    return known[name]


def _rows_of(suite: Suite, file: Path, called: str, task: str = "") -> list[int]:
    """Return the numbers of the rows with a name, its whole one or a part that no other name has.

    They are several where a row has another metric for some of the tasks.
    """
    by_name: dict[str, list[int]] = {}
    parts: list[tuple[str | None, str]] = []
    for at, row in enumerate(suite.rows):
        if not (task and row.only and task not in row.only):
            name = file_name(suite.name(row))
            by_name.setdefault(name, []).append(at)
            parts += [(suite.label(row), name), (row.printed_model, name)]
    numbers = by_name[_find(suite, file, "row", called, _unique(parts) | {name: name for name in by_name})]
    if no_task := suite.rows[numbers[0]].no_task:
        raise UsageError(f"--recorded {file}: row '{called}' of suite '{suite.suite}' cannot be filled: {no_task}")
    return numbers


def _models(suite: Suite, parsed: ParsedFile) -> dict[int, RowModel]:
    known = [suite.suite for suite in list_suites()]
    for name, rows in parsed.values.items():
        if name not in (*known, suite.suite):
            raise TaskError(f"{parsed.where(name)}: unknown suite '{name}'.{did_you_mean(name, known)}")
        if not isinstance(rows, dict):
            raise TaskError(f"{parsed.where(name)}: expected ROW: {{model: NAME, ...}}")
    models: dict[int, RowModel] = {}
    for called, values in parsed.values.get(suite.suite, {}).items():
        numbers = _rows_of(suite, parsed.path, file_name(str(called)))
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
    texts = [f"{task}: {', '.join(dict.fromkeys(names))}" for task, names in tasks.items()]
    parts = list(zip_longest(["tasks"], texts, fillvalue=""))
    parts.append(("rows", "; ".join(rows)))
    parts.append(("to fill", "DIR/TASK/ROW.jsonl with --recorded DIR, and more in docs/suites.md"))
    parts += [("note", suite.note)] if suite.note else []
    indented = textwrap.TextWrapper(_WIDTH, subsequent_indent=" " * 13, break_on_hyphens=False)
    return "\n".join([*lines, *(line for name, text in parts for line in indented.wrap(f"{name:<13}{text}"))])
