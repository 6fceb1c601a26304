"""What a user may set for a run, whatever the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ...errors import UsageError, did_you_mean
from ..statistics import Draws, Intervals

if TYPE_CHECKING:
    from ...progress import Reporter


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run.

    Attributes:
        limit: Only the first documents of a task; data checks and published values do not apply then.
        resamples: Bootstrap resamples behind each interval; 0 for none.
        seed: Seed of the bootstrap.
        level: Share of the resamples that an interval holds.
        intervals: How intervals are made: ``bootstrap`` by resamples, ``influence`` by influence functions where they
            are known, ``auto`` by these from a million rows on.
        strict: Stop at the first sample that cannot be used, instead of counting it.
        skip_checks: Go on with data that is not what the task expects.
        subset: Recorded captions may be of a part of the documents; the run is of these alone, and says so.
        batch_size: Captions asked of the model at once; None leaves it to the adapter.
        generation_kwargs: Decoding settings, over those of the task.
        allow_outside: Folders besides those of tasks and data whose files tasks may read.
    """

    limit: int | None = None
    resamples: int = 1000
    seed: int = 1234
    level: float = 0.95
    intervals: Intervals = "auto"
    strict: bool = False
    skip_checks: bool = False
    subset: bool = False
    batch_size: int | None = None
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    allow_outside: Sequence[str | Path] = ()

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: One is not what the setting takes.
        """
        whole = {"limit": 1, "resamples": 0, "seed": 0, "batch_size": 1}
        for name, least in whole.items():
            value = getattr(self, name)
            if value is None and name in ("limit", "batch_size"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"{name} is a whole number, {least} or above, not {value!r}")
        if not (isinstance(self.level, float) and 0 < self.level < 1):
            raise UsageError(f"level lies between 0 and 1, not {self.level!r}")
        if self.intervals not in (known := get_args(Intervals)):
            raise UsageError(f"intervals are one of {', '.join(known)}, not {self.intervals!r}")
        if isinstance(self.allow_outside, str | Path):
            raise UsageError(f"allow_outside is a list of folders, not {self.allow_outside!r}")

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> RunSettings:
        """Return settings from named values.

        Raises:
            UsageError: An unknown name, or a value that the setting does not take.
        """
        known = [one.name for one in fields(cls)]
        for name in arguments:
            if name not in known:
                raise UsageError(f"unknown setting '{name}'.{did_you_mean(name, known)}", f"Known: {', '.join(known)}.")
        return cls(**arguments)

    def draws(self, progress: Reporter | None = None) -> Draws:
        """Return how numbers are resampled.

        Args:
            progress: Told of the passes.
        """
        return Draws(self.resamples, self.seed, progress, self.intervals)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values; folders that are allowed besides, and how intervals are made, if set."""
        values = asdict(self)
        if self.intervals == "auto":
            del values["intervals"]
        folders = list(map(str, values.pop("allow_outside")))
        return {**values, **({"allow_outside": folders} if folders else {})}
