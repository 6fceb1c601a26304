"""A plain function as a metric."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..rows import parse_number
from .contract import Context, Metric
from .items import Items, Scores


class FunctionMetric(Metric):
    """A metric given as a plain function of one caption.

    ``f(candidate, references, **arguments)``, or ``f(candidate, **arguments)``, gives a number. What raises, or gives
    no finite number, is the failure of its caption.

    Args:
        function: The function.
        label: The name of the result.
        higher_is_better: Whether more is better.
        **arguments: Passed to the function.

    Raises:
        TypeError: The function cannot be called so.
    """

    source = "a function of the task"
    range = (-math.inf, math.inf)

    def __init__(
        self, function: Callable[..., Any], label: str, higher_is_better: bool = True, **arguments: Any
    ) -> None:
        signature = inspect.signature(function)
        try:
            signature.bind("", [], **arguments)
            self.needs = frozenset({"references"})
        except TypeError:
            signature.bind("", **arguments)
        self.label = label
        self.higher_is_better = higher_is_better
        self.arguments = arguments
        self._function = function

    def score(self, items: Items, context: Context) -> Scores:
        """Call the function with each item; see ``Metric.score``."""
        values = np.full(len(items), np.nan)
        failures: dict[int, str] = {}
        for item, candidate in enumerate(items.candidates):
            inputs = [candidate, list(items.references[item])] if self.needs else [candidate]
            try:
                value = self._function(*inputs, **self.arguments)
            except Exception as error:  # noqa: BLE001 - any error of the function is this item's failure
                failures[item] = f"{type(error).__name__}: {error}"
                continue
            try:
                values[item] = parse_number(None if isinstance(value, str) else value)
            except (TypeError, ValueError, OverflowError):
                failures[item] = f"the function gave no finite number, but {value!r:.40}"
            context.progress(item + 1, len(items))
        return Scores(values, failures=failures)
