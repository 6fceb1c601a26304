"""The entries of a record that hold several values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self

from ..inputs.failures import FailureSummary
from ..protocols.checks import DataCheck, faults_of_data
from ..protocols.job import Subset
from ..published.values import Published, Table, printed_decimals

Role = Literal["encoder", "judge"]

_OF_CHECK = ("check", "expected", "found", "passed")
_NO_CAPTION = ("is null", "is not text", "is empty", "is longer than", "is not valid UTF-8", "has no letter")
"""How the reasons began for which captions were left out before records told of a choice."""


@dataclass(frozen=True)
class Entry:
    """Values that stand together in ``run.json``, under the names of the fields."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Return the entry of JSON values; keys that a later capbench adds are passed over."""
        return cls(**{one.name: values[one.name] for one in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class PublishedValue(Entry):
    """What a paper prints for a result.

    Attributes:
        value: On the scale of the result (a tau of 0.439).
        printed: As the paper prints it (``"43.9"``).
        scale: What is printed is the value times this.
        paper: Key of the paper.
        table: Number of the table, or the name of the source.
    """

    value: float
    printed: str
    scale: float
    paper: str
    table: Table

    @classmethod
    def of(cls, one: Published) -> PublishedValue:
        """Return the entry of a printed number."""
        return cls(one.value / one.scale, one.printed, one.scale, one.paper, one.table)

    @property
    def decimals(self) -> int:
        """Number of printed decimals; negative where fewer digits are printed."""
        return printed_decimals(self.printed)


@dataclass(frozen=True)
class Truncation(Entry):
    """How many captions were longer than the encoder takes.

    Attributes:
        captions: All that were encoded.
        cut: Those that were cut.
        share: The latter's share.
        context_length: Tokens that the encoder takes.
        identical: Choices with texts that are the same once they are cut; a record leaves 0 out.
    """

    captions: int
    cut: int
    share: float
    context_length: int
    identical: int = 0

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Return the entry of JSON values."""
        return super().read({"identical": 0, **values})

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {name: value for name, value in super().to_json().items() if name != "identical" or value}


@dataclass(frozen=True)
class Significance(Entry):
    """Which metrics differ by a statistic.

    Attributes:
        alpha: Two differ where p, after Holm's correction, is below it.
        resamples: Of the paired bootstrap.
        seed: Of the same.
        groups: Metric to its letters: two share one if, and only if, they do not differ.
    """

    alpha: float
    resamples: int
    seed: int
    groups: Mapping[str, str]


@dataclass(frozen=True)
class DocumentCount(Entry):
    """Documents of a task.

    Attributes:
        original: All that were read.
        effective: Those that were scored.
    """

    original: int
    effective: int


@dataclass(frozen=True)
class UsedModel:
    """A model as a user named it.

    Attributes:
        name: Its name.
        arguments: Those of its adapter.
    """

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class UsedSettings:
    """The models and settings of a run.

    Attributes:
        values: lm-eval's ``config``, with ours beside its keys.
    """

    values: Mapping[str, Any]

    @property
    def limit(self) -> int | None:
        """Only so many documents were asked for; None for all, and where the record does not say."""
        return self.values.get("limit")

    @property
    def seed(self) -> int:
        """Seed of what is drawn at random; the default where the record does not say."""
        return self.values.get("seed", 1234)

    @property
    def level(self) -> float:
        """Share of the resamples that intervals hold; 0.95 where the record does not say."""
        return float(self.values.get("level", 0.95))

    @property
    def adapter(self) -> str | None:
        """Adapter of the model under test; None where the task needs none."""
        return self.values.get("model")

    @property
    def model_arguments(self) -> Mapping[str, Any]:
        """Arguments of that adapter; none where the record does not say."""
        return self.values.get("model_args") or {}

    @property
    def decoding(self) -> Mapping[str, Any]:
        """Decoding settings that the user gave, over those of the task; none where the record does not say."""
        return self.values.get("generation_kwargs") or {}

    @property
    def metric_models(self) -> dict[Role, UsedModel]:
        """The models that metrics were computed with, by what they do."""
        roles: tuple[Role, ...] = ("encoder", "judge")
        return {
            role: UsedModel(name, self.values.get(f"{role}_args") or {})
            for role in roles
            if (name := self.values.get(role))
        }


@dataclass(frozen=True)
class Timings:
    """Where the time of a run went, in seconds.

    Attributes:
        steps: By step.
        metrics: By metric.
    """

    steps: Mapping[str, float] = field(default_factory=dict[str, float])
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Timings:
        """Return what :meth:`to_json` gave; a record need not say how long each metric took."""
        steps = {key: one for key, one in values.items() if key != "each_metric"}
        return cls(steps, values.get("each_metric", {}))

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {**self.steps, "each_metric": {name: round(one, 4) for name, one in self.metrics.items()}}


@dataclass(frozen=True)
class Coverage:
    """What a run is of.

    Attributes:
        subset: The part of the documents of which captions are recorded; None where all were asked for.
        unanswered: Documents on which the model failed: the run is incomplete.
        empty: Captions that say nothing, or are none, and were scored as empty ones, by step and reason.
        cut: How many captions were cut, by metric or what a matching task measures.
        checks: What the task expects of its data, and what was found.
    """

    subset: Subset | None
    unanswered: int
    empty: list[FailureSummary]
    cut: Mapping[str, Truncation]
    checks: list[DataCheck]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Coverage:
        """Return the coverage of a record; older ones tell of no subset and no empty captions."""
        subset = values.get("subset")
        return cls(
            Subset(subset["documents"], subset["of"], subset["hash"]) if subset else None,
            sum(one["count"] for one in values["failures"] if one["stage"] == "model"),
            values.get("empty_captions", []),
            {name: Truncation.read(one) for name, one in values.get("truncation", {}).items()},
            [DataCheck(*(one[key] for key in _OF_CHECK)) for one in values.get("data_checks", ())],
        )

    @staticmethod
    def choices(values: Mapping[str, Any]) -> dict[str, str]:
        """Return the choices of a record from before they were recorded, where they moved its numbers."""
        left_out = any(
            one["stage"] in ("caption", "candidate") and one["reason"].startswith(_NO_CAPTION)
            for one in values["failures"]
        )
        return {"empty_caption": "leave_out"} if left_out else {}

    @property
    def empty_count(self) -> int:
        """How many captions were scored as empty ones."""
        return sum(one["count"] for one in self.empty)

    @property
    def is_complete(self) -> bool:
        """Whether the model answered for every document that it was shown."""
        return not self.unanswered

    @property
    def notes(self) -> list[str]:
        """What stands beside the numbers of the run wherever they are shown."""
        notes: list[str] = []
        if self.unanswered:
            notes.append(f"incomplete: the model failed on {_counted(self.unanswered, 'document')}")
        if faults := faults_of_data(self.checks):
            notes.append(f"the data failed its checks ({'; '.join(faults)})")
        if self.subset:
            notes.append(f"a subset: {self.subset.documents:,} of {self.subset.of:,} documents")
        if self.empty_count:
            reasons = Counter[str]()
            for one in self.empty:
                reasons[one["reason"]] += one["count"]
            told = ", ".join(f"{count:,} × {reason}" for reason, count in reasons.items())
            notes.append(f"{_counted(self.empty_count, 'caption')} counted as empty: {told}")
        same = (
            f"{_counted(one.identical, 'choice')} of texts that are the same once cut to {one.context_length} tokens"
            for one in self.cut.values()
            if one.identical
        )
        return [*notes, *dict.fromkeys(same)]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
