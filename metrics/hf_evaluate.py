"""Metrics of the Hugging Face ``evaluate`` library, run caption by caption."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MetricError
from ..hub import asks_nobody
from ..permissions import RUN_HINT, may_run
from .contract import Context, Metric, require_settings
from .items import Items, Scores


class EvaluateMetric(Metric):
    """A module of the evaluate library as a metric.

    The module is computed once a caption. One that takes a single reference a caption is computed against
    each, and the best value counts. Loading a module from the hub runs its code, as the library does.

    Args:
        path: What ``evaluate.load`` takes: a hub name, or a local folder or script.
        result: Which entry of the module's result is the score; by default the one named like the module,
            or the only number.
        config_name: The module's configuration.
        higher_is_better: Whether more is better; decides which reference is the best one.
        **options: Passed to ``compute``.
    """

    source = "the evaluate library"
    needs = frozenset({"references"})
    range = (-math.inf, math.inf)

    def __init__(
        self,
        path: str,
        result: str | None = None,
        config_name: str | None = None,
        higher_is_better: bool = True,
        **options: Any,
    ) -> None:
        self.path = path
        self.result = result
        self.config_name = config_name
        self.options = options
        self.label = path.rstrip("/").rpartition("/")[2].removesuffix(".py")
        self.higher_is_better = higher_is_better
        self.named_by: Path | None = None
        """The folder of the task file that names it; None if the user did."""
        self._module: Any = None

    def check(self) -> None:
        """Load the module, which runs its code; skipped while nothing may be fetched.

        Raises:
            MetricError: It may not run, cannot be loaded, or does not take predictions and references.
            UsageError: It does not take an option.
        """
        if self._module is not None or asks_nobody():
            return
        if self.named_by is not None and not may_run(self.named_by):
            raise MetricError("is code that the task names, and needs permission to run", RUN_HINT)
        import evaluate

        try:
            self._module = evaluate.load(self.path, config_name=self.config_name, keep_in_memory=True)
        except Exception as error:
            raise MetricError(
                f"evaluate cannot load '{self.path}': {type(error).__name__}: {error}",
                "Give a hub name, or the path of a module's folder or script.",
            ) from error
        if missing := {"predictions", "references"} - set(self._features()):
            raise MetricError(f"evaluate module '{self.path}' does not take {' and '.join(sorted(missing))}.")
        require_settings(f"evaluate module '{self.path}'", self._module._compute, self.options, self._features())

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings and the hash that the library gives the module's code."""
        self.check()
        return {**super().fingerprint(), "module": getattr(self._module, "hash", None) or self._module.__module__}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        self.check()
        values = np.full(len(items), np.nan)
        failures: dict[int, str] = {}
        for item, (candidate, references) in enumerate(zip(items.candidates, items.references, strict=True)):
            try:
                values[item] = self._value(candidate, references)
            except MetricError:
                raise
            except Exception as error:  # noqa: BLE001 - any error of the module is this item's failure
                failures[item] = f"{type(error).__name__}: {error}"
            context.progress(item + 1, len(items))
        return Scores(values, failures=failures)

    def _features(self) -> dict[str, Any]:
        features = self._module.features
        # A module may take one reference or several; the layout for several comes first then, if it is there.
        layouts = features if isinstance(features, list) else [features]
        several = [layout for layout in layouts if _is_list(layout.get("references"))]
        return (several or layouts)[0]

    def _value(self, candidate: str, references: Sequence[str]) -> float:
        if _is_list(self._features()["references"]):
            return self._compute(candidate, list(references))
        values = [self._compute(candidate, reference) for reference in references]
        return max(values) if self.higher_is_better else min(values)

    def _compute(self, candidate: str, references: list[str] | str) -> float:
        results = self._module.compute(predictions=[candidate], references=[references], **self.options)
        numbers = {name: number for name, value in results.items() if (number := _number(value)) is not None}
        name = self.result or (self.label if self.label in numbers else None)
        if name is None and len(numbers) == 1:
            (name,) = numbers
        if name is None or name not in numbers:
            raise MetricError(
                f"evaluate module '{self.path}' returns {', '.join(results)}, and none of them is named as the score.",
                f"Name it in a task file: {{metric: 'evaluate:{self.path}', result: {next(iter(results), 'NAME')}}}.",
            )
        return numbers[name]


def _is_list(feature: Any) -> bool:
    """Tell whether a feature of ``references`` holds several texts (a list has a feature inside)."""
    return isinstance(feature, list) or hasattr(feature, "feature")


def _number(value: Any) -> float | None:
    """Return a number, or the number in a list of one; None for anything else."""
    if isinstance(value, list | tuple | np.ndarray) and len(value) == 1:
        value = value[0]
    return float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else None
