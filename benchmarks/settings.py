"""What a user may set for a run, whatever the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run.

    Attributes:
        limit: Only the first documents of a task; data checks and published values do not apply then.
        resamples: Bootstrap resamples behind each interval; 0 for none.
        seed: Seed of the bootstrap.
        level: Share of the resamples that an interval holds.
        strict: Stop at the first sample that cannot be used, instead of counting it.
        skip_checks: Go on with data that is not what the task expects.
        batch_size: Captions asked of the model at once; None leaves it to the adapter.
        generation_kwargs: Decoding settings, over those of the task.
    """

    limit: int | None = None
    resamples: int = 1000
    seed: int = 1234
    level: float = 0.95
    strict: bool = False
    skip_checks: bool = False
    batch_size: int | None = None
    generation_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return asdict(self)
