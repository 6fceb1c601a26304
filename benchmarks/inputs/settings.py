"""Settings of a run that apply to every task; and metrics as users name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from ...adapters.arguments import parse_arguments
from ...errors import UsageError, did_you_mean
from ...progress import Reporter, unheard
from ...tasks.schema import MetricEntry
from ..statistics import Draws, Intervals

_BETWEEN = re.compile(r",(?![^\[]*\])")
_NAMED = re.compile(r"(?P<metric>[^\[\]]+)(?:\[(?P<arguments>[^\[\]]*)\])?")
ColumnType = Literal["text", "texts", "number", "numbers", "integer"]
NAMING_COLUMNS = ("id", "image", "system", "category", "failure")
"""Columns of texts that identify samples; all others hold content of the data set or of a model."""
COLUMNS: Mapping[str, ColumnType] = {
    **dict.fromkeys(NAMING_COLUMNS, "text"),
    **dict.fromkeys(("candidate", "rival_caption"), "text"),
    **dict.fromkeys(("references", "objects", "candidates", "negatives"), "texts"),
    **dict.fromkeys(("ratings", "shares", "scores"), "numbers"),
    "influence": "number",
    "systems": "texts",
    "preferred": "integer",
}
"""Columns whose type may not follow from the values (``ratings.precision`` has that of ``ratings``).

No metric may have these names: a metric's name is that of its column.
"""


@dataclass(frozen=True, config=ConfigDict(strict=True))
class RunSettings:
    """Settings of a run.

    Attributes:
        limit: Number of documents, from the first; data checks and published values do not apply then.
        resamples: Bootstrap resamples behind each interval; 0 for none.
        seed: Seed of the bootstrap.
        level: Share of the resamples that an interval holds.
        intervals: Method of intervals: ``bootstrap``; ``influence``, by influence functions where they are known;
            ``auto``, which is ``influence`` from a million rows on.
        strict: Stop at the first sample that cannot be used, instead of counting it.
        skip_checks: Continue with data that fails the task's checks.
        subset: Recorded captions may cover a part of the documents; the run scores these only and records it.
        batch_size: Captions per batch of the model; None is the adapter's default.
        generation_kwargs: Decoding settings, which override those of the task.
        allow_outside: Folders that tasks may read, in addition to those of tasks and data.
    """

    limit: int | None = Field(default=None, ge=1)
    resamples: int = Field(default=1000, ge=0)
    seed: int = Field(default=1234, ge=0)
    level: float = Field(default=0.95, gt=0, lt=1)
    intervals: Intervals = "auto"
    strict: bool = False
    skip_checks: bool = False
    subset: bool = False
    batch_size: int | None = Field(default=None, ge=1)
    generation_kwargs: Mapping[str, Any] = Field(default_factory=dict)
    allow_outside: Sequence[str | Path] = ()

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> RunSettings:
        """Return settings from named values.

        Raises:
            UsageError: A name is unknown, or a value invalid.
        """
        known = [entry.name for entry in fields(cls)]
        for name in arguments:
            if name not in known:
                raise UsageError(f"unknown setting '{name}'.{did_you_mean(name, known)}", f"Known: {', '.join(known)}.")
        try:
            return cls(**arguments)
        except ValidationError as error:
            raise UsageError(_faults(error)) from error

    def draws(self, progress: Reporter = unheard) -> Draws:
        """Return how numbers are resampled.

        Args:
            progress: Receives the number of passes.
        """
        return Draws(self.resamples, self.seed, progress, self.intervals)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values; ``allow_outside`` and ``intervals`` only where they are set."""
        values = asdict(self)
        if self.intervals == "auto":
            del values["intervals"]
        folders = list(map(str, values.pop("allow_outside")))
        return {**values, **({"allow_outside": folders} if folders else {})}


def split_metrics(names: str | Sequence[str]) -> list[str]:
    """Return the names in texts, split at commas outside of ``[...]``."""
    texts = [names] if isinstance(names, str) else names
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise UsageError(f"a metric is named by a text, not by {wrong[0]!r:.80}", "As in metrics=['cider', 'bleu_4'].")
    return [name.strip() for text in texts for name in _BETWEEN.split(text) if name.strip()]


@cache
def read_metric(name: str) -> MetricEntry:
    """Return the metric and settings that a name stands for.

    The result is named by its label where one is given, else by the whole name.

    Raises:
        UsageError: It has another form, or a setting that all metrics have is invalid.
    """
    match = _NAMED.fullmatch(name)
    if match is None:
        raise UsageError(f"metric '{name}': expected NAME, or NAME[key=value,key=value]")
    arguments = parse_arguments(match["arguments"] or "", f"metric '{name}'")
    try:
        called = {} if arguments.get("label") else {"name": name}
        return MetricEntry.model_validate({**called, **arguments, "metric": match["metric"]})
    except ValidationError as error:
        raise UsageError(f"metric '{name}': {_faults(error)}") from error


def _faults(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
