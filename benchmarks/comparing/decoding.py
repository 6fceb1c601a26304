"""How runs of one model are told apart."""

from __future__ import annotations

from collections.abc import Sequence

from ..records.record import Record


def own_decoding(record: Record, others: Sequence[Record]) -> str:
    """Return the decoding settings of a run that are others in some run (``temperature=1``); empty if none is.

    Args:
        record: Of the run.
        others: Of the runs that it is told apart from; it may be among them.
    """
    return ", ".join(
        f"{key}={value}"
        for key, value in sorted(record.decoding.items())
        if any(other.decoding.get(key) != value for other in others)
    )
