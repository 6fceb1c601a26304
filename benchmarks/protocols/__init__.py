"""Protocols: what a task's ``output_type`` does with documents, model, metrics and statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...registry import Registry

if TYPE_CHECKING:
    from .contract import Protocol

protocols: Registry[type[Protocol]] = Registry(
    "protocol",
    {
        "agreement": "capbench.benchmarks.protocols.agreement:Agreement",
        "preference": "capbench.benchmarks.protocols.preference:Preference",
        "matching": "capbench.benchmarks.protocols.matching:Matching",
        "generate_until": "capbench.benchmarks.protocols.generate_until:GenerateUntil",
    },
    entry_points="capbench.protocols",
)

register_protocol = protocols.register
