"""The record of a run: what ``run.json`` holds, by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from pydantic import ValidationError

from ...tasks.index import DEFAULT_OUTPUT_TYPE
from ...tasks.schema import PublishedTable, StatisticEntry
from ..inputs.failures import FailureSummary
from ..protocols.binding import bind_recorded
from ..protocols.checks import DataCheck
from ..protocols.contract import Protocol
from ..protocols.results import Result, shown_times
from .entries import Coverage, DocumentCount, PublishedValue, Significance, Timings, Truncation, UsedSettings
from .environment import Environment
from .hashes import identity
from .histograms import By, Histogram
from .making import Finished, values_of
from .publishing import SampleContent, without_folders
from .results import ends_of_metric, ends_of_statistic, has_direction, read_results

_BY_TASK = ("results", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples")


@dataclass(frozen=True)
class Record:
    """What is known of a run, as ``run.schema.json`` describes it.

    Older records lack some keys, each of which has one default, named where it is read. The numbers, their scales
    and ``identity`` depend on the protocol: without it they raise, as :attr:`protocol` does.

    Attributes:
        values: The JSON values, with keys that only a later capbench knows.
    """

    values: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        finished: Finished,
        samples: SampleContent = "full",
        pictures: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Record:
        """Return the record of a run that has just finished.

        Args:
            finished: The run.
            samples: What is written of its samples; with ``scores`` no reason quotes the data.
            pictures: Id of a sample to the path of its picture below the run's folder.
            files: Path of each file beside the record to its SHA-256.
        """
        return cls(values_of(finished, samples, pictures, files))

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.values["task"]

    @property
    def alias(self) -> str:
        """The task's name in tables."""
        return self.values["task_alias"]

    @property
    def version(self) -> str | float:
        """Version of the task."""
        return self.values["versions"][self.task]

    @property
    def model_name(self) -> str | None:
        """Name of the model under test; None where the task needs none."""
        return self.values["model_name"]

    @property
    def date(self) -> float:
        """When the run began, in seconds since 1970."""
        return self.values["date"]

    @property
    def started(self) -> datetime:
        """When the run began, in UTC."""
        return datetime.fromtimestamp(self.date, UTC)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return float(self.values["total_evaluation_time_seconds"])

    @property
    def config(self) -> Mapping[str, Any]:
        """The keys of the task file."""
        return self.values["configs"][self.task]

    @property
    def description(self) -> str:
        """What the task measures; empty where its file does not say."""
        return self.config.get("description", "")

    @property
    def scale(self) -> float:
        """Tables show values times this; 1 where the task file does not say."""
        return float(self.config.get("scale", 1.0))

    @property
    def statistics(self) -> list[StatisticEntry]:
        """The statistics that the task lists."""
        return [StatisticEntry(**one) for one in self.config.get("statistics", [])]

    @property
    def published_table(self) -> PublishedTable | None:
        """The table that prints the task's numbers; None where there is none that this capbench can read."""
        with suppress(ValidationError):
            if given := self.config.get("published"):
                return PublishedTable.model_validate(given)
        return None

    @property
    def prompt(self) -> str:
        """What the model was asked, as template of the task; empty where captions are given."""
        return str(self.config.get("doc_to_text") or "")

    @property
    def output_type(self) -> str:
        """Name of the protocol; where nothing is said, that of task files which name none."""
        return self.config.get("output_type", DEFAULT_OUTPUT_TYPE)

    @property
    def protocol_choices(self) -> Mapping[str, Any]:
        """Every choice of the protocol, as it is recorded; older records hold those of other protocols, too."""
        recorded: Mapping[str, Any] = self.values["fingerprint_parts"]["task"].get("protocol") or {}
        return {**Coverage.choices(self.values), **recorded}

    @cached_property
    def protocol(self) -> Protocol[Any]:
        """The protocol, with the run's choices.

        Raises:
            DataError: It is not installed, or does not know a choice.
        """
        return bind_recorded(self.task, self.output_type, self.protocol_choices)

    @property
    def settings(self) -> UsedSettings:
        """The models and what the user set."""
        return UsedSettings(self.values["config"])

    @property
    def decoding(self) -> Mapping[str, Any]:
        """Decoding settings of the task, and those that the user gave over them."""
        return {**(self.config.get("generation_kwargs") or {}), **self.settings.decoding}

    @cached_property
    def results(self) -> dict[str, Result]:
        """The numbers by key (``cider.kendall_c``), in table order."""
        values, higher = self.values["results"][self.task], self.values["higher_is_better"][self.task]
        return read_results(values, self.values["intervals"], higher, self.has_direction, self.scale_of)

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that results are of."""
        return list(dict.fromkeys(one.metric for one in self.results.values()))

    @cached_property
    def published(self) -> dict[str, PublishedValue]:
        """What papers print for results, by key."""
        return {key: PublishedValue.read(one) for key, one in self.values["published"].items()}

    @cached_property
    def significance(self) -> dict[str, Significance]:
        """Which metrics differ, by statistic; none in records before there was such a test."""
        found = self.values.get("significance", {})
        return {statistic: Significance.read(one) for statistic, one in found.items()}

    def letters(self, result: Result) -> str:
        """Return the significance letters of a result, or of the mean of its categories; empty if untested."""
        if found := self.significance.get(f"{result.statistic}.{result.category}"):
            return found.groups.get(without_folders(result.metric), "")
        if result.category and len({one.category for one in self.results.values()}) > 1:
            return ""
        found = self.significance.get(result.statistic)
        return found.groups.get(without_folders(result.metric), "") if found else ""

    def metric_label(self, metric: str) -> str:
        """Return a metric's name as tables print it; its own name where there is no result of it."""
        return next((one.label[0] for one in self.results.values() if one.metric == metric), metric)

    def registered_name(self, metric: str) -> str:
        """Return the name in the registry of a metric that the task, or the user, may call otherwise."""
        entries: list[str | dict[str, str]] = self.config.get("metric_list", [])
        listed = [{"metric": one} if isinstance(one, str) else one for one in entries]
        names = {one.get("name") or one.get("label") or one["metric"]: one["metric"] for one in listed}
        return names.get(metric, metric).partition("[")[0]

    def higher_is_better(self, metric: str) -> bool:
        """Return whether more of a metric's system value is better; True where the record does not say."""
        return self.values["higher_is_better"][self.task].get(metric, True)

    def has_direction(self, metric: str) -> bool:
        """Return whether it is better to have more, or less, of a metric; True where metrics are judged."""
        return self.protocol.subject != "model" or has_direction(self.registered_name(metric))

    def ends_of(self, metric: str, statistic: str) -> tuple[float, float]:
        """Return the least and greatest value: the metric's where numbers are its own, else the statistic's."""
        if self.protocol.subject == "model":
            return ends_of_metric(self.registered_name(metric))
        return ends_of_statistic(statistic, self.config)

    def scale_of(self, metric: str, statistic: str) -> float:
        """Return what tables show a number times; see :func:`.shown_times`."""
        return shown_times(self.scale, self.ends_of(metric, statistic))

    @property
    def has_histograms(self) -> bool:
        """Whether the capbench that made the record kept distributions of scores."""
        return "histograms" in self.values

    def binned_by(self, by: By) -> list[str]:
        """Return the metrics whose scores are counted by rating, or by number of words."""
        return [metric for metric, one in self._histograms.items() if one.get(by)]

    def histogram(self, metric: str) -> Histogram:
        """Return the distribution of a metric's scores.

        Raises:
            ValueError: What the record holds is none.
        """
        return Histogram.read(self._histograms[metric])

    @property
    def histograms(self) -> dict[str, Histogram]:
        """Distributions of scores by metric, without those that are not in order; none in older records."""
        found: dict[str, Histogram] = {}
        for metric, one in self._histograms.items():
            with suppress(ValueError):
                found[metric] = Histogram.read(one)
        return found

    @property
    def _histograms(self) -> Mapping[str, Any]:
        return self.values.get("histograms") or {}

    @property
    def pictures(self) -> Mapping[str, str]:
        """Id of a sample to the path of its picture below the run's folder; none in older records."""
        return self.values.get("pictures") or {}

    @property
    def files(self) -> Mapping[str, str] | None:
        """Path of each file beside the record to its SHA-256; None in older records, which do not say."""
        return self.values.get("files")

    @property
    def samples(self) -> SampleContent:
        """What ``samples.parquet`` holds. Of an older record, which does not say, no text may be shown: ``scores``."""
        return self.values.get("samples") or "scores"

    @property
    def redistribution(self) -> Literal["full", "scores"]:
        """What the terms of the data allow to pass on; ``full`` in older records, which do not say."""
        return self.values.get("redistribution") or "full"

    @property
    def documents(self) -> DocumentCount:
        """Documents of the task, and how many were scored."""
        return DocumentCount.read(self.values["n-samples"][self.task])

    @property
    def data_origin(self) -> str:
        """Where the documents came from."""
        return self.values["data_origin"]

    @property
    def data_hash(self) -> str:
        """Hash of what was scored."""
        return self.values["fingerprint_parts"]["data"]

    @property
    def documents_hash(self) -> str | None:
        """Hash of the documents that a model was asked to caption; None where captions are given, and if old."""
        return self.values.get("documents_hash")

    @property
    def data_checks(self) -> list[DataCheck]:
        """What the task expects of its data, and what was found."""
        return self.coverage.checks

    @property
    def is_whole(self) -> bool:
        """Whether the run saw the right data, and answered for all that it saw: only such runs are ranked."""
        checked = all(one.passed for one in self.data_checks)
        return checked and self.coverage.is_complete and self.settings.limit is None

    @cached_property
    def coverage(self) -> Coverage:
        """Which documents the numbers are of, and which captions count as empty ones."""
        return Coverage.read(self.values)

    @property
    def failures(self) -> list[FailureSummary]:
        """Samples that could not be used, by step and reason."""
        return self.values["failures"]

    @property
    def remarks(self) -> list[FailureSummary]:
        """What was done to read an image that is not as usual."""
        return self.values["remarks"]

    @property
    def ruled_out(self) -> int:
        """Rated captions left out because they are references of their own image."""
        return self.values["ruled_out"]

    @property
    def metric_errors(self) -> dict[str, str]:
        """Metrics that failed as a whole, with the reason."""
        return {one["metric"]: one["reason"] for one in self.values["metric_errors"]}

    @property
    def metrics_left_out(self) -> Mapping[str, str]:
        """Metrics of the task that the run went without, with the reason."""
        return self.values["metrics_left_out"]

    @property
    def truncation(self) -> dict[str, Truncation]:
        """Metric, or what a matching task measures, to how many captions were cut."""
        return dict(self.coverage.cut)

    @property
    def generation(self) -> Mapping[str, Any]:
        """What is known of the captions that a model wrote; empty where captions are given."""
        return self.values["generation"]

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the numbers: equal for runs that must give equal numbers."""
        return self.values["fingerprint"]

    @property
    def fingerprint_parts(self) -> Mapping[str, Any]:
        """What that hash is of."""
        return self.values["fingerprint_parts"]

    @cached_property
    def identity(self) -> str:
        """The fingerprint in one form for records of all versions."""
        return identity(self.fingerprint_parts, self.protocol.fingerprint())

    @property
    def made_by(self) -> Mapping[str, Mapping[str, Any]]:
        """What decides the values of each metric, by its name."""
        return self.values["fingerprint_parts"]["metrics"]

    def is_of_corpus(self, metric: str) -> bool:
        """Return whether a metric's value is of all captions together, not the mean over captions."""
        return self.made_by[metric].get("aggregation") == "corpus"

    @property
    def checksum(self) -> str | None:
        """Hash of the record; None in older ones, which are held against their fingerprint alone."""
        return self.values.get("checksum")

    @property
    def git_hash(self) -> str | None:
        """Commit of the checkout that made it; None for an installed capbench."""
        return self.values["git_hash"]

    @property
    def environment(self) -> Environment:
        """What it ran on."""
        return Environment.read(self.values["environment"])

    @property
    def timings(self) -> Timings:
        """How long each step, and each metric, took."""
        return Timings.read(self.values["timings"])

    @property
    def store(self) -> Mapping[str, int]:
        """Results that the store knew (``found``), and that it was given (``computed``)."""
        return self.values["store"]

    @property
    def by_task(self) -> dict[str, Mapping[str, Any]]:
        """What lm-eval keys by task, in its layout."""
        return {key: self.values[key] for key in _BY_TASK}

    @property
    def beside_lm_eval(self) -> dict[str, Any]:
        """What of the numbers lm-eval has no key for, as ``run.json`` has it."""
        return {key: self.values[key] for key in ("fingerprint", "intervals", "published", "date")}
