"""The record of a run: what ``run.json`` holds, by name."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from ...errors import DataError, counted
from ...metrics import metrics
from ...tasks.index import DEFAULT_OUTPUT_TYPE
from ...tasks.schema import PublishedTable, StatisticEntry
from ..inputs.failures import FailureSummary
from ..inputs.recorded import Count, Finite, Number, RecordedCheck, RecordedSubset, RecordEntry, Sha256
from ..protocols.binding import bind_recorded
from ..protocols.checks import faults_of_data
from ..protocols.contract import Protocol
from ..protocols.job import Result, shown_times
from ..statistics import statistics
from ..statistics.bootstrap import Interval
from . import entries
from .environment import Environment
from .hashes import hash_of_json, plain
from .histograms import By, Histogram
from .publishing import SampleContent, without_folders

_UNKNOWN = (0.0, 1.0)
_PICTURE = r"pictures/[0-9a-f]{16}\.jpg"
_DEEPEST = 50
"""Greatest depth of objects and arrays; facts of models and metrics have a few levels."""


class Record(RecordEntry):
    """One task and one model.

    Keys of lm-eval keep its layout; the others are capbench's. Numbers are plain values (a tau of 0.439, not 43.9); a
    missing number is null, with its reason. Keys with a default are missing in older records. The numbers, their scales
    and ``identity`` depend on the protocol: without it they raise, as :attr:`protocol` does.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)]
    task: Annotated[str, Field(pattern="^\\w[\\w.-]*$")]
    """Name of the task."""
    alias: str = Field(alias="task_alias")
    """Its name in tables."""
    model_name: str | None
    """Name of the model; null where the task needs none."""
    numbers: dict[str, entries.MetricNumbers] = Field(alias="results", min_length=1)
    """lm-eval: task to metrics. An agreement is the metric 'METRIC.STATISTIC'."""
    group_subtasks: dict[str, list[str]]
    configs: dict[str, entries.RecordedTask]
    """lm-eval: the keys of the task file."""
    versions: dict[str, str | Number]
    n_shot: dict[str, int] = Field(alias="n-shot")
    directions: dict[str, dict[str, bool]] = Field(alias="higher_is_better")
    document_counts: dict[str, entries.DocumentCount] = Field(alias="n-samples")
    settings: entries.UsedSettings = Field(alias="config")
    git_hash: str | None
    """Commit of the checkout that made it; null for an installed capbench."""
    date: float = Field(ge=0, lt=253402300800)
    """Start, in seconds since 1970; before the year 10000."""
    seconds_text: str = Field(alias="total_evaluation_time_seconds", pattern="^-?[0-9]{1,15}([.][0-9]{1,15})?$")
    intervals: dict[str, entries.RecordedResult]
    """Each result: metric, statistic, labels, rows behind it and its confidence interval."""
    published: dict[str, entries.PublishedValue]
    """The published value of a result, on the scale of the results, and as printed."""
    metrics_left_out: dict[str, str]
    """Metric of the task to the reason why this run did not compute it."""
    errors: list[entries.FailedMetric] = Field(alias="metric_errors")
    """Metrics that failed as a whole."""
    failures: list[FailureSummary]
    """Samples that could not be used, by step and reason, with the first of each."""
    empty_captions: list[FailureSummary] = Field([])
    """Empty and missing captions, which were scored as empty ones, as under failures. Missing in older records, which
    left them out."""
    subset: RecordedSubset | None = None
    """Null where all documents were captioned."""
    remarks: list[FailureSummary]
    """Remarks on unusual images (the first frame of an animation was read), as under failures; such samples count."""
    ruled_out: Count
    """Number of rated captions excluded because they are references of the same image."""
    generation: dict[str, Any]
    """Captions that a model wrote: their number, mean_words, mean_tokens, how many were cut at the token limit (null
    where the model does not report it), and usage. Empty where captions were given."""
    judging: entries.ModelUsage | None = None
    """Usage of the judge in this process; only where a metric has one."""
    data_checks: list[RecordedCheck]
    data_origin: str
    """Names of the files or of the folder of the documents, or ``hub:OWNER/NAME@COMMIT``; no path of the machine."""
    documents_hash: Sha256 | None = None
    """Where a model wrote the captions: hash of its documents (ids, references, objects, pictures that rows hold),
    equal for runs of all models over the same data; else null."""
    redistribution: Literal["full", "scores"] = "full"
    """What the terms of the task's data allow to redistribute: runs with full samples, or with scores alone."""
    samples: SampleContent = "scores"
    """Content of samples.parquet: full; scores (id, image, category, a value a metric and failure alone, and no reason
    in this file quotes the data); or none. Texts of an older record without this key may not be shown."""
    truncation: dict[str, entries.Truncation]
    """Metric, or measure of a matching task, to the number of captions that were truncated to the encoder's limit."""
    significance: dict[str, entries.Significance] = Field({})
    """Statistic to the letters of the metrics, as of bench compare: two have a letter in common exactly if they
    are not significantly different at level alpha (paired bootstrap over images, Holm's correction over all pairs).
    Empty where fewer than two metrics have a value, or without resamples."""
    histograms: dict[str, Histogram] = Field({})
    """Metric to the distribution of its scores of single captions: 20 equal bins of rising edges; and the same
    bins by rating (a caption counts once a rating) and by number of words. Metrics without such scores, and
    pairs, have none."""
    pictures: Annotated[dict[str, Annotated[str, Field(pattern=f"^{_PICTURE}$")]], Field(max_length=40)] = Field({})
    """Id of a sample to a JPEG thumbnail in the run's folder: of the best and worst samples of each metric, where all
    samples are written and may be redistributed with their pictures."""
    files: dict[Annotated[str, Field(pattern=f"^(samples\\.parquet|{_PICTURE})$")], Sha256] | None = None
    """Path of each other file in the run's folder to the sha256 of its bytes; a file that was changed after the run is
    not read."""
    fingerprint: Sha256
    """Hash of fingerprint_parts: equal for runs that must give equal numbers."""
    parts: entries.FingerprintParts = Field(alias="fingerprint_parts")
    environment: Environment
    timings: dict[str, Finite | dict[str, Finite]]
    """Seconds by step; each_metric by metric."""
    store: dict[Literal["found", "computed"], Count]
    """Number of results found in the store, and added to it."""
    checksum: Sha256 | None = None
    """sha256 of this record without this key, as json.dumps(record, sort_keys=True, separators=(',', ':'),
    ensure_ascii=False), to detect edits by hand."""

    _values: Mapping[str, Any] = PrivateAttr(default_factory=dict[str, Any])

    def __init__(self, values: Mapping[str, Any], /) -> None:
        """Read a record.

        Args:
            values: The JSON values, with keys that only a later capbench knows.

        Raises:
            DataError: They are not a valid record; the message has the JSON pointer.
        """
        if _is_deep(values):
            raise _fault(f"the record is nested deeper than {_DEEPEST} levels")
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _fault(_first_fault(error, values)) from error
        self._values = values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Check that each result has its value, and that all keys are of one task."""
        for name in ("numbers", "configs", "versions", "directions", "document_counts"):
            if self.task not in getattr(self, name):
                key = type(self).model_fields[name].alias or name
                raise ValueError(f"/{key} has no '{self.task}'")
        values = self._lm_eval_values
        for key, value in values.items():
            if key.endswith("_stderr,none"):
                fits = value == entries.NO_ERROR or (isinstance(value, int | float) and value >= 0)
            else:
                fits = key.endswith(",none") and value != entries.NO_ERROR
            if not fits:
                raise ValueError(f"{_pointer('results', self.task, key)} is not in lm-eval's layout")
        for key, result in self.intervals.items():
            if f"{key},none" not in values:
                raise ValueError(f"{_pointer('results', self.task)} has no value of '{key}'")
            metric, statistic = result.metric, result.statistic
            if key != metric and not f"{key}.".startswith(f"{metric}.{statistic}."):
                raise ValueError(f"{_pointer('intervals', key)} is of metric '{metric}' and statistic '{statistic}'")
        return self

    @property
    def values(self) -> Mapping[str, Any]:
        """The JSON values, with keys that only a later capbench knows."""
        return self._values

    @property
    def _lm_eval_values(self) -> dict[str, Any]:
        return self.numbers[self.task].model_extra or {}

    @property
    def _task_file(self) -> entries.RecordedTask:
        return self.configs[self.task]

    @property
    def version(self) -> str | float:
        """Version of the task."""
        return self.versions[self.task]

    @property
    def started(self) -> datetime:
        """When the run began, in UTC."""
        return datetime.fromtimestamp(self.date, UTC)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return float(self.seconds_text)

    @property
    def config(self) -> Mapping[str, Any]:
        """The keys of the task file."""
        return self.values["configs"][self.task]

    @property
    def written_settings(self) -> Mapping[str, Any]:
        """The models and all that the user set, as ``run.json`` has it."""
        return self.values["config"]

    @property
    def description(self) -> str:
        """Description of the task; empty without one."""
        return self._task_file.description

    @property
    def scale(self) -> float:
        """Tables show values times this; 1 by default."""
        return self._task_file.scale

    @property
    def statistics(self) -> list[StatisticEntry]:
        """The statistics that the task lists."""
        return [StatisticEntry(**entry) for entry in self.config.get("statistics", [])]

    @property
    def published_table(self) -> PublishedTable | None:
        """The table that prints the task's numbers; None where there is none that this capbench can read."""
        with suppress(ValidationError):
            if table := self._task_file.published:
                return PublishedTable.model_validate(table)
        return None

    @property
    def prompt(self) -> str:
        """The prompt of the model, as the task's template; empty where captions are given."""
        return str(self.config.get("doc_to_text") or "")

    @property
    def output_type(self) -> str:
        """Name of the protocol, or the default one."""
        return self._task_file.output_type or DEFAULT_OUTPUT_TYPE

    @property
    def protocol_choices(self) -> dict[str, Any]:
        """Every recorded choice of the protocol."""
        return self.parts.task.protocol or {}

    @cached_property
    def protocol(self) -> Protocol[Any]:
        """The protocol, with the run's choices.

        Raises:
            DataError: It is not installed, or does not know a choice.
        """
        return bind_recorded(self.task, self.output_type, self.protocol_choices)

    @property
    def decoding(self) -> Mapping[str, Any]:
        """Decoding settings of the task, and those that the user gave over them."""
        return {**(self._task_file.generation_kwargs or {}), **self.settings.decoding}

    @cached_property
    def results(self) -> dict[str, Result]:
        """The numbers by key (``cider.kendall_c``), in table order."""
        results: dict[str, Result] = {}
        for key, entry in self.intervals.items():
            value = self._lm_eval_values[f"{key},none"]
            error = self._lm_eval_values.get(f"{key}_stderr,none", entries.NO_ERROR)
            interval = None
            # No interval was computed for a missing value, or without resamples.
            if entry.resamples or entry.method != "bootstrap" or (value is not None and entry.reason):
                stderr = None if error == entries.NO_ERROR else error
                interval = Interval(entry.low, entry.high, stderr, entry.resamples, entry.reason, entry.method)
            whole = f"{entry.metric}.{entry.statistic}."
            results[key] = Result(
                metric=entry.metric,
                statistic=entry.statistic,
                label=(entry.label[0], entry.label[1]),
                value=value,
                n=entry.n,
                higher_is_better=self.higher_is_better(key) if self.has_direction(entry.metric) else None,
                scale=self.scale_of(entry.metric, entry.statistic),
                interval=interval,
                # Next to a value, the reason is that of the missing interval.
                reason=entry.reason if value is None else "",
                category=key.removeprefix(whole) if key.startswith(whole) else "",
                alone=entry.text_alone,
                p=entry.p,
                remark=entry.remark,
            )
        return results

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that results are of."""
        return list(dict.fromkeys(result.metric for result in self.results.values()))

    def letters(self, result: Result) -> str:
        """Return the significance letters of a result, or of the mean of its categories; empty if untested."""
        significance = self.significance.get(f"{result.statistic}.{result.category}")
        if not significance and not (result.category and len({r.category for r in self.results.values()}) > 1):
            significance = self.significance.get(result.statistic)
        return significance.groups.get(without_folders(result.metric), "") if significance else ""

    def metric_label(self, metric: str) -> str:
        """Return a metric's name as tables print it; its own name where there is no result of it."""
        return next((result.label[0] for result in self.results.values() if result.metric == metric), metric)

    def registered_name(self, metric: str) -> str:
        """Return a metric's name in the registry, from its name in the task or of the user."""
        listed = [entry for entry in self._task_file.metric_list if not isinstance(entry, str)]
        names = {entry.name or entry.label or entry.metric: entry.metric for entry in listed}
        return names.get(metric, metric).partition("[")[0]

    def higher_is_better(self, metric: str) -> bool:
        """Return whether a higher value of a metric, or of a column of its samples, is better; True by default."""
        return self.directions[self.task].get(metric, metric not in self.protocol.lower_is_better)

    def has_direction(self, metric: str) -> bool:
        """Return whether it is better to have more, or less, of a metric; True where metrics are judged."""
        name = self.registered_name(metric)
        return self.protocol.subject != "model" or name not in metrics or metrics[name].has_direction

    def ends_of(self, metric: str, statistic: str) -> tuple[float, float]:
        """Return the least and greatest value: the metric's where numbers are its own, else the statistic's.

        For an unknown metric or statistic, 0 and 1.
        """
        if self.protocol.subject == "model":
            name = self.registered_name(metric)
            return metrics[name].range if name in metrics else self.protocol.ranges.get(metric, _UNKNOWN)
        human = self.config.get("doc_to_human")
        aspects = [str(aspect) for aspect in cast("dict[str, Any]", human)] if isinstance(human, dict) else []
        called = {name: entry.statistic for entry in self.statistics for name in entry.names(aspects)}.get(statistic)
        return statistics[called].range if isinstance(called, str) and called in statistics else _UNKNOWN

    def scale_of(self, metric: str, statistic: str) -> float:
        """Return what tables show a number times; see :func:`.shown_times`."""
        return shown_times(self.scale, self.ends_of(metric, statistic))

    def binned_by(self, by: By) -> list[str]:
        """Return the metrics whose scores are counted by rating, or by number of words."""
        return [metric for metric, histogram in self.histograms.items() if getattr(histogram, by)]

    @property
    def documents(self) -> entries.DocumentCount:
        """Documents of the task, and how many were scored."""
        return self.document_counts[self.task]

    @property
    def data_hash(self) -> str:
        """Hash of the scored data."""
        return self.parts.data

    @property
    def is_whole(self) -> bool:
        """Whether the data passed its checks and the run is complete, without a limit: only such runs are ranked."""
        checked = all(check.passed for check in self.data_checks)
        return checked and self.is_complete and self.settings.limit is None

    @property
    def empty_count(self) -> int:
        """How many captions were scored as empty ones."""
        return sum(entry["count"] for entry in self.empty_captions)

    @property
    def is_complete(self) -> bool:
        """Whether the model captioned every document."""
        return not any(failure["stage"] == "model" for failure in self.failures)

    @property
    def notes(self) -> list[str]:
        """Notes to show next to the numbers of the run."""
        notes: list[str] = []
        if unanswered := sum(failure["count"] for failure in self.failures if failure["stage"] == "model"):
            notes.append(f"incomplete: the model failed on {counted(unanswered, 'document')}")
        if faults := faults_of_data(self.data_checks):
            notes.append(f"the data failed its checks ({'; '.join(faults)})")
        if self.subset:
            notes.append(f"a subset: {self.subset.documents:,} of {self.subset.of:,} documents")
        if self.empty_count:
            reasons = Counter[str]()
            for entry in self.empty_captions:
                reasons[entry["reason"]] += entry["count"]
            listed = ", ".join(f"{count:,} × {reason}" for reason, count in reasons.items())
            listed = "" if list(reasons) == ["is empty"] else f": {listed}"
            notes.append(f"{counted(self.empty_count, 'caption')} counted as empty{listed}")
        same = (
            f"{counted(entry.identical, 'choice')} of texts that are the same once cut to {entry.context_length} tokens"
            for entry in self.truncation.values()
            if entry.identical
        )
        return [*notes, *dict.fromkeys(same)]

    @property
    def metric_errors(self) -> dict[str, str]:
        """Metrics that failed as a whole, with the reason."""
        return {error.metric: error.reason for error in self.errors}

    @cached_property
    def identity(self) -> str:
        """The fingerprint in one form for records of all versions."""
        # Older ones hold null for keys that the task does not give, and lack choices that came later.
        parts = self.values["fingerprint_parts"]
        task = {key: value for key, value in parts["task"].items() if value is not None}
        choices = plain(self.protocol.fingerprint())
        return hash_of_json({**parts, "task": {**task, "protocol": choices}})

    @property
    def encoder_dtype(self) -> str:
        """The precision that the encoder computes in; ``fp32`` where there is none."""
        encoder: Mapping[str, Any] = self.values["fingerprint_parts"].get("encoder") or {}
        return encoder.get("dtype", "fp32")

    @property
    def made_by(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings and versions that decide the values of each metric, by its name."""
        return self.parts.metrics


def _is_deep(value: Any, levels: int = _DEEPEST) -> bool:
    inner = cast("Any", value).values() if isinstance(value, dict) else value
    return not levels or any(_is_deep(part, levels - 1) for part in inner if isinstance(part, dict | list))


def _fault(words: str) -> DataError:
    return DataError(f"is not a valid run record: {words}", "Restore the original record, or run the task again.")


def _first_fault(error: ValidationError, values: Any) -> str:
    """Return the first error of a record, after its JSON pointer (RFC 6901)."""
    first = error.errors(include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and not first["loc"]:
        return message
    place: list[object] = []
    for step in first["loc"]:
        # Steps that are no keys name the choice of a union.
        with suppress(KeyError, IndexError, TypeError):
            values = values[step]
            place.append(step)
    where = _pointer(*place) or "the record"
    if first["type"] == "missing":
        return f"{where} has no '{first['loc'][-1]}'"
    return f"{where}: {message[0].lower()}{message[1:]}"


def _pointer(*place: object) -> str:
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in place)
