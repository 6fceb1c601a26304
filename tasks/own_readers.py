"""Calls the reader that a task names with ``custom_dataset``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError, TaskError
from .schema import TaskConfig
from .sources import DataSource
from .yaml_files import display_path


def reader_of(
    task: TaskConfig, path: Path, located: Path | None, source: DataSource | None
) -> Callable[[], Iterable[Any]]:
    """Return what reads the documents of a task.

    Args:
        task: The task; it has a ``custom_dataset``.
        path: Its YAML file.
        located: The folder or file of its data; None where nothing names one.
        source: Its data card, if it has one.

    Raises:
        TaskError: The reader does not take what it is called with.
        DataError: It reads a path, and nothing names one.
    """
    function = task.custom_dataset
    assert function is not None  # noqa: S101 - as said
    read, place = function.resolve(), f"{display_path(path)}: custom_dataset ({function})"
    if source is not None and source.generated:
        given, keywords = (), task.dataset_kwargs
    elif located is not None:
        given, keywords = (located,), task.dataset_kwargs
    else:
        # As lm-eval calls it; what both name is the reader's argument.
        given, keywords = (), {**task.metadata, **task.dataset_kwargs}
    signature = inspect.signature(read)
    try:
        signature.bind(*given, **keywords)
    except TypeError as error:
        if not given and _binds(signature, (path,), task.dataset_kwargs):
            raise DataError(
                f"task '{task.task}': its data is not on this machine.",
                f"Name it with --data {task.task}=PATH, or in the task file as dataset_path: {function} reads a path.",
            ) from error
        called = ", ".join([*map(str, given), *(f"{name}=" for name in keywords)])
        raise TaskError(
            f"{place}: cannot be called with ({called}): {error}",
            "It is given a path, which --data TASK=PATH, dataset_path or a data card names, and dataset_kwargs; "
            "without a path metadata and dataset_kwargs, as lm-eval does: let it take **kwargs.",
        ) from error
    return lambda: _split(read(*given, **keywords), task, place)


def _binds(signature: inspect.Signature, given: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    try:
        signature.bind(*given, **keywords)
    except TypeError:
        return False
    return True


def _split(documents: Any, task: TaskConfig, place: str) -> Iterable[Any]:
    """Return documents, or the split of several that the task is of."""
    if not isinstance(documents, Mapping):
        return documents
    if task.test_split not in documents:
        raise DataError(
            f"{place}: returned no split '{task.test_split}', but {', '.join(map(str, documents)) or 'none'}",
            "test_split names the one to take.",
        )
    return documents[task.test_split]
