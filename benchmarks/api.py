"""The Python API: what the command line does, as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..adapters.aliases import ModelSpec, resolve_model
from ..rows import BadRow
from ..tasks.index import build_index
from ..tasks.locate import DataLocations
from .plan import make_plan
from .records import read_run, require_folder
from .run import Run
from .runner import Progress, carry_out, silent
from .score_rows import ScoreTable, score_rows
from .settings import RunSettings
from .store import Store, default_store_path

__all__ = ["Run", "ScoreTable", "evaluate", "load_run", "score"]


def evaluate(
    model: str | ModelSpec | None = None,
    tasks: Sequence[str] = (),
    *,
    model_args: str = "",
    metrics: Sequence[str] = (),
    data: Mapping[str, str | Path] | None = None,
    include_path: Sequence[str | Path] = (),
    output_path: str | Path | None = None,
    log_samples: bool = True,
    store: str | Path | None = None,
    progress: Progress = silent,
    on_finish: Callable[[Any], None] = lambda task_run: None,
    **settings: Any,
) -> Run:
    """Run tasks with a model.

    Args:
        model: An alias, an adapter's name or ``captions:FILE``; None for tasks that judge metrics.
        tasks: Names of tasks, groups or tags.
        model_args: ``key=value,...`` for the adapter.
        metrics: Metrics in place of those of the tasks.
        data: Task name to the path of its local data.
        include_path: Folders with task files of your own.
        output_path: Folder below which runs are written; None writes nothing.
        log_samples: Whether samples are written beside each record.
        store: The store's file; the user's own unless given.
        progress: Gives a reporter of (done, total) for a step.
        on_finish: Called with each finished ``TaskRun``, so that a later failure loses nothing.
        **settings: Fields of ``RunSettings`` (``limit``, ``resamples``, ``seed``, ``strict``, ...).

    Returns:
        The run; ``to_pandas()`` and ``table()`` show it.

    Raises:
        BenchError: A name is unknown, data is missing or wrong, or a model failed.

    Example:
        >>> run = capbench.evaluate("iiw-p5b", ["iiw_400"])
        >>> print(run.table())
    """
    options = RunSettings(**settings)
    locations = DataLocations.from_environment({task: Path(path) for task, path in (data or {}).items()})
    index = build_index(include_path)
    spec = resolve_model(model, model_args) if isinstance(model, str) else model
    plan = make_plan(index, tasks, model=spec, metric_names=metrics, locations=locations)
    if output_path:
        require_folder(Path(output_path))
    # Loaded once for all tasks, and before any of them starts.
    loaded = spec.load() if spec is not None and any(planned.model for planned in plan) else None
    run = Run()
    with Store(Path(store) if store else default_store_path()) as opened:
        for planned in plan:
            task_run = carry_out(
                planned,
                options,
                loaded,
                locations=locations,
                store=opened,
                progress=progress,
                output=Path(output_path) if output_path else None,
                log_samples=log_samples,
            )
            run.tasks.append(task_run)
            on_finish(task_run)
    return run


def score(
    rows: Iterable[Mapping[str, Any] | BadRow],
    metrics: Sequence[str],
    *,
    store: str | Path | None = None,
    strict: bool = False,
    progress: Progress = silent,
) -> ScoreTable:
    """Score captions that are at hand.

    Args:
        rows: Mappings with ``candidate`` and, for most metrics, ``references`` (a list); ``id`` and
            ``image`` if there are any. A ``BadRow`` (of ``capbench.rows.read_rows``) is counted as a failure.
        metrics: Names of metrics.
        store: The store's file; the user's own unless given.
        strict: Raise at the first row that cannot be scored.
        progress: Gives a reporter of (done, total) for a step.

    Returns:
        A table with one row a caption and the system-level value of each metric.

    Raises:
        BenchError: An unknown metric, or nothing can be scored.
    """
    with Store(Path(store) if store else default_store_path()) as opened:
        return score_rows(rows, metrics, store=opened, strict=strict, progress=progress)


def load_run(path: str | Path) -> dict[str, Any]:
    """Read the record of a finished run.

    Args:
        path: The run's folder, or its ``run.json``.

    Raises:
        DataError: Missing, not JSON, or of a newer schema.
    """
    return read_run(Path(path))
