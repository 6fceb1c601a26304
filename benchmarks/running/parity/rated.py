"""The statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ....metrics.golden import read_golden
from ...statistics import statistics
from ...statistics.contract import RatedScores
from .components import Component, Values

_NAMES = {
    "kendall_b": "Kendall's τ-b",
    "kendall_c": "Kendall's τ-c",
    "spearman": "Spearman's ρ",
    "pearson": "Pearson's r",
}


def components() -> Iterator[Component]:
    """Yield the components."""
    for name, label in _NAMES.items():
        yield Component(label, "scipy.stats 1.17.1", 1e-12, _values(name))


def _values(name: str) -> Callable[[], Values]:
    def compute() -> Values:
        cases = read_golden("statistics")["cases"].values()
        ours = [
            statistics[name]().value(_rated(one["scores"], one["human"]), np.ones(len(one["human"]), dtype=int))
            for one in cases
        ]
        return Values.of_numbers(ours, [one[name] for one in cases])

    return compute


def _rated(scores: list[float], human: list[float]) -> RatedScores:
    return RatedScores(np.array(scores), np.array(human), np.arange(len(human)))
