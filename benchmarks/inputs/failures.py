"""Samples that could not be read, captioned or scored: each is named and counted."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from ...errors import DataError

Stage = str
"""The step: ``data``, ``caption``, ``candidate``, ``reference``, ``objects``, ``image``, ``rating``, ``metric``, or a
name for its own step. ``model``: the model failed on a sample; another request may succeed."""
_NAMED_SAMPLES = 20
_SUBJECTS = {"data": "row", "model": "caption"}


@dataclass(frozen=True)
class Failure:
    """One sample that a step could not use.

    Attributes:
        sample: The sample's id, or the location of its row in a file.
        stage: The step.
        reason: Why it could not be used.
    """

    sample: str
    stage: Stage
    reason: str

    @property
    def subject(self) -> str:
        """The subject of the reason, in a message."""
        return _SUBJECTS.get(self.stage, self.stage)


class FailureSummary(TypedDict):
    """Samples that one step could not use for one reason: their number and the first of them."""

    stage: Stage
    reason: str
    count: Annotated[int, Field(ge=1, le=2**53 - 1)]
    samples: Annotated[list[str], Field(min_length=1)]


@dataclass
class FailureLog:
    """Collects failures; in strict mode the first one ends the run.

    Attributes:
        strict: Whether the first failure ends the run.
        entries: The samples that could not be used.
        empty: Empty or invalid captions, which are scored as empty ones.
    """

    strict: bool
    entries: list[Failure] = field(default_factory=list[Failure])
    empty: list[Failure] = field(default_factory=list[Failure])

    def add(self, sample: str, stage: Stage, reason: str) -> None:
        """Record a failure.

        Raises:
            DataError: In strict mode.
        """
        self._add(self.entries, Failure(sample, stage, reason), "such samples are excluded and counted")

    def add_empty(self, sample: str, stage: Stage, reason: str) -> None:
        """Record a caption that is scored as an empty one.

        Raises:
            DataError: In strict mode.
        """
        self._add(self.empty, Failure(sample, stage, reason), "such captions are counted and scored as empty ones")

    def _add(self, to: list[Failure], failure: Failure, otherwise: str) -> None:
        to.append(failure)
        if self.strict:
            raise DataError(f"{failure.sample}: {failure.subject} {failure.reason}", f"Without --strict {otherwise}.")


def outcome(entry: FailureSummary) -> str:
    """Return the outcome of the samples: excluded, or failed in a model or metric."""
    return "failed" if entry["stage"] in ("model", "metric") else "left out"


def describe(entry: FailureSummary) -> str:
    """Return an entry of ``summarise`` as a line of text."""
    subject = _SUBJECTS.get(entry["stage"], entry["stage"])
    first = entry["samples"][0]
    return f"{entry['count']:,} × {subject} {entry['reason']} (first: {'document ' * first.isdecimal()}{first})"


def summarise(failures: Iterable[Failure]) -> list[FailureSummary]:
    """Return failures by stage and reason, with counts and the first samples of each, for a record."""
    groups: dict[tuple[Stage, str], list[str]] = {}
    for failure in failures:
        groups.setdefault((failure.stage, failure.reason), []).append(failure.sample)
    return [
        {"stage": stage, "reason": reason, "count": len(samples), "samples": samples[:_NAMED_SAMPLES]}
        for (stage, reason), samples in groups.items()
    ]
