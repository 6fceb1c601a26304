"""What recorded scores and answers must hold: the pairs that tasks have scored, and the prompts that they ask."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...adapters import Adapter
from ...adapters.judges.responses import RecordedResponses
from ...drafts import written_whole
from ...errors import MetricError, UsageError
from ...progress import Progress, silent
from ...tasks.index import build_index
from ..inputs.failures import FailureLog, FailureSummary, summarise
from ..inputs.settings import RunSettings
from ..protocols.binding import load_bound
from ..running.resolve import ResolvedCall, resolve_call
from ..running.runner import prepare, score
from ..store.store import Store
from .wanted_rows import NO_ANSWER, WantedPairs, WantedPrompts, WantedRows


@dataclass(frozen=True)
class Wanted:
    """What was written.

    Attributes:
        rows: How many rows.
        failures: What cannot be used, whoever scores or answers.
    """

    rows: int
    failures: list[FailureSummary]


def write_pairs(output: Path, tasks: Sequence[str], metrics: Sequence[str] = (), **call: Any) -> Wanted:
    """Write the pairs of images and texts that tasks have an encoder score, as rows of ``pair_scores``.

    Args:
        output: The file (jsonl).
        tasks: Names of tasks, groups or tags.
        metrics: Metrics in place of ``itm_score``, for tasks that take metrics.
        call: As of :func:`_written`.

    Raises:
        BenchError: A name is unknown, data is missing or wrong, or the file cannot be written.
    """

    def collect(rows: WantedRows) -> Mapping[str, Adapter]:
        return {"encoder": WantedPairs(rows)}

    return _written(output, tasks, collect, metrics or ("itm_score",), **call)


def write_prompts(
    output: Path, tasks: Sequence[str], metrics: Sequence[str] = (), answers: Path | None = None, **call: Any
) -> Wanted:
    """Write the prompts that metrics of tasks ask a judge, as rows of ``responses``.

    Args:
        output: The file (jsonl).
        tasks: Names of tasks, groups or tags.
        metrics: Metrics in place of those of the tasks.
        answers: Recorded answers: these are not asked again, and what metrics ask next is.
        call: As of :func:`_written`.

    Raises:
        BenchError: A name is unknown, data is missing or wrong, or a file cannot be read or written.
    """
    known = None if answers is None else RecordedResponses(answers)

    def collect(rows: WantedRows) -> Mapping[str, Adapter]:
        return {"judge": WantedPrompts(rows, known)}

    return _written(output, tasks, collect, metrics, **call)


def _written(
    output: Path,
    tasks: Sequence[str],
    collect: Callable[[WantedRows], Mapping[str, Adapter]],
    metrics: Sequence[str],
    *,
    images: Path | None = None,
    include_path: Sequence[str | Path] = (),
    progress: Progress = silent,
    **call: Any,
) -> Wanted:
    """Score tasks by a model that writes down what it is given, and throw the scores away.

    Args:
        output: The file.
        tasks: Names of tasks, groups or tags.
        collect: Makes that model, by its role.
        metrics: Metrics in place of those of the tasks, of tasks that take some.
        images: Where images are put that are no files: drawn ones, and those in rows of the data.
        include_path: Folders with task files of the user's own.
        progress: Gives a reporter for a step.
        call: As of :func:`.resolve_call`: ``model`` and ``model_args``, what writes captions; ``data``;
            ``allow_outside``.
    """
    failures = FailureLog(strict=False)
    try:
        with (
            written_whole(output) as draft,
            draft.open("w", encoding="utf-8", errors="backslashreplace") as file,
            tempfile.TemporaryDirectory() as place,
            Store(Path(place) / "store.sqlite") as store,
        ):
            rows = WantedRows(file.write, images)
            collecting = collect(rows)
            for entry in build_index(include_path).resolve(tasks):
                takes_metrics = load_bound(entry.path)[2].takes_metrics
                resolved = resolve_call(
                    [entry.name],
                    metric_names=metrics if takes_metrics else (),
                    include_path=include_path,
                    **collecting,
                    **call,
                )
                _ask(resolved, rows, failures, store, progress)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from error
    return Wanted(
        rows.count, summarise(one for one in failures.entries if not one.reason.endswith(NO_ANSWER))
    )


def _ask(
    resolved: ResolvedCall, rows: WantedRows, failures: FailureLog, store: Store, progress: Progress
) -> None:
    """Have one task score by the model that writes down; metrics that look at no model are left aside."""
    (planned,) = resolved.plan
    metrics = [one for one in planned.metrics if one.metric.needs & {"encoder", "judge"}]
    planned = replace(planned, metrics=metrics)
    root = planned.root
    rows.folder = root if root is None or root.is_dir() else root.parent
    settings = RunSettings(skip_checks=True)
    models = resolved.load_models()
    job = prepare(planned, settings, models, locations=resolved.locations, cache=store, progress=progress)
    for one in score(planned, job, failures).metrics:
        if one.scores is None:
            raise MetricError(f"task '{planned.task.task}': metric {one.name} cannot be scored: {one.error}")
