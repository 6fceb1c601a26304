"""Logs finished runs to Weights & Biases, Trackio or TensorBoard."""

import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, TypeAlias

from ...errors import DataError, counted, extra
from ..records.hashes import plain
from ..records.task_run import TaskRun
from ..tables.results import flat_rows
from .lm_eval_results import model_of

SAMPLES = 1000
"""Rows of the table of samples."""

Cells: TypeAlias = Sequence[Mapping[str, Any]]


def require_tracker(tracker: str) -> None:
    """Raise unless the package of a tracker is installed.

    Raises:
        UsageError: The hint says what to install.
    """
    with extra(tracker, f"--log_to {tracker} needs the package of that name"):
        importlib.import_module(tracker)


def log_run(run: TaskRun, tracker: str) -> str:
    """Log the settings, values, table and first samples of a written run, and return where they are, in a sentence.

    Samples are logged as ``samples.parquet`` has them, but for texts of data that may not be redistributed.

    Args:
        run: The run.
        tracker: ``wandb`` or ``trackio``, which their own environment variables set; or ``tensorboard``, whose event
            file is written to the run's folder.

    Raises:
        DataError: The tracker refuses or cannot be reached.
    """
    record = run.record
    settings = {"task": record.task, "version": record.version, "fingerprint": record.fingerprint}
    settings = plain(settings | dict(record.written_settings))
    values = {result.key: result.value for result in run.results if result.value is not None}
    tables = {"results": flat_rows([run])}
    if record.samples == "scores" or record.samples == record.redistribution == "full":
        tables["samples"] = run.samples.slice(0, SAMPLES).to_pylist()
    try:
        # What trackers print is no part of the table on stdout.
        with redirect_stdout(sys.stderr):
            log = _log_to_tensorboard if tracker == "tensorboard" else _log_to_project
            place = log(run, tracker, settings, values, {name: _texts(rows) for name, rows in tables.items()})
    except Exception as error:
        # Trackers have no common base class for their errors: no key, no network, a name that is taken.
        raise DataError(f"not logged to {tracker}: {type(error).__name__}: {error}") from error
    return f"logged to {tracker}: {', '.join([place, counted(len(values), 'value'), *tables])}"


def _texts(rows: Cells) -> Cells:
    """Return rows whose lists are texts, as a column of a table has one type."""
    return [
        {
            name: json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
            for name, value in row.items()
        }
        for row in plain(rows)
    ]


def _log_to_project(
    run: TaskRun, tracker: str, settings: dict[str, Any], values: dict[str, float], tables: dict[str, Cells]
) -> str:
    """Log to wandb, or to trackio, which has the same functions; return the project and its run."""
    import pandas as pd

    library = importlib.import_module(tracker)
    project = os.environ.get(f"{tracker.upper()}_PROJECT") or "capbench"
    name = f"{run.record.task} {model_of(run)}"
    library.init(project=project, name=name, config=settings)
    try:
        framed = {name: library.Table(dataframe=pd.DataFrame(rows)) for name, rows in tables.items()}
        library.log({**values, **framed})
    finally:
        library.finish()
    return f"project '{project}', run '{name}'"


def _log_to_tensorboard(
    run: TaskRun, tracker: str, settings: dict[str, Any], values: dict[str, float], tables: dict[str, Cells]
) -> str:
    """Log to an event file of the run's folder, and return the folder."""
    from tabulate import tabulate
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(run.folder) as writer:
        for name, value in values.items():
            writer.add_scalar(name, value)
        for name, rows in {"settings": [settings], **tables}.items():
            writer.add_text(name, tabulate(rows, "keys", "github", disable_numparse=True))
    return str(run.folder)
