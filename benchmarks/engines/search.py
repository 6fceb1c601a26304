"""Which documents of a unit fail it: its halves are tried, and the halves of those that fail."""

from __future__ import annotations

from ...errors import EngineError
from ..running.units import Unit
from .faults import Fault

MAX_LEFT_OUT = 50
"""Documents of a unit that may be left out; where more fail, the fault is not the documents'."""
_TRIES = 2
"""Of a single document, before it is left out: a worker may end by chance."""


class Search:
    """A search in a unit that failed as often as it may.

    Attributes:
        documents: Those that failed alone.
        fault: How the last of them did.

    Args:
        unit: The unit.
        fault: How it failed.
    """

    def __init__(self, unit: Unit, fault: Fault) -> None:
        self.unit = unit
        self.fault = fault
        self.documents: list[int] = []
        self._open = 1

    def begin(self) -> list[Unit]:
        """Return the first probe: the unit with no document at all."""
        first, _ = self.unit.rows
        return [self.unit.narrowed((first, first))]

    @property
    def is_over(self) -> bool:
        """Whether every probe is done."""
        return not self._open

    def wants_again(self, probe: Unit, tries: int) -> bool:
        """Return whether a probe that failed is to be tried again before that is believed."""
        return tries < _TRIES and _length(probe) < 2

    def passed(self, probe: Unit) -> list[Unit]:
        """Note that a probe is done, and return those that follow."""
        self._open -= 1
        return [] if _length(probe) else self._halves(self.unit)

    def failed(self, probe: Unit, fault: Fault) -> list[Unit]:
        """Note that a probe failed, and return those that follow.

        Raises:
            EngineError: The documents are not what fails it, or too many of them do.
        """
        self._open -= 1
        self.fault = fault
        if not _length(probe):
            raise EngineError(f"{self.unit} fails without any document: {fault.in_one_line}", fault.trace)
        if _length(probe) > 1:
            return self._halves(probe)
        self.documents += range(*probe.rows)
        if len(self.documents) > min(MAX_LEFT_OUT, len(self.unit.documents) - 1):
            raise EngineError(
                f"{self.unit} fails with {len(self.documents)} of its documents, each alone, and no more may be left "
                f"out: {fault.in_one_line}",
                fault.trace,
            )
        return []

    def _halves(self, unit: Unit) -> list[Unit]:
        (first, end), middle = unit.rows, sum(unit.rows) // 2
        left_out = set(unit.without)
        probes = [
            unit.narrowed(rows)
            for rows in ((first, middle), (middle, end))
            if not left_out.issuperset(range(*rows))
        ]
        self._open += len(probes)
        return probes


def _length(unit: Unit) -> int:
    first, end = unit.rows
    return end - first
