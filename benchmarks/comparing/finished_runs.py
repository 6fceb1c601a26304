"""Finished runs of one task, read back to be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrow import numbers, numbers_in_lists
from ...errors import DataError, UsageError, did_you_mean
from ..records.files import RECORD_FILE
from ..records.reading import read_record, runs_below
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, open_samples, read_columns
from ..statistics.rated_rows import Ratings

if TYPE_CHECKING:
    import pyarrow

_TEXTS = ("candidate", "candidates", "references", "negatives")


@dataclass(frozen=True)
class FinishedRun:
    """A run with its samples.

    Attributes:
        path: The folder, as the user named it.
        record: Its ``run.json``.
        columns: Columns of its samples.
        read: Returns some columns of its samples.
    """

    path: Path
    record: Record
    columns: list[str]
    read: Callable[[Sequence[str]], pyarrow.Table]

    @cached_property
    def samples(self) -> pyarrow.Table:
        """Its usable samples, without captions and references, which are most of a file and rarely needed."""
        return self._read([name for name in self.columns if name not in _TEXTS])

    def _read(self, names: Sequence[str]) -> pyarrow.Table:
        """Return columns without failed samples, which have no image."""
        samples = self.read(names)
        images = samples["image"]
        return samples.filter(images.is_valid()) if images.null_count else samples

    @property
    def aspects(self) -> list[str]:
        """The aspects by which captions are rated, where the task has any."""
        human = self.record.config.get("doc_to_human")
        return list(human) if isinstance(human, dict) else []

    def aspect_of(self, statistic: str) -> str:
        """Return the aspect of ratings that a statistic of the task is of; empty where it has none."""
        return statistic.rpartition(".")[2] if self.aspects else ""

    @cached_property
    def metrics(self) -> dict[str, Mapping[str, Any]]:
        """Metrics with scores in the samples and what decides their values; or the measures of the protocol."""
        protocol, columns = self.record.protocol, set(self.samples.column_names)
        return {
            name: origin
            for name, origin in (self.record.made_by or {key: {} for key in protocol.measures}).items()
            if (column := protocol.score_column(name)) in columns
            and self.samples[column].null_count < len(self.samples)
        }

    def short_name(self, runs: Sequence[FinishedRun]) -> str:
        """Return the name of the folder, or its path where another run's folder has the same name."""
        name = self.path.resolve().name
        return name if [run.path.resolve().name for run in runs].count(name) == 1 else str(self.path)

    def scores(self, metric: str) -> np.ndarray:
        """Return the score of each sample, NaN where it has none."""
        return numbers(self.samples[self.record.protocol.score_column(metric)])

    def ratings(self, aspect: str = "") -> Ratings:
        """Return the ratings of each sample, NaN for a rater who gave none; of one aspect, where there are several."""
        return Ratings(*numbers_in_lists(self.samples[f"ratings.{aspect}" if aspect else "ratings"]))

    def values(self, column: str) -> list[Any]:
        """Return a column, empty if the file lacks it; columns of texts are read on demand."""
        if column not in self.columns:
            return []
        samples = self._read([column, "image"]) if column in _TEXTS else self.samples
        return samples[column].to_pylist()


@dataclass(frozen=True)
class Contestant:
    """A metric of a run, or a captioner, in a comparison.

    Attributes:
        name: Its unique name.
        label: The name in tables.
        run: Its run.
        metric: Name of the metric in that run.
        values: ``[samples]``, NaN where it has none.
    """

    name: str
    label: str
    run: FinishedRun
    metric: str
    values: np.ndarray


def read_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Read runs of one task.

    Raises:
        UsageError: A folder is named twice.
        DataError: One cannot be read, or they are of different tasks or versions.
    """
    runs: dict[Path, FinishedRun] = {}
    for folder in folders:
        folder = folder.parent if folder.name in (RECORD_FILE, SAMPLES_FILE) else folder
        if folder.resolve() in runs:
            raise UsageError(f"{folder}: the run is listed twice")
        runs[folder.resolve()] = _read(folder)
    require_same_task(list(runs.values()))
    return list(runs.values())


def require_same_task(runs: Sequence[FinishedRun]) -> None:
    """Raise unless runs are of one task.

    Raises:
        DataError: They are of different tasks or versions.
    """
    first, *others = runs
    for run in others:
        for noun, name in (("task", "task"), ("version", "version"), ("protocol", "output_type")):
            value, other = (getattr(each.record, name) for each in (first, run))
            if value != other:
                raise DataError(
                    f"runs of different {noun}s cannot be compared: {first.path} is of {noun} {value}, "
                    f"{run.path} of {noun} {other}"
                )


def _read(folder: Path) -> FinishedRun:
    if folder.is_dir() and not (folder / RECORD_FILE).exists():
        below = [run for run in runs_below(folder) if run != folder]
        raise DataError(
            f"{folder}: not a run folder, as {RECORD_FILE} is missing",
            "Run folders below it: " + ", ".join(map(str, below[-3:])) if below else "",
        )
    record = read_record(folder)
    file = open_samples(folder, record)
    return FinishedRun(folder, record, file.schema_arrow.names, partial(read_columns, folder, file))


def scored_metrics(runs: Sequence[FinishedRun], wanted: Sequence[str]) -> tuple[list[Contestant], list[str]]:
    """Return the metrics to compare, with unique names, and notes on those that are left out.

    A metric with the same settings and scores in several runs is one metric. Others of the same name get the model of
    their run in brackets or, where that is the same, its folder.

    Args:
        runs: Runs over the same data.
        wanted: Names of metrics, with or without brackets; empty for all.

    Raises:
        UsageError: A name is unknown, or fewer than two metrics are left.
    """
    chosen: list[Contestant] = []
    notes = []
    for run in runs:
        for metric in run.metrics:
            values = run.scores(metric)
            if twin := next((other for other in chosen if _equal(other, run, metric, values)), None):
                if not wanted or metric in wanted:
                    notes.append(f"{metric} has the same scores in {twin.run.path} and {run.path}; it is listed once")
            else:
                chosen.append(Contestant(metric, run.record.metric_label(metric), run, metric, values))
        reasons = run.record.metric_errors
        for metric in dict.fromkeys([*run.record.made_by, *reasons]):
            if metric in run.metrics:
                continue
            reason = reasons.get(metric, "no sample has a score")
            if metric in wanted:
                raise UsageError(f"metric '{metric}' has no scores in {run.path}: {reason}")
            if not wanted:
                notes.append(f"{metric} has no scores in {run.path} and is left out: {reason.partition(chr(10))[0]}")
    chosen = _told_apart(chosen, runs)
    if wanted:
        known = list(dict.fromkeys(name for entry in chosen for name in (entry.metric, entry.name)))
        for name in wanted:
            if name not in known:
                raise UsageError(
                    f"no run has metric '{name}'.{did_you_mean(name, known)}", f"There are {', '.join(known)}."
                )
        chosen = [entry for entry in chosen if entry.metric in wanted or entry.name in wanted]
    if len(chosen) < 2:
        names = ", ".join(f"'{entry.name}'" for entry in chosen) or "none"
        raise UsageError(
            f"a comparison needs two metrics or more; found {names}", "Choose more metrics, or add a run folder."
        )
    return chosen, notes


def _equal(entry: Contestant, run: FinishedRun, metric: str, values: np.ndarray) -> bool:
    return (
        entry.metric == metric
        and entry.run.metrics[metric] == run.metrics[metric]
        and np.array_equal(entry.values, values, equal_nan=True)
    )


def _told_apart(chosen: Sequence[Contestant], runs: Sequence[FinishedRun]) -> list[Contestant]:
    result = []
    labels = {(entry.metric, entry.label) for entry in chosen}
    for entry in chosen:
        twins = [other for other in chosen if other.metric == entry.metric]
        models = [other.run.record.model_name for other in twins]
        # Two settings of one metric in a run have the same label; their names differ.
        label = entry.label if sum(other == entry.label for _, other in labels) == 1 else entry.metric
        mark = ""
        if len(twins) > 1:
            model = entry.run.record.model_name
            mark = f" [{model if model and models.count(model) == 1 else entry.run.short_name(runs)}]"
        result.append(replace(entry, name=entry.metric + mark, label=label + mark))
    return result


def own_decoding(record: Record, others: Sequence[Record]) -> str:
    """Return the decoding settings of a run that differ in another run (``temperature=1``); empty if none does.

    Args:
        record: Record of the run.
        others: Records of the other runs; it may be among them.
    """
    own = record.decoding.items()
    return settings_text({key: value for key, value in own if any(it.decoding.get(key) != value for it in others)})


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return decoding settings as ``num_beams=1, temperature=1``, in the order of their names."""
    return ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
