"""What went wrong in a worker, as it travels between processes and machines: as JSON."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import errors
from ...errors import AdapterError, BenchError, StoreError

DIED = "died"
"""The kind of a fault that left nobody to tell of it."""
_LINES = 12
"""Of a traceback: its end says where it was."""


@dataclass(frozen=True)
class Fault:
    """An exception of a worker, or its end.

    Attributes:
        kind: The name of the exception's type, or ``died``.
        message: What it says.
        hint: What to do next, of a BenchError.
        parts: The faults that a BenchError says as one; none where it says one.
        trace: The end of the traceback.
        is_bench: Whether it is a BenchError: the user's to mend, and the same wherever the unit runs.
        error: The exception itself, in the process where it was raised.
    """

    kind: str
    message: str
    hint: str = ""
    parts: tuple[Fault, ...] = ()
    trace: str = ""
    is_bench: bool = False
    error: BaseException | None = field(default=None, compare=False)

    @classmethod
    def of(cls, error: BaseException) -> Fault:
        """Return what is told of an exception."""
        if isinstance(error, BenchError):
            # A kind of a module of its own is told as the kind in errors.py that it is.
            kind = next(one.__name__ for one in type(error).__mro__ if one.__module__ == errors.__name__)
            parts = () if error.parts == (error,) else tuple(cls.of(one) for one in error.parts)
            return cls(kind, error.message, error.hint, parts, is_bench=True, error=error)
        lines = "".join(traceback.format_exception(error)).splitlines()
        return cls(type(error).__name__, str(error), trace="\n".join(lines[-_LINES:]), error=error)

    @property
    def in_one_line(self) -> str:
        """What is wrong, for lists."""
        text = " ".join(self.message.split())
        return text if self.is_bench or self.kind == DIED else f"{self.kind}: {text}"

    @property
    def is_of_the_place(self) -> bool:
        """Whether another worker may have no such fault: its device, its way to the store."""
        return self.is_bench and issubclass(getattr(errors, self.kind), AdapterError | StoreError)

    def as_error(self) -> BenchError:
        """Return the BenchError that it was, of its kind, with its hint and parts."""
        if isinstance(self.error, BenchError):
            return self.error
        return getattr(errors, self.kind)(self.message, self.hint, [one.as_error() for one in self.parts])

    def to_values(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        values = {name: value for name, value in vars(self).items() if name != "error"}
        return {**values, "parts": [one.to_values() for one in self.parts]}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Fault:
        """Return the fault that values of JSON tell of."""
        return cls(**{**values, "parts": tuple(cls.from_values(one) for one in values["parts"])})
