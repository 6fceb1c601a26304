"""Fills rows of a suite with scores that were computed elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import UsageError, did_you_mean
from ...rows import SUFFIXES
from .read import Suite, SuiteRow


def with_recorded(suite: Suite, folder: Path) -> Suite:
    """Return a suite in which the metric ``recorded`` stands for the rows, and tasks, of which a folder has scores.

    ``FOLDER/TASK/ROW.jsonl`` (or another suffix that rows are read from) holds the scores of a row on a task: the
    row as the table calls it, with its model in brackets where several rows have one metric, and ``-`` for ``/``.
    Images are compared without folders and suffix.

    Args:
        suite: The suite.
        folder: The folder.

    Raises:
        UsageError: There is no such folder, or a file in it is of no row or task of the suite.
    """
    if not folder.is_dir():
        raise UsageError(f"--recorded {folder}: there is no such folder")
    tasks = list(dict.fromkeys(column.task for column in suite.columns))
    files: dict[int, dict[str, Path]] = {}
    for file in sorted(path for path in folder.glob("*/*") if path.suffix in SUFFIXES):
        if (task := file.parent.name) not in tasks or not task:
            raise UsageError(
                f"--recorded {file}: '{task}' is no task of suite '{suite.suite}'.{did_you_mean(task, tasks)}",
                f"Its tasks: {', '.join(filter(None, tasks))}.",
            )
        files.setdefault(_row_of(suite, file), {})[task] = file
    rows = [one for at, row in enumerate(suite.rows) for one in _filled(suite, row, files.get(at, {}), tasks)]
    return suite.model_copy(update={"rows": rows})


def _filled(suite: Suite, row: SuiteRow, files: dict[str, Path], tasks: list[str]) -> Iterator[SuiteRow]:
    """Yield a row of each file, and what is left of the row itself."""
    for task, file in files.items():
        metric = f'recorded[file="{file}",label="{_named(suite, row)}",image_names=bare]'
        printed = suite.label(row)
        yield SuiteRow(metric=metric, printed=printed, printed_model=row.printed_model, only=[task])
    left = [task for task in row.only or tasks if task not in files]
    if left or not files:
        yield row.model_copy(update={"only": left}) if files else row


def _row_of(suite: Suite, file: Path) -> int:
    """Return the number of the row that a file is called after."""
    names = [_named(suite, row).replace("/", "-") for row in suite.rows]
    labels = [suite.label(row).replace("/", "-") for row in suite.rows]
    found = [at for at in range(len(names)) if file.stem in (names[at], labels[at])]
    exact = [at for at in found if names[at] == file.stem] or found
    if len(exact) != 1:
        several = f" is of several: {', '.join(names[at] for at in exact)}" if exact else " is of none"
        known = list(dict.fromkeys(filter(None, names)))
        raise UsageError(
            f"--recorded {file}: a file is called after a row of suite '{suite.suite}', and this{several}."
            f"{'' if exact else did_you_mean(file.stem, known)}",
            f"Its rows: {', '.join(known)}.",
        )
    return exact[0]


def _named(suite: Suite, row: SuiteRow) -> str:
    label = suite.label(row)
    return f"{label} ({row.printed_model})" if label and row.printed_model else label
