"""What could not be read, captioned or scored: named, counted, never silently left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Stage = Literal["data", "caption", "candidate", "reference", "rating", "metric"]
_NAMED_SAMPLES = 20


@dataclass(frozen=True)
class Failure:
    """One sample that a step could not use.

    Attributes:
        sample: The sample's id, or the place of its row in a file.
        stage: The step.
        reason: Why, in words.
    """

    sample: str
    stage: Stage
    reason: str


def summarise(failures: Iterable[Failure]) -> list[dict[str, Any]]:
    """Return failures by stage and reason, with counts and the first samples of each, for a record."""
    groups: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        groups.setdefault((failure.stage, failure.reason), []).append(failure.sample)
    return [
        {"stage": stage, "reason": reason, "count": len(samples), "samples": samples[:_NAMED_SAMPLES]}
        for (stage, reason), samples in groups.items()
    ]
