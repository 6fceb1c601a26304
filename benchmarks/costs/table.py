"""Measured figures that costs are worked out from: those that ship, and the user's own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from ...errors import TaskError
from ...paths import cache_folder
from ...tasks.faults import faults_of
from ...tasks.yaml_files import parse

SHIPPED = Path(__file__).parent / "costs.yaml"
Origin = Literal["measured here", "measured elsewhere"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MetricCost(_Strict):
    """What a metric costs.

    Attributes:
        seconds: Core-seconds a caption, beside those of the parts.
        parts: What it shares with others, each of which is made once.
        merge_seconds: Core-seconds a caption, each time that what shards say of the corpus is merged in twos.
    """

    seconds: NonNegativeFloat
    parts: tuple[str, ...] = ()
    merge_seconds: NonNegativeFloat = 0


class RunCost(_Strict):
    """What a run costs beside its metrics.

    Attributes:
        start_seconds: Core-seconds until it reads the first document.
        worker_seconds: Core-seconds until a worker is there.
        row_seconds: Core-seconds a document: read, checked, hashed, written among the samples.
        resample_seconds: Core-seconds a document, metric and thousand resamples.
        influence_seconds: Core-seconds a document and metric whose interval is by influence.
        driver_bytes: Memory of the process that was called.
        driver_row_bytes: Memory that it takes more a document.
        worker_bytes: Memory of a worker.
        stored_row_bytes: Written a document: texts, scores, samples.
        read_row_bytes: Read a document.
    """

    start_seconds: NonNegativeFloat
    worker_seconds: NonNegativeFloat
    row_seconds: NonNegativeFloat
    resample_seconds: NonNegativeFloat
    influence_seconds: NonNegativeFloat
    driver_bytes: NonNegativeFloat
    driver_row_bytes: NonNegativeFloat
    worker_bytes: NonNegativeFloat
    stored_row_bytes: NonNegativeFloat
    read_row_bytes: NonNegativeFloat


class Measured(_Strict):
    """A run that was measured, with BLEU-4, CIDEr, ROUGE-L and METEOR and a thousand resamples.

    Attributes:
        rows: Captions.
        core_seconds: All of it.
        wall_seconds: All of it, with one process, whatever else the machine did.
        peak_bytes: Memory.
    """

    rows: PositiveInt
    core_seconds: PositiveFloat
    wall_seconds: PositiveFloat
    peak_bytes: PositiveInt


class CostTable(_Strict):
    """Figures of one machine.

    Attributes:
        machine: What it is.
        note: How they were measured.
        references: References a caption had.
        parts: Core-seconds a caption of what metrics share.
        metrics: What each metric costs.
        run: What a run costs beside.
        captions_per_second: Of captioners, by the name of the model.
        images_per_second: Of encoders, by the name of the model.
        growth: Whole runs, fewest captions first.
    """

    machine: str
    note: str
    references: PositiveInt
    parts: dict[str, NonNegativeFloat]
    metrics: dict[str, MetricCost]
    run: RunCost
    captions_per_second: dict[str, PositiveFloat] = Field(default_factory=dict)
    images_per_second: dict[str, PositiveFloat] = Field(default_factory=dict)
    growth: tuple[Measured, ...] = Field(min_length=1)

    def alone(self, metric: str) -> float | None:
        """Return the core-seconds a caption of a metric that nothing is shared with; None where it was not measured."""
        cost = self.metrics.get(metric)
        return None if cost is None else cost.seconds + sum(self.parts[part] for part in cost.parts)


def own_file() -> Path:
    """Return where the figures of this machine are, once they are measured."""
    return cache_folder() / "costs.yaml"


def read_costs(path: Path | None = None) -> tuple[CostTable, Path, Origin]:
    """Return figures, their file, and whether they are of this machine.

    Args:
        path: A file; the one of this machine unless given, or the one that ships where there is none.

    Raises:
        TaskError: The file cannot be read, or is none of figures; each fault with its line.
    """
    own = own_file()
    chosen = path or (own if own.is_file() else SHIPPED)
    return _read(chosen), chosen, "measured here" if chosen == own else "measured elsewhere"


@cache
def shipped_costs() -> CostTable:
    """Return the figures that come with capbench, which are the same on every machine."""
    return _read(SHIPPED)


def _read(path: Path) -> CostTable:
    parsed = parse(path)
    try:
        return CostTable.model_validate(parsed.values)
    except ValidationError as error:
        raise TaskError(
            "\n".join(faults_of(error, parsed, CostTable)),
            "'make bench-scale' measures and writes them anew.",
        ) from error
