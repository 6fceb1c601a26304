"""What records of earlier versions of capbench say in another way than this one's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..inputs.failures import FailureSummary
from .hashes import hash_of_json, plain

_NO_CAPTION = ("is null", "is not text", "is empty", "is longer than", "is not valid UTF-8", "has no letter")
"""How the reasons began for which captions were left out before records told of a choice."""


def protocol_choices(recorded: Mapping[str, Any], failures: Sequence[FailureSummary]) -> dict[str, Any]:
    """Return the choices of a protocol; of a record from before ``empty_caption`` was one, what moved its numbers.

    Args:
        recorded: Those that the record tells of.
        failures: The samples that could not be used.
    """
    left_out = any(
        one["stage"] in ("caption", "candidate") and one["reason"].startswith(_NO_CAPTION) for one in failures
    )
    return {**({"empty_caption": "leave_out"} if left_out else {}), **recorded}


def identity(parts: Mapping[str, Any], choices: Mapping[str, Any]) -> str:
    """Return the fingerprint in one form for records of all versions.

    Older ones hold null for keys that the task does not give, and the choices of all protocols.

    Args:
        parts: What the fingerprint is of.
        choices: Those of the run's own protocol.
    """
    given = {key: one for key, one in parts["task"].items() if one is not None}
    return hash_of_json({**parts, "task": {**given, "protocol": plain(choices)}})
