"""What could not be read, captioned or scored: named, counted, never silently left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ..metrics import Items
    from .protocols.contract import ScoredMetric

Stage = Literal["data", "caption", "candidate", "reference", "objects", "image", "rating", "metric"]
_NAMED_SAMPLES = 20
_SUBJECTS = {"data": "row"}


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

    @property
    def subject(self) -> str:
        """What the reason is said of, in a sentence for people."""
        return _SUBJECTS.get(self.stage, self.stage)


def describe(entry: Mapping[str, Any]) -> str:
    """Return an entry of ``summarise`` as a line for people."""
    subject = _SUBJECTS.get(entry["stage"], entry["stage"])
    return f"{entry['count']:,} × {subject} {entry['reason']} (first: {entry['samples'][0]})"


def remarks_of(items: Items, scored: Iterable[ScoredMetric]) -> list[Failure]:
    """Return what metrics remark on the items that they scored, once an item and remark."""
    found = {
        (items.ids[item], remark): None
        for one in scored
        if one.scores is not None
        for item, remark in one.scores.remarks.items()
    }
    return [Failure(identity, "image", remark) for identity, remark in found]


def summarise(failures: Iterable[Failure]) -> list[dict[str, Any]]:
    """Return failures by stage and reason, with counts and the first samples of each, for a record."""
    groups: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        groups.setdefault((failure.stage, failure.reason), []).append(failure.sample)
    return [
        {"stage": stage, "reason": reason, "count": len(samples), "samples": samples[:_NAMED_SAMPLES]}
        for (stage, reason), samples in groups.items()
    ]
