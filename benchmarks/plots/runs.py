"""The records that a plot is made from: found, read, and chosen among."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import BenchError, DataError, UsageError, did_you_mean
from ..recorded_results import metric_label
from ..records import read_run

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Chosen:
    """A metric of a run that is plotted.

    Attributes:
        record: The ``run.json`` of the run.
        metric: Name of the metric there.
        label: What the plot calls it: as tables do, with its settings or its model where one label is not enough.
    """

    record: Record
    metric: str
    label: str


def read_records(paths: Sequence[Path], notes: list[str] | None = None) -> list[dict[str, Any]]:
    """Read the records of runs.

    Args:
        paths: Folders of runs, or folders with runs below them, or ``run.json`` files.
        notes: Is given a text for every run that cannot be read and is left out.

    Raises:
        DataError: None can be read; the message is that of the first.
    """
    files: dict[Path, Path] = {}
    errors: list[BenchError] = []
    records = []
    for path in paths:
        found = [path / "run.json"] if (path / "run.json").is_file() else sorted(path.rglob("run.json"))
        if not found and path.is_dir():
            errors.append(
                DataError(f"{path}: has no runs (no run.json)", "'bench run' prints the folder of a run.")
            )
        elif not found and not path.exists():
            errors.append(DataError(f"{path}: there is no such folder", "'bench run' prints that of a run."))
        # The same run may be named twice, itself and by a folder above it.
        files |= {file.resolve(): file for file in found or ([path] if path.is_file() else [])}
    for file in files.values():
        try:
            record = read_run(file)
            _require_whole(record, file)
            records.append(record)
        except BenchError as error:
            errors.append(error)
    if not records:
        raise errors[0] if errors else UsageError("no run to plot", "Name the folder of a run.")
    if notes is not None:
        notes += [f"left out: {error.message}" for error in errors]
    return records


def _require_whole(record: Record, file: Path) -> None:
    """Raise unless the record has what every plot reads, in the right form."""
    task = record.get("task")
    expected: dict[str, type | tuple[type, ...]] = {
        "task": str, "task_alias": str, "date": (int, float), "configs": dict, "versions": dict, "config": dict,
        "results": dict, "intervals": dict, "fingerprint_parts": dict,
    }  # fmt: skip
    for key, kind in expected.items():
        if not isinstance(record.get(key), kind):
            raise DataError(f"{file}: is not a whole record of a run: '{key}' is missing or of another type")
    for key in ("configs", "versions", "results"):
        if task not in record[key]:
            raise DataError(f"{file}: is not a whole record of a run: '{key}' says nothing of task '{task}'")
    for key, entry in record["intervals"].items():
        if not isinstance(entry, dict) or not {"metric", "label", "n"} <= set(entry):
            raise DataError(f"{file}: is not a whole record of a run: 'intervals' says too little of '{key}'")


def output_type(record: Record) -> str:
    """Return the name of a run's protocol."""
    return record["configs"][record["task"]].get("output_type", "generate_until")


def by_task(records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Return records by task and version, each with a title, in the order in which they come."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["task"], str(record["versions"][record["task"]])), []).append(record)
    tasks = [task for task, _ in groups]
    return [
        (group[0]["task_alias"] + (f" (version {version})" if tasks.count(task) > 1 else ""), group)
        for (task, version), group in groups.items()
    ]


def limit_note(records: Iterable[Record]) -> str:
    """Return what a title says of runs over a part of the data only, else nothing."""
    limits = {record["config"].get("limit") for record in records} - {None}
    return f" (--limit {', '.join(map(str, sorted(limits)))})" if limits else ""


def choose(records: Sequence[Record], metrics_of: Callable[[Record], Iterable[str]]) -> list[Chosen]:
    """Return the metrics of one task's runs, each once: of those that are the same, the newest.

    Metrics of one name are the same if they were made alike, or with the same model. Captions of two models
    are never the same.

    Args:
        records: Runs of one task.
        metrics_of: Gives the names of the metrics of a run that can be plotted.
    """
    found: list[Chosen] = []
    for record in sorted(records, key=lambda one: one["date"], reverse=True):
        for metric in metrics_of(record):
            one = Chosen(record, metric, metric_label(record, metric))
            if not any(_same(one, other) for other in found):
                found.append(one)
    return _told_apart(found)


def require_metrics(wanted: Sequence[str], known: Iterable[str]) -> None:
    """Raise unless all metrics that the user asks for are there.

    Raises:
        UsageError: One is not.
    """
    known = list(dict.fromkeys(known))
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"no run has metric '{name}' to plot.{did_you_mean(name, known)}",
                f"There are: {', '.join(known)}." if known else "",
            )


def _same(one: Chosen, other: Chosen) -> bool:
    if one.metric != other.metric:
        return False
    same_model = one.record.get("model_name") == other.record.get("model_name")
    if output_type(one.record) == "generate_until":
        return same_model
    made, made_other = (each.record["fingerprint_parts"].get("metrics", {}) for each in (one, other))
    return same_model or made.get(one.metric) == made_other.get(one.metric)


def _told_apart(found: Sequence[Chosen]) -> list[Chosen]:
    result = []
    for one in found:
        namesakes = {other.metric for other in found if other.label == one.label}
        label = one.metric if len(namesakes) > 1 else one.label
        if sum(other.metric == one.metric for other in found) > 1:
            label += f" [{one.record.get('model_name') or 'no model'}]"
        result.append(replace(one, label=label))
    return result
