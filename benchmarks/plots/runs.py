"""Reads the records of a plot, and selects its metrics."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import UsageError, did_you_mean
from ..records.reading import find_records, read_task_runs
from ..records.record import Record


@dataclass(frozen=True)
class PlottedMetric:
    """A metric of a run that is plotted.

    Attributes:
        record: Record of the run.
        metric: Name of the metric there.
        label: Name in the plot: that of tables, with settings or model where labels are equal.
    """

    record: Record
    metric: str
    label: str


def read_records(paths: Sequence[Path], notes: list[str] | None = None) -> list[Record]:
    """Read the records of runs.

    Args:
        paths: Folders of runs, or folders with runs below them, or ``run.json`` files.
        notes: Receives a text for every run that cannot be read and is left out.

    Raises:
        DataError: None can be read; the message is that of the first.
    """
    files, missing = find_records(paths)
    runs, faults = read_task_runs(files)
    errors = [*missing, *faults]
    if not runs:
        raise errors[0] if errors else UsageError("there are no runs to plot", "Give the folder of a run.")
    if notes is not None:
        notes += [f"left out: {error.in_one_line}" for error in errors]
    return [run.record for run in runs]


def by_task(records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Return records by task and version, each with a title, in the order in which they come."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.task, str(record.version)), []).append(record)
    tasks = [task for task, _ in groups]
    return [
        (group[0].alias + (f" (version {version})" if tasks.count(task) > 1 else ""), group)
        for (task, version), group in groups.items()
    ]


def limit_note(records: Iterable[Record]) -> str:
    """Return the suffix of a title for runs with a limit; empty without one."""
    limits = {record.settings.limit for record in records if record.settings.limit is not None}
    return f" (--limit {', '.join(map(str, sorted(limits)))})" if limits else ""


def choose(
    records: Sequence[Record], metrics_of: Callable[[Record], Iterable[str]], wanted: Sequence[str]
) -> list[PlottedMetric]:
    """Return the metrics of one task's runs, each once: the newest of equal ones.

    Metrics of one name are equal if they have the same settings, or the same model. Those of captions of two models
    are never equal.

    Args:
        records: Runs of one task.
        metrics_of: Returns the names of a run's metrics that can be plotted.
        wanted: Names of metrics; empty for all.
    """
    chosen: list[PlottedMetric] = []
    for record in sorted(records, key=lambda record: record.date, reverse=True):
        for metric in metrics_of(record):
            plotted = PlottedMetric(record, metric, record.metric_label(metric))
            if not any(_same(plotted, other) for other in chosen):
                chosen.append(plotted)
    return [plotted for plotted in _told_apart(chosen) if not wanted or plotted.metric in wanted]


def require_metrics(wanted: Sequence[str], known: Iterable[str]) -> None:
    """Raise unless all requested metrics exist.

    Raises:
        UsageError: One is not.
    """
    known = list(dict.fromkeys(known))
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"no run has metric '{name}' to plot.{did_you_mean(name, known)}",
                f"Available: {', '.join(known)}." if known else "",
            )


def _same(plotted: PlottedMetric, other: PlottedMetric) -> bool:
    if plotted.metric != other.metric:
        return False
    same_model = plotted.record.model_name == other.record.model_name
    if plotted.record.protocol.needs_captioner:
        return same_model
    source, other_source = (each.record.made_by.get(plotted.metric) for each in (plotted, other))
    return same_model or source == other_source


def _told_apart(chosen: Sequence[PlottedMetric]) -> list[PlottedMetric]:
    result = []
    for plotted in chosen:
        namesakes = {other.metric for other in chosen if other.label == plotted.label}
        label = plotted.metric if len(namesakes) > 1 else plotted.label
        if sum(other.metric == plotted.metric for other in chosen) > 1:
            label += f" [{plotted.record.model_name or 'no model'}]"
        result.append(replace(plotted, label=label))
    return result
