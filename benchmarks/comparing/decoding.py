"""How runs of one model are told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..records.record import Record


def own_decoding(record: Record, others: Sequence[Record]) -> str:
    """Return the decoding settings of a run that are others in some run (``temperature=1``); empty if none is.

    Args:
        record: Of the run.
        others: Of the runs that it is told apart from; it may be among them.
    """
    return in_words(
        {
            key: value
            for key, value in record.decoding.items()
            if any(other.decoding.get(key) != value for other in others)
        }
    )


def in_words(settings: Mapping[str, Any]) -> str:
    """Return decoding settings as ``num_beams=1, temperature=1``, in the order of their names."""
    return ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
