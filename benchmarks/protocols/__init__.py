"""Protocols: what a task's ``output_type`` does with documents, model, metrics and statistics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...registry import Registry

if TYPE_CHECKING:
    from .contract import Protocol

protocols: Registry[type[Protocol[Any]]] = Registry(
    "protocol",
    {
        "agreement": "capbench.benchmarks.protocols.agreement:Agreement",
        "preference": "capbench.benchmarks.protocols.preference:Preference",
        "battles": "capbench.benchmarks.protocols.battles:Battles",
        "matching": "capbench.benchmarks.protocols.matching.protocol:Matching",
        "retrieval": "capbench.benchmarks.protocols.retrieval:Retrieval",
        "checklist": "capbench.benchmarks.protocols.checklist.protocol:Checklist",
        "generate_until": "capbench.benchmarks.protocols.generate_until:GenerateUntil",
        "yes_no": "capbench.benchmarks.protocols.yes_no:YesNo",
    },
    entry_points="capbench.protocols",
)

register_protocol = protocols.register
"""A decorator that registers a protocol: ``@capbench.register_protocol("odd_one_out")`` above its class.

Raises:
    UsageError: The name is taken.
"""


def names_where(holds: Callable[[type[Protocol[Any]]], bool]) -> list[str]:
    """Return the names of the protocols that fulfil a condition; one that cannot be imported is skipped."""
    names: list[str] = []
    for name in protocols:
        # A broken protocol of a package does not affect the others.
        with contextlib.suppress(UsageError):
            if holds(protocols[name]):
                names.append(name)
    return names
