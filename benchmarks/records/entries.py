"""The entries of a record that hold several values."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ..inputs.recorded import Count, Finite, Number, RecordEntry
from ..published.values import Table, printed_decimals

SCHEMA_VERSION = 1
NO_ERROR = "N/A"
"""lm-eval's text for a missing standard error."""
Role = Literal["encoder", "judge"]
Positive = Annotated[Finite, Field(gt=0)]
Share = Annotated[float, Field(gt=0, lt=1)]


class DocumentCount(RecordEntry):
    """Documents of a task, and how many were scored."""

    original: Count
    effective: Count


class MetricNumbers(RecordEntry):
    """lm-eval's: ``METRIC,none`` has a value, ``METRIC_stderr,none`` its standard error, or ``N/A`` for none."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number | Literal["N/A"] | None]  # pyrefly: ignore[bad-override]

    name: str
    alias: str


class ListedMetric(RecordEntry):
    """A metric of a task file."""

    metric: str
    name: str | None = None
    label: str | None = None


class ListedStatistic(RecordEntry):
    """A statistic of a task file."""

    statistic: str
    name: str | None = None


class RecordedTask(RecordEntry):
    """The keys of a task file that readers of records look at."""

    description: str = ""
    output_type: str | None = None
    scale: Positive = 1.0
    generation_kwargs: dict[str, Any] | None = None
    published: dict[str, Any] | None = None
    metric_list: list[ListedMetric | str] = Field([])
    statistics: list[ListedStatistic] = Field([])


class UsedSettings(RecordEntry):
    """lm-eval's: the models and settings of a run; ``limit`` is None where there was none."""

    adapter: str | None = Field(alias="model")
    model_args: dict[str, Any] | None
    encoder: str | None = None
    encoder_args: dict[str, Any] | None = None
    judge: str | None = None
    judge_args: dict[str, Any] | None = None
    limit: int | None = None
    seed: int = 1234
    level: Share = 0.95
    generation_kwargs: dict[str, Any] | None = None

    @property
    def decoding(self) -> dict[str, Any]:
        """Decoding settings that the user gave, over those of the task."""
        return self.generation_kwargs or {}

    @property
    def metric_models(self) -> dict[Role, tuple[str, dict[str, Any]]]:
        """Names and arguments of the models that metrics were computed with, by role."""
        models: dict[Role, tuple[str | None, dict[str, Any] | None]] = {
            "encoder": (self.encoder, self.encoder_args), "judge": (self.judge, self.judge_args)
        }  # fmt: skip
        return {role: (name, arguments or {}) for role, (name, arguments) in models.items() if name}


class RecordedResult(RecordEntry):
    """Metric, statistic and confidence interval of a result."""

    metric: str
    statistic: str
    label: Annotated[list[str], Field(min_length=2, max_length=2)]
    n: Count
    low: Number | None
    high: Number | None
    resamples: Count
    reason: str
    """Why there is no value or no interval; else empty."""
    method: Literal["bootstrap", "influence", "wilson"] = "bootstrap"
    """How the interval was made: percentiles of resamples, Student's t by influence functions, or Wilson's."""
    text_alone: dict[str, Number] = Field({})
    """Values of image-blind baselines, by rule."""
    p: Annotated[float, Field(ge=0, le=1)] | None = None
    """p of an exact test."""
    remark: str = ""
    """Remark on the value, such as the number of systems, or ties."""


class PublishedValue(RecordEntry):
    """The published value of a result.

    Attributes:
        value: On the scale of the result (a tau of 0.439).
        printed: As the paper prints it (``"43.9"``).
        scale: The printed number is the value times this.
        paper: Key of the paper.
        table: Number of the table, or the name of the source.
    """

    value: Number
    printed: str
    scale: Positive
    paper: str
    table: Table

    @property
    def decimals(self) -> int:
        """Number of printed decimals; negative where fewer digits are printed."""
        return printed_decimals(self.printed)


class FailedMetric(RecordEntry):
    """A metric that failed as a whole."""

    metric: str
    reason: str


class ModelUsage(RecordEntry):
    """Usage of a model, such as tokens."""

    usage: dict[str, Any]


class Truncation(RecordEntry):
    """How many captions were longer than the encoder takes.

    Attributes:
        captions: Number of encoded captions.
        cut: Number of truncated ones.
        share: Share of truncated ones.
        context_length: Token limit of the encoder.
        identical: Choices with texts that are the same once they are cut; a record leaves 0 out.
    """

    captions: Count
    cut: Count
    share: Number
    context_length: int
    identical: Count = 0


class Significance(RecordEntry):
    """Which metrics are significantly different by a statistic.

    Attributes:
        alpha: Two differ where p, after Holm's correction, is below it.
        resamples: Number of resamples of the paired bootstrap.
        seed: Seed of the paired bootstrap.
        groups: Metric to its letters: two have a letter in common exactly if they are not significantly different.
    """

    alpha: Share
    resamples: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)]
    groups: Annotated[dict[str, Annotated[str, Field(min_length=1)]], Field(min_length=2)]


class FingerprintedTask(RecordEntry):
    """The part of a task that decides the numbers; other keys are kept."""

    model_config = ConfigDict(extra="allow")

    protocol: dict[str, Any] | None = None


class FingerprintParts(RecordEntry):
    """What decides the numbers of a run."""

    task: FingerprintedTask
    data: str
    model: Any
    metrics: dict[str, dict[str, Any]]
    settings: dict[str, Any]
