"""The Python API: what the command line does, as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..adapters import Adapter, Captioner, Encoder, Judge
from ..adapters.aliases import ModelSpec, resolve_model
from ..errors import UsageError
from ..rows import BadRow
from ..tasks.index import build_index
from ..tasks.locate import DataLocations
from .metric_names import split_metrics
from .models import Models, NamedModels, load
from .plan import make_plan
from .publishing import sample_content
from .records import read_run, require_folder
from .run import Run
from .runner import Progress, carry_out, silent
from .score_rows import ScoreTable, score_rows
from .settings import RunSettings
from .store import Store, default_store_path

__all__ = ["Run", "ScoreTable", "evaluate", "load_run", "score"]


def evaluate(
    model: str | Adapter | None = None,
    tasks: str | Sequence[str] = (),
    *,
    model_args: str | Mapping[str, Any] = "",
    encoder: str | Adapter | None = None,
    encoder_args: str | Mapping[str, Any] = "",
    judge: str | Adapter | None = None,
    judge_args: str | Mapping[str, Any] = "",
    metrics: str | Sequence[str] = (),
    data: Mapping[str, str | Path] | None = None,
    include_path: Sequence[str | Path] = (),
    output_path: str | Path | None = None,
    log_samples: bool | Literal["full", "scores", "none"] = True,
    store: str | Path | None = None,
    progress: Progress = silent,
    on_finish: Callable[[Any], None] = lambda task_run: None,
    **settings: Any,
) -> Run:
    """Run tasks with a model.

    Args:
        model: An alias, an adapter's name, ``captions:FILE``, or an adapter of your own (an object): what
            writes the captions, or encodes images and texts or judges for the metrics; None for tasks and
            metrics that need none.
        tasks: Names of tasks, groups or tags.
        model_args: ``key=value,...`` for the adapter, or a mapping.
        encoder: The model that encodes for the metrics, beside one that writes captions.
        encoder_args: The same for its adapter.
        judge: The model that judges for the metrics, beside one that writes captions.
        judge_args: The same for its adapter.
        metrics: Metrics in place of those of the tasks; ``"cider[variant=plain]"`` gives one settings.
        data: Task name to the path of its local data.
        include_path: Folders with task files of your own.
        output_path: Folder below which runs are written; None writes nothing.
        log_samples: What is written of the samples beside each record: ``full`` (True), ``none`` (False), or
            ``scores``, for data that may not be passed on: no texts, ratings or references.
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
    options = RunSettings.from_arguments(settings)
    samples_hold = sample_content(log_samples)
    index = build_index(include_path)
    paths = {name: Path(path) for name, path in (data or {}).items()}
    locations = DataLocations.from_environment(index.expand_names(paths))
    spec, given = _resolve(model, model_args)
    encoder_spec, given_encoder = _resolve(encoder, encoder_args)
    judge_spec, given_judge = _resolve(judge, judge_args)
    named = NamedModels.of(spec, encoder_spec, judge_spec)
    plan = make_plan(
        index, _names(tasks), models=named, metric_names=split_metrics(metrics), locations=locations
    )
    if output_path:
        require_folder(Path(output_path))
    # Loaded once for all tasks, and before any of them starts.
    captioner, loaded_encoder, loaded_judge = None, None, None
    if named.captioner is not None and any(planned.captioner for planned in plan):
        captioner = load(named.captioner, Captioner, given)
    if named.encoder is not None and any(planned.encoder for planned in plan):
        loaded_encoder = load(named.encoder, Encoder, given if named.encoder is spec else given_encoder)
    if named.judge is not None and any(planned.judge for planned in plan):
        loaded_judge = load(named.judge, Judge, given if named.judge is spec else given_judge)
    run = Run()
    with Store(Path(store) if store else default_store_path()) as opened:
        for planned in plan:
            task_run = carry_out(
                planned,
                options,
                Models(
                    captioner if planned.captioner else None,
                    loaded_encoder if planned.encoder else None,
                    loaded_judge if planned.judge else None,
                ),
                locations=locations,
                store=opened,
                progress=progress,
                output=Path(output_path) if output_path else None,
                samples_hold=samples_hold,
            )
            run.tasks.append(task_run)
            on_finish(task_run)
    return run


def score(
    rows: Iterable[Mapping[str, Any] | BadRow],
    metrics: str | Sequence[str],
    *,
    model: str | Adapter | None = None,
    model_args: str | Mapping[str, Any] = "",
    judge: str | Adapter | None = None,
    judge_args: str | Mapping[str, Any] = "",
    store: str | Path | None = None,
    strict: bool = False,
    progress: Progress = silent,
) -> ScoreTable:
    """Score captions that are at hand.

    Args:
        rows: Mappings with ``candidate`` and, for most metrics, ``references`` (a list); for CHAIR
            ``objects`` (a list); ``id`` and ``image`` if there are any: a path (of an image, a video, or features of
            its frames), or encoded bytes, for metrics that look at it; ``boxes`` of its parts. A ``BadRow`` (of
            ``capbench.rows.read_rows``) is counted as a failure.
        metrics: Names of metrics; ``"cider[variant=plain]"`` gives one settings.
        model: What encodes images and texts, for metrics that need it.
        model_args: ``key=value,...`` for its adapter, or a mapping.
        judge: What judges captions, for metrics that need it.
        judge_args: The same for its adapter.
        store: The store's file; the user's own unless given.
        strict: Raise at the first row that cannot be scored.
        progress: Gives a reporter of (done, total) for a step.

    Returns:
        A table with one row a caption and the system-level value of each metric.

    Raises:
        BenchError: An unknown metric, or nothing can be scored.
    """
    spec, given = _resolve(model, model_args)
    judge_spec, given_judge = _resolve(judge, judge_args)
    with Store(Path(store) if store else default_store_path()) as opened:
        return score_rows(
            rows,
            split_metrics(metrics),
            encoder=load(spec, Encoder, given) if spec else None,
            judge=load(judge_spec, Judge, given_judge) if judge_spec else None,
            store=opened,
            strict=strict,
            progress=progress,
        )


def _resolve(
    model: str | Adapter | None, model_args: str | Mapping[str, Any]
) -> tuple[ModelSpec | None, Adapter | None]:
    """Return what a model is called, and the model itself if it was given."""
    if model is None:
        return None, None
    if isinstance(model, str):
        return resolve_model(model, model_args), None
    if not isinstance(model, Adapter):
        raise UsageError(
            f"model is a name or an adapter, not {type(model).__name__}",
            "An adapter is a subclass of capbench.adapters.Captioner, Encoder or Judge.",
        )
    name = getattr(model, "name", type(model).__name__)
    return ModelSpec(name, type(model).__qualname__, built=type(model)), model


def _names(names: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def load_run(path: str | Path) -> dict[str, Any]:
    """Read the record of a finished run.

    Args:
        path: The run's folder, or its ``run.json``.

    Raises:
        DataError: Missing, not JSON, or of a newer schema.
    """
    return read_run(Path(path))
