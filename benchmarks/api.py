"""The Python API: what the command line does, as functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..adapters import Adapter
from ..errors import MetricError, UsageError
from ..permissions import Permissions, permit
from ..progress import Progress, by_place, numbered
from .inputs.failures import FailureLog, describe
from .inputs.items import require_rule
from .inputs.models import ROLES, Models, NamedModels, load_models, named_or_given
from .inputs.settings import split_metrics
from .running.execution import Execution, execution_of
from .running.rows import Rows, given_rows, plan_rows, score_rows
from .running.score_table import ScoreTable
from .running.scoring import Scorer
from .store.store import Store

if TYPE_CHECKING:
    import numpy as np

    from .scale.executors import Executor
    from .tables.results import Run

__all__ = ["ScoreTable", "compute_score", "evaluate", "load_run", "score"]


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
    engine: Executor | Execution | None = None,
    progress: Progress | None = None,
    on_finish: Callable[[Any], None] = lambda task_run: None,
    on_missing: Callable[[Any], object] = lambda missing: warnings.warn(str(missing), stacklevel=3),
    on_fetch: Callable[[str], object] | None = None,
    allow_server: Sequence[str] = (),
    run_functions: bool = False,
    trust_remote_code: bool = False,
    **settings: Any,
) -> Run:
    """Run tasks with a model.

    Args:
        model: An alias, an adapter's name, ``captions:FILE``, or an adapter object. It writes the captions,
            or encodes or judges for the metrics; None for tasks and metrics that need none.
        tasks: Names of tasks, groups or tags.
        model_args: ``key=value,...`` for the adapter, or a mapping.
        encoder: The encoder of the metrics, next to a ``model`` that writes captions.
        encoder_args: As ``model_args``, for the encoder.
        judge: The judge of the metrics, next to a ``model`` that writes captions.
        judge_args: As ``model_args``, for the judge.
        metrics: Metrics in place of those of the tasks; ``"cider[variant=plain]"`` sets options of one.
        data: Task name to the path of its local data.
        include_path: Folders with your task files.
        output_path: Folder in which runs are written; None writes nothing.
        log_samples: What is written of samples: ``full`` (True), ``none`` (False) or ``scores`` (no texts, no ratings).
        store: The store's file (default: the user's store), or results shared by machines: a URL or ``FOLDER/``.
        engine: The ``Executor`` of ``capbench.benchmarks.scale`` that runs the shards; None is this process.
        progress: Returns a reporter of (done, total) for a step; by default a notebook shows progress bars.
        on_missing: Called before models are loaded with what some metrics lack (``Missing``); warns by default.
        on_fetch: Called with a line on what comes from the hub, before any of it does.
        on_finish: Called with each finished ``TaskRun``, before the next task starts.
        allow_server: Servers that files may name, as ``HOST`` or ``HOST:PORT``; servers in ``model_args`` are allowed.
        run_functions: Whether functions of task files (``!function``) may run; read the files first.
        trust_remote_code: Whether the code of all models may run; for one model, set it in ``model_args``.
        **settings: Fields of ``RunSettings`` (``limit``, ``resamples``, ``seed``, ``strict``, ``allow_outside``, ...).

    Returns:
        The run; ``to_pandas()`` and ``table()`` show it.

    Raises:
        BenchError: A name is unknown, data is missing or wrong, or a model failed.

    Example:
        >>> print(capbench.evaluate("iiw-p5b", ["iiw_400"]).table())
    """
    from .inputs.settings import RunSettings
    from .records.files import require_folder
    from .records.publishing import sample_content
    from .running.plan import resolve_call
    from .running.runner import run
    from .statistics.bootstrap import shared_by
    from .tables.results import Run

    options, samples_hold = RunSettings.from_arguments(settings), sample_content(log_samples)
    with permit(Permissions.of(options.allow_outside, allow_server, run_functions, trust_remote_code, include_path)):
        execution, file = execution_of(engine, store)
        call = resolve_call(
            tasks, model=model, model_args=model_args, encoder=encoder, encoder_args=encoder_args, judge=judge,
            judge_args=judge_args, metric_names=split_metrics(metrics), data=data, include_path=include_path,
            allow_outside=options.allow_outside, loads=() if execution.is_always_elsewhere else ROLES,
            on_fetch=on_fetch,
        )  # fmt: skip
        if call.missing.errors:
            on_missing(call.missing)
        execution.require_named(call.models)
        output, result = Path(output_path) if output_path else None, Run(groups=call.groups)
        if output:
            require_folder(output)
        with shared_by(execution.processes), Store(file, late=True) as opened:
            # Models are loaded once, before the first task. A source of recorded captions costs nothing.
            is_recorded = call.models.captioner is not None and call.models.captioner.is_recorded
            roles = ROLES if not execution.is_always_elsewhere else ("captioner",) if is_recorded else ()
            loaded = load_models(call.models, roles)
            for number, planned in enumerate(call.plan, 1):
                models = Models(**{role: getattr(loaded, role) if getattr(planned, role) else None for role in ROLES})
                before = f"task {number} of {len(call.plan)}, " if len(call.plan) > 1 else ""
                finished = run(
                    planned, options, models, locations=call.locations, store=opened,
                    progress=numbered(progress or by_place(), (), before),
                    output=output, samples_hold=samples_hold, execution=execution,
                )  # fmt: skip
                result.tasks.append(finished)
                on_finish(finished)
        return result


def score(
    rows: Rows | None = None,
    metrics: str | Sequence[str] = (),
    *,
    predictions: Sequence[str] | Mapping[Any, str | Sequence[str]] | None = None,
    references: Sequence[str | Sequence[str]] | Mapping[Any, str | Sequence[str]] | None = None,
    images: Sequence[Any] | Mapping[Any, Any] | None = None,
    model: str | Adapter | None = None,
    model_args: str | Mapping[str, Any] = "",
    judge: str | Adapter | None = None,
    judge_args: str | Mapping[str, Any] = "",
    allow_outside: Sequence[str | Path] = (),
    allow_server: Sequence[str] = (),
    trust_remote_code: bool = False,
    store: str | Path | None = None,
    engine: Executor | Execution | None = None,
    strict: bool = False,
    empty_caption: Literal["zero", "leave_out"] = "zero",
    progress: Progress | None = None,
) -> ScoreTable:
    """Score existing captions: rows, lists of equal length, or mappings with the same ids.

    Args:
        rows: Mappings with ``candidate`` or ``caption`` and, for most metrics, ``references`` (a list); for CHAIR
            ``objects`` (a list); ``id`` and ``image`` if there are any: a path (of an image, a video, or features of
            its frames), encoded bytes, an image of Pillow, or an array ``[h, w, 3]`` of uint8 in RGB, for metrics that
            look at it; ``boxes`` of its parts. A ``BadRow`` (of ``capbench.rows.read_rows``) is counted as a failure.
        metrics: Names of metrics; ``"cider[variant=plain]"`` sets options of one.
        predictions: The captions, in place of rows; or ``{id: [caption]}`` as in pycocoevalcap (a text, or an
            annotation of COCO with its ``caption``), with references and images by id, too.
        references: For each prediction a list of references, or one text.
        images: For each prediction its image, as in rows.
        model: The encoder of images and texts, for metrics that need one.
        model_args: ``key=value,...`` for its adapter, or a mapping.
        judge: The judge of captions, for metrics that need one.
        judge_args: As ``model_args``, for the judge.
        allow_outside: Folders, in addition to the working directory, from which rows may name images by a text.
            A ``Path`` object may lead anywhere.
        allow_server: As of :func:`evaluate`.
        trust_remote_code: As of :func:`evaluate`.
        store: As of :func:`evaluate`.
        engine: As of :func:`evaluate`; models must then be names, not objects.
        strict: Raise at the first row that cannot be scored.
        empty_caption: An empty or invalid caption is scored as an empty one, as in released code (``zero``), or is
            excluded with its references (``leave_out``).
        progress: As of :func:`evaluate`.

    Returns:
        A table with one row per caption and the system-level value of each metric.

    Raises:
        BenchError: A metric is unknown, nothing can be scored, or lengths of lists or ids of mappings differ.
    """
    source = given_rows(rows, predictions, references, images)
    rule, failures, names = require_rule(empty_caption), FailureLog(strict), split_metrics(metrics)
    with permit(Permissions.of(allow_outside, allow_server, trust_remote_code=trust_remote_code)):
        execution, file = execution_of(engine, store)
        named, models = NamedModels(), Models()
        if model is not None or judge is not None:
            named = NamedModels(encoder=named_or_given(model, model_args), judge=named_or_given(judge, judge_args))
            execution.require_named(named)
        planned = plan_rows(names, named)
        if not execution.is_always_elsewhere and named != NamedModels():
            models = load_models(named)
        with Store(file, late=True) as opened:
            scorer = Scorer(planned, models, opened, progress or by_place())
            return score_rows(source, scorer, failures, rule, named, execution)


def compute_score(
    gts: Mapping[Any, Any] | Sequence[Any], res: Mapping[Any, Any] | Sequence[Any], metric: str
) -> tuple[float, np.ndarray]:
    """Score by one metric as a scorer of pycocoevalcap does: ``Cider().compute_score(gts, res)``.

    Captions are tokenised here, which changes none that ``PTBTokenizer`` has tokenised.

    Args:
        gts: References by id: a list of texts, or of COCO's annotations, which have a ``caption``; or lists in order.
        res: The captions by id, each in a list of one; or in order.
        metric: Its name, as of :func:`score`.

    Returns:
        The system-level value, and ``[n]`` the values of the captions in the order of ``gts``.

    Raises:
        BenchError: Ids differ, a caption has no value, or the metric is unknown, not one, or failed.
    """
    if isinstance(gts, Mapping) and isinstance(res, Mapping):
        res = {**dict.fromkeys(gts, ()), **res}
    table = score(predictions=res, references=gts, metrics=metric)
    if len(table.system) != 1:
        raise UsageError(f"compute_score takes one metric, not {', '.join(table.system)}", "score takes several.")
    ((name, value),) = table.system.items()
    values = table.values[name]
    if value is None or values is None or table.failures:
        why = [*table.metric_errors.values(), *map(describe, table.failures), "it is undefined"]
        raise MetricError(f"{name} has no value: {why[0]}")
    return value, values


def load_run(path: str | Path) -> Run:
    """Read a finished run.

    Args:
        path: The run's folder, or its ``run.json``.

    Returns:
        The run, with one task; ``to_pandas()`` and ``table()`` show it as ``evaluate`` did.

    Raises:
        DataError: Missing, not JSON, of a newer schema, or not a whole record.

    Example:
        >>> run = capbench.load_run("results/runs/iiw_400/iiw-p5b/20261122T083313-61f7d561")
        >>> run["iiw_400"].results
    """
    from .records.reading import read_task_run
    from .tables.results import Run

    return Run([read_task_run(Path(path))])
