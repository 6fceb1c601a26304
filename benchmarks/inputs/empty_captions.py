"""Captions that say nothing: they count as empty ones, as released code counts them, or are left out."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ...errors import UsageError, did_you_mean
from .failures import FailureLog, Stage
from .items import candidate_fault

EmptyCaption = Literal["zero", "leave_out"]

MEANINGS = {
    "zero": "a caption that says nothing, or is none, counts as an empty one and keeps its references",
    "leave_out": "a caption that says nothing, or is none, is left out with its references",
}


def require_rule(rule: str) -> EmptyCaption:
    """Return a rule that a user named.

    Raises:
        UsageError: It is none.
    """
    for known in get_args(EmptyCaption):
        if rule == known:
            return known
    raise UsageError(
        f"empty_caption is {' or '.join(get_args(EmptyCaption))}, not {rule!r}."
        f"{did_you_mean(str(rule), get_args(EmptyCaption))}"
    )


def scored_caption(text: Any, sample: str, stage: Stage, rule: EmptyCaption, failures: FailureLog) -> str | None:
    """Return a caption as metrics score it.

    Args:
        text: What stands where a caption should.
        sample: Id of the sample.
        stage: The step that gave it.
        rule: What becomes of what is no caption.
        failures: Is told of it.

    Returns:
        The caption; empty where it counts as an empty one; None where it is left out.

    Raises:
        DataError: It is no caption, and the log is strict.
    """
    fault = candidate_fault(text)
    if fault is None:
        return text
    if rule == "leave_out":
        failures.add(sample, stage, fault)
        return None
    failures.add_empty(sample, stage, fault)
    return ""
