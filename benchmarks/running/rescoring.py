"""Verifies that finished runs are intact, and rescores them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters.aliases import list_aliases
from ...adapters.captioners.recorded import RecordedCaptions
from ...atomic_files import temporary_folder
from ...errors import BenchError, DataError, counted
from ...progress import Progress, silent
from ..inputs.failures import FailureSummary, describe
from ..inputs.models import load_models
from ..inputs.settings import RunSettings
from ..records.files import read_file
from ..records.publishing import without_folders
from ..records.reading import read_task_run
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, read_samples, scores_alone
from ..records.task_run import TaskRun
from ..store.store import Store
from .plan import ResolvedCall, resolve_call
from .runner import run as run_task

SAME = 1e-5
"""Tolerance of equal values: sums and products are rounded differently by machine and kernel."""


@dataclass(frozen=True)
class Rescored:
    """The result of rescoring a run.

    Attributes:
        differences: Metric to the largest difference of the common values, including those of single captions.
        faults: Metric to the values that only one of the two has, with the reason.
        not_checkable: Metric to the values that cannot be rescored here, with the reason: a missing model, images
            outside the allowed folders.
        reason: Why the run could not be rescored; or empty.
    """

    differences: Mapping[str, float] = field(default_factory=dict[str, float])
    faults: Mapping[str, str] = field(default_factory=dict[str, str])
    not_checkable: Mapping[str, str] = field(default_factory=dict[str, str])
    reason: str = ""

    @property
    def metrics(self) -> list[str]:
        """The metrics with a result."""
        return list(dict.fromkeys([*self.differences, *self.faults, *self.not_checkable]))

    @property
    def differing(self) -> list[str]:
        """The metrics whose values differ."""
        return [metric for metric in self.metrics if metric in self.faults or self.differences.get(metric, 0.0) > SAME]


def score_again(run: TaskRun, *, progress: Progress = silent, **options: Any) -> Rescored:
    """Rescore a finished run with its task, the data and its recorded captions.

    Does not read or write the user's store.

    Args:
        run: The run, read from its record.
        progress: Returns a reporter of (done, total) for a step.
        **options: ``data``, ``include_path`` and ``allow_outside``, as of :func:`~.plan.resolve_call`.
    """
    with temporary_folder() as folder:
        try:
            captioner = _kept_captions(run, folder) if run.record.protocol.needs_captioner else None
            call = _call(run.record, captioner, options)
            (planned,) = call.plan
            if str(planned.task.version) != str(run.record.version):
                return Rescored(
                    reason=f"the run is of version {run.record.version} of its task, which is at {planned.task.version}"
                )
            with Store(folder / "store.sqlite") as store:
                models = load_models(call.models)
                again = run_task(
                    planned, _settings(run.record), models, locations=call.locations, store=store, progress=progress
                )
            return _compared(run, again)
        except BenchError as error:
            return Rescored(reason=error.in_one_line)


def _kept_captions(run: TaskRun, folder: Path) -> RecordedCaptions:
    """Return a captioner with the captions of a run's samples.

    Raises:
        DataError: The run has none.
    """
    if run.record.samples != "full":
        raise DataError(f"the run has no captions: it was written with --log_samples {run.record.samples}")
    rows = run.samples.select(["id", "candidate"]).to_pylist()
    lines = [json.dumps({"id": row["id"], "caption": row["candidate"]}) for row in rows if row["candidate"] is not None]
    path = folder / "captions.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    # Only captions that the run scored are rescored.
    return RecordedCaptions(path, run.record.model_name, subset=True)


def _call(record: Record, captioner: RecordedCaptions | None, options: Mapping[str, Any]) -> ResolvedCall:
    """Resolve the call that made a record.

    Raises:
        BenchError: The task, its data, a metric or a model is not here.
    """
    models: dict[str, Any] = {}
    aliases = list_aliases()
    for role, (name, used) in record.settings.metric_models.items():
        if (alias := aliases.get(name)) is not None:
            # Folders of another machine are replaced by those of the alias here.
            own = without_folders(alias.arguments)
            arguments = {key: value for key, value in used.items() if own.get(key) != value}
            models |= {role: name, f"{role}_args": arguments}
        else:
            models |= {role: name if captioner else record.settings.adapter, f"{role}_args": used}
    return resolve_call([record.task], model=captioner, metric_names=list(record.made_by), **options, **models)


def _settings(record: Record) -> RunSettings:
    used = record.settings
    # Intervals are not compared; data is compared by its hash, not by the checks.
    return RunSettings(limit=used.limit, seed=used.seed, resamples=0, skip_checks=True, generation_kwargs=used.decoding)


def _compared(run: TaskRun, again: TaskRun) -> Rescored:
    record, rerun = run.record, again.record
    failed = _failed_here(record, again)
    if rerun.data_hash != record.data_hash:
        if record.documents_hash and rerun.documents_hash == record.documents_hash:
            fault = "the captions that the run kept are not those that it scored"
            return Rescored(faults=dict.fromkeys(record.metrics, fault))
        return Rescored(reason=failed.get("") or "the data here is not what the run scored")
    table = next(scores_alone(lambda: [again.samples])) if record.samples == "scores" else again.samples
    has_samples = run.folder is not None and (run.folder / SAMPLES_FILE).is_file()
    kept, rows = _scored_rows(run.samples) if has_samples else None, _scored_rows(table)
    errors = {metric: why for metric, why in rerun.metric_errors.items() if metric in record.metrics}
    not_checkable = {metric: why for metric, why in failed.items() if metric in record.metrics} | errors
    differences: dict[str, float] = {}
    faults: dict[str, str] = {}
    for metric in (name for name in record.metrics if name not in errors):
        parts: list[_Values] = []
        if kept is not None and metric in kept.column_names:
            parts.append(_of_captions(kept, rows, metric, metric in failed))
        if metric not in failed:
            parts.append(_of_results(record, rerun, metric))
        largest = [part.largest for part in parts if part.largest is not None]
        if largest or metric not in failed:
            differences[metric] = max(largest, default=0.0)
        if missing := [fault for part in parts for fault in part.faults()]:
            faults[metric] = "; ".join(missing)
    return Rescored(differences, faults, not_checkable)


def _failed_here(record: Record, again: TaskRun) -> dict[str, str]:
    """Return the failures on more samples than in the run, with the reason: by metric, or '' for documents."""
    before: Counter[str] = Counter()
    for failure in record.failures:
        before[_metric_of(failure)] += failure["count"]
    here: dict[str, list[FailureSummary]] = {}
    for failure in again.failures:
        here.setdefault(without_folders(_metric_of(failure)), []).append(failure)
    more = {
        metric: failures
        for metric, failures in here.items()
        if sum(failure["count"] for failure in failures) > before[metric]
    }
    return {
        metric: describe(first) + (f"; and {counted(len(others), 'more reason')}" if others else "")
        for metric, (first, *others) in more.items()
    }


def _metric_of(failure: FailureSummary) -> str:
    return failure["reason"].partition(": ")[0] if failure["stage"] == "metric" else ""


@dataclass(frozen=True)
class _Values:
    """Values of the run and of rescoring.

    Attributes:
        run: ``[n]`` of the run; not finite where there is none.
        here: ``[n]`` of rescoring; likewise.
        reasons: Why each value of the run, and of rescoring, is missing.
    """

    run: np.ndarray
    here: np.ndarray
    reasons: tuple[Sequence[str | None], Sequence[str | None]]

    @property
    def largest(self) -> float | None:
        """The largest difference; None where no value is compared."""
        both = np.isfinite(self.run) & np.isfinite(self.here)
        return float(np.abs(self.run - self.here)[both].max()) if both.any() else None

    def faults(self) -> Iterator[str]:
        """Yield the number of values that only one side has, with the reason for the first."""
        run, here = np.isfinite(self.run), np.isfinite(self.here)
        for missing, where, reason in zip(
            (here & ~run, run & ~here), ("in the run", "here"), self.reasons, strict=True
        ):
            if number := int(missing.sum()):
                why = reason[int(missing.argmax())] or "no reason given"
                yield f"{counted(number, 'value')} missing {where}: {why}"


def _scored_rows(samples: Any) -> Any:
    # Unusable samples come last, without an image.
    return samples.filter(samples["image"].is_valid())


def _of_results(record: Record, rerun: Record, metric: str) -> _Values:
    pairs = [
        (result, rerun.results.get(key, replace(result, value=None, reason="there is no such result")))
        for key, result in record.results.items()
        if result.metric == metric
    ]
    values = np.array([[first.value, other.value] for first, other in pairs], dtype=np.float64).reshape(-1, 2)
    return _Values(
        values[:, 0], values[:, 1], ([first.reason for first, _ in pairs], [other.reason for _, other in pairs])
    )


def _of_captions(kept: Any, rows: Any, metric: str, has_failed: bool) -> _Values:
    """Return the scores of captions, without those that failed here."""
    if metric not in rows.column_names or not kept["id"].equals(rows["id"]):
        nothing = np.full(len(kept), np.nan)
        return _Values(np.zeros(len(kept)), nothing, ((), ["the run has other samples"] * len(kept)))
    run, here = (np.array(table[metric].to_pylist(), dtype=np.float64) for table in (kept, rows))
    if has_failed:
        run = np.where(np.isnan(here), np.nan, run)
    return _Values(run, here, (kept["failure"].to_pylist(), rows["failure"].to_pylist()))


@dataclass(frozen=True)
class Verified:
    """The result of verifying a run.

    Attributes:
        folder: The folder of the run.
        run: The run; None where its record cannot be read.
        faults: The faults.
        again: The result of rescoring; None where it was not requested.
    """

    folder: Path
    run: TaskRun | None
    faults: tuple[str, ...] = ()
    again: Rescored | None = None

    @property
    def is_sound(self) -> bool:
        """Whether the run is without faults."""
        return not self.faults and not (self.again and self.again.differing)


def verify_run(file: Path) -> Verified:
    """Verify a run by its schema, fingerprint, checksum and the checksums of its files.

    Args:
        file: Its ``run.json``.
    """
    folder = file.parent
    try:
        run = read_task_run(file)
    except DataError as error:
        return Verified(folder, None, (error.in_one_line.removeprefix(f"{folder}/"),))
    return Verified(folder, run, tuple(_faults_of_files(folder, run.record)))


def _faults_of_files(folder: Path, record: Record) -> Iterator[str]:
    for name in record.files or {}:
        if not (folder / name).is_file():
            yield f"{name}: is missing"
            continue
        try:
            if name == SAMPLES_FILE:
                read_samples(folder, record)
            else:
                read_file(folder, record, name)
        except DataError as error:
            yield error.message.removeprefix(f"{folder}/")
        except OSError as error:
            yield f"{name}: cannot be read: {error.strerror}"
