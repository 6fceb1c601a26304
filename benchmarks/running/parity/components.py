"""What is held against golden values, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ....errors import BenchError
from ....progress import Progress, silent

Verdict = Literal["ok", "differs", "not run"]


@dataclass(frozen=True)
class Values:
    """Values of this machine beside golden ones.

    Attributes:
        ours: ``[n]`` float64.
        golden: ``[n]`` float64.
    """

    ours: np.ndarray
    golden: np.ndarray

    @classmethod
    def of_numbers(cls, ours: Iterable[object], golden: Iterable[object]) -> Values:
        """Return numbers in any nesting, as long as it is the same on both sides."""
        pair = [np.asarray(list(side), dtype=np.float64) for side in (ours, golden)]
        if pair[0].shape != pair[1].shape:
            raise ValueError(f"values of shape {pair[0].shape}, golden ones of {pair[1].shape}")
        return cls(pair[0].ravel(), pair[1].ravel())

    @classmethod
    def of_answers(cls, ours: Iterable[object], golden: Iterable[object]) -> Values:
        """Return answers that are the same or not (words, token ids) as differences of 0 and 1."""
        same = [one == other for one, other in zip(ours, golden, strict=True)]
        return cls(np.asarray(same, dtype=np.float64), np.ones(len(same)))

    @property
    def largest_difference(self) -> float:
        """The largest difference; infinite where one of the two has no value."""
        differences = np.abs(self.ours - self.golden)
        return float(np.where(np.isnan(differences), np.inf, differences).max(initial=0.0))


@dataclass(frozen=True)
class Component:
    """A metric, or a part of one.

    Attributes:
        name: What tables call it.
        source: What printed the golden values.
        tolerance: The largest difference that is none.
        compute: Computes the values.
        require: Raises BenchError or ImportError where the machine lacks what it needs.
        subset: Which golden values these are, where there are more that cannot be passed on.
    """

    name: str
    source: str
    tolerance: float
    compute: Callable[[], Values]
    require: Callable[[], object] = lambda: None
    subset: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a component.

    Attributes:
        component: The component.
        verdict: ``ok``, ``differs`` or ``not run``.
        compared: Number of values.
        largest: Their largest difference; None where there are no values.
        reason: Why it was not run, or gave no values; else empty.
    """

    component: Component
    verdict: Verdict
    compared: int = 0
    largest: float | None = None
    reason: str = ""


def check_parity(components: Sequence[Component], progress: Progress = silent) -> list[Outcome]:
    """Compute what each component gives on this machine, and hold it against its golden values.

    Args:
        components: What is held against them; one that fails costs itself alone.
        progress: Gives a reporter of (done, total).
    """
    report = progress("parity")
    outcomes: list[Outcome] = []
    for component in components:
        report(len(outcomes), len(components))
        outcomes.append(_outcome(component))
    report(len(components), len(components))
    return outcomes


def _outcome(component: Component) -> Outcome:
    try:
        component.require()
    except BenchError as error:
        return Outcome(component, "not run", reason=error.in_one_line)
    except ImportError as error:
        return Outcome(component, "not run", reason=f"{error}. pip install {error.name or 'it'}")
    try:
        values = component.compute()
    except Exception as error:  # noqa: BLE001 - whatever a library of another version raises is the finding
        return Outcome(component, "differs", reason=f"{type(error).__name__}: {error}")
    largest = values.largest_difference
    verdict = "ok" if len(values.ours) and largest <= component.tolerance else "differs"
    return Outcome(component, verdict, len(values.ours), largest)
