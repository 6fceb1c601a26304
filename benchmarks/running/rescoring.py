"""Scores a finished run anew, and holds the values against those that it recorded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters.aliases import list_aliases
from ...adapters.captioners.recorded import RecordedCaptions
from ...drafts import temporary_folder
from ...errors import BenchError, DataError
from ...progress import Progress, silent
from ..inputs.settings import RunSettings
from ..records.publishing import without_folders
from ..records.record import Record
from ..records.samples import SAMPLES_FILE, scores_alone
from ..records.task_run import TaskRun
from ..store.store import Store
from .resolve import ResolvedCall, resolve_call
from .runner import carry_out

SAME = 1e-5
"""Values that differ by no more are the same: machines round sums, and kernels products, otherwise."""


@dataclass(frozen=True)
class Rescored:
    """What came of scoring a run anew.

    Attributes:
        differences: Metric to the largest difference of any of its values, of single captions too; infinite where
            one of the two has none.
        missing: Metric to why it could not be scored anew here, such as a model that is not on this machine.
        reason: Why it could not be scored anew; empty if it was.
    """

    differences: Mapping[str, float] = field(default_factory=dict[str, float])
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    reason: str = ""

    @property
    def differing(self) -> list[str]:
        """The metrics whose values are not the same."""
        return [metric for metric, difference in self.differences.items() if not difference <= SAME]


def score_again(
    run: TaskRun,
    *,
    data: Mapping[str, str | Path] | None = None,
    include_path: Sequence[str | Path] = (),
    progress: Progress = silent,
) -> Rescored:
    """Score a finished run anew: by its task, from the data, with the captions that it kept as the model's.

    Nothing is taken from the user's store, nor given to it.

    Args:
        run: The run, as it is read back.
        data: Task name to the path of its local data.
        include_path: Folders with task files of the user's own.
        progress: Gives a reporter of (done, total) for a step.
    """
    with temporary_folder() as folder:
        try:
            captioner = _kept_captions(run, folder) if run.record.protocol.needs_captioner else None
            call = _call(run.record, captioner, data, include_path)
            (planned,) = call.plan
            if str(planned.task.version) != str(run.record.version):
                return Rescored(
                    reason=f"the run is of version {run.record.version} of its task, which is at {planned.task.version}"
                )
            with Store(folder / "store.sqlite") as store:
                again = carry_out(
                    planned,
                    _settings(run.record),
                    call.load_models(),
                    locations=call.locations,
                    store=store,
                    progress=progress,
                )
            return _held_against(run, again)
        except BenchError as error:
            return Rescored(reason=error.message)


def _kept_captions(run: TaskRun, folder: Path) -> RecordedCaptions:
    """Return what serves the captions of a run's samples.

    Raises:
        DataError: It kept none.
    """
    if run.record.samples != "full":
        raise DataError("the run kept no captions: its samples hold " + _CONTENT[run.record.samples])
    rows = run.samples.select(["id", "candidate"]).to_pylist()
    lines = [
        json.dumps({"id": row["id"], "caption": row["candidate"]})
        for row in rows
        if row["candidate"] is not None
    ]
    path = folder / "captions.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    # What the run did not score is not scored again.
    return RecordedCaptions(path, run.record.model_name, subset=True)


_CONTENT = {"scores": "scores alone", "none": "nothing"}


def _call(
    record: Record,
    captioner: RecordedCaptions | None,
    data: Mapping[str, str | Path] | None,
    include_path: Sequence[str | Path],
) -> ResolvedCall:
    """Resolve the call that made a record.

    Raises:
        BenchError: The task, its data, a metric or a model is not here.
    """
    models: dict[str, Any] = {}
    aliases = list_aliases()
    for role, used in record.settings.metric_models.items():
        if (alias := aliases.get(used.name)) is not None:
            # Folders of another machine are those of the alias here.
            own = without_folders(alias.arguments)
            given = {key: value for key, value in used.arguments.items() if own.get(key) != value}
            models |= {role: used.name, f"{role}_args": given}
        else:
            adapter = used.name if captioner else record.settings.adapter
            models |= {role: adapter, f"{role}_args": used.arguments}
    return resolve_call(
        [record.task],
        model=captioner,
        metric_names=list(record.made_by),
        data=data,
        include_path=include_path,
        **models,
    )


def _settings(record: Record) -> RunSettings:
    used = record.settings
    # Intervals are not compared, and data that fails its checks is the same data or none.
    return RunSettings(
        limit=used.limit, seed=used.seed, resamples=0, skip_checks=True, generation_kwargs=used.decoding
    )


def _held_against(run: TaskRun, again: TaskRun) -> Rescored:
    record, kept = run.record, _scored_samples(run)
    made = again.record
    if made.data_hash != record.data_hash:
        if record.documents_hash and made.documents_hash == record.documents_hash:
            return Rescored(dict.fromkeys(record.metrics, math.inf))
        return Rescored(reason="the data here is not what the run scored")
    table = next(scores_alone(lambda: [again.table])) if record.samples == "scores" else again.table
    rows = _scored_rows(table)
    missing = {metric: why for metric, why in made.metric_errors.items() if metric in record.metrics}
    differences: dict[str, float] = {}
    for metric in (one for one in record.metrics if one not in missing):
        pairs = [
            (result.value, made.results[key].value if key in made.results else None)
            for key, result in record.results.items()
            if result.metric == metric
        ]
        if kept is not None and metric in kept.column_names:
            pairs += _values_of_captions(kept, rows, metric)
        first, second = np.array(pairs, dtype=np.float64).T
        differences[metric] = _largest(first, second)
    return Rescored(differences, missing)


def _scored_samples(run: TaskRun) -> Any | None:
    """Return the samples of a finished run, None where it has none."""
    if run.folder is None or not (run.folder / SAMPLES_FILE).is_file():
        return None
    return _scored_rows(run.samples)


def _scored_rows(samples: Any) -> Any:
    # Samples that could not be used stand last, without an image.
    return samples.filter(samples["image"].is_valid())


def _values_of_captions(kept: Any, rows: Any, metric: str) -> list[tuple[float | None, float | None]]:
    if metric not in rows.column_names or not kept["id"].equals(rows["id"]):
        return [(0.0, None)]
    return list(zip(kept[metric].to_pylist(), rows[metric].to_pylist(), strict=True))


def _largest(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest difference; a value that only one of the two has differs by infinity."""
    if (np.isnan(first) != np.isnan(second)).any():
        return math.inf
    return float(np.abs(first - second)[~np.isnan(first)].max(initial=0.0))
