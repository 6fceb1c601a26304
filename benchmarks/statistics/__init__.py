"""How far a metric agrees with human judgement: the statistics, by name.

Importing this package loads no numpy; a statistic's module is imported when its name is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ...registry import Registry

if TYPE_CHECKING:
    from ...progress import Reporter
    from .contract import Statistic

Intervals = Literal["auto", "bootstrap", "influence"]
"""How intervals are made: by resamples, by influence functions where they are known, or by these for many rows."""


@dataclass(frozen=True)
class Draws:
    """How numbers are resampled, or what takes the place of that.

    A resample draws as many images as there are, with replacement, and every row counts as often as its image was
    drawn. The draws follow from ``seed`` and the number of images alone, so that metrics and statistics of one task see
    the same resamples.

    Attributes:
        resamples: How many; 0 asks for no intervals.
        seed: What they follow from.
        progress: Called with (passes done, passes in all); a pass is one resample, of one rater of one metric where
            there are several.
        intervals: Whether resamples are drawn, or influence functions take their place. What has none is resampled,
            whatever is asked for.
        processes: How many share the resamples, which are the same however many there are; None for one a core where
            there is enough to do, and this process runs nothing beside.
    """

    resamples: int = 1000
    seed: int = 0
    progress: Reporter | None = None
    intervals: Intervals = "auto"
    processes: int | None = None


T = TypeVar("T", bound=Callable[..., Any])

statistics: Registry[type[Statistic]] = Registry(
    "statistic",
    {
        "pearson": "capbench.benchmarks.statistics.correlation:Pearson",
        "spearman": "capbench.benchmarks.statistics.correlation:Spearman",
        "kendall_b": "capbench.benchmarks.statistics.correlation:KendallB",
        "kendall_c": "capbench.benchmarks.statistics.correlation:KendallC",
        "sample_kendall": "capbench.benchmarks.statistics.sample_kendall:SampleKendall",
        "one_minus_r2": "capbench.benchmarks.statistics.one_minus_r2:OneMinusR2",
        "average_precision": "capbench.benchmarks.statistics.average_precision:AveragePrecision",
        "accuracy_eq": "capbench.benchmarks.statistics.systems.accuracy_eq:AccuracyEq",
        "system_pearson": "capbench.benchmarks.statistics.systems.correlation:SystemPearson",
        "system_spearman": "capbench.benchmarks.statistics.systems.correlation:SystemSpearman",
        "system_kendall": "capbench.benchmarks.statistics.systems.correlation:SystemKendall",
        "pairwise_accuracy": "capbench.benchmarks.statistics.systems.correlation:PairwiseAccuracy",
        "soft_pairwise_accuracy": "capbench.benchmarks.statistics.systems.soft_pairwise:SoftPairwiseAccuracy",
    },
    entry_points="capbench.statistics",
)
"""Names to statistic classes; ``statistics[name](**options)`` is a statistic."""


def register_statistic(name: str, *, label: str | None = None, higher_is_better: bool = True) -> Callable[[T], T]:
    """Return a decorator that registers a statistic under ``name``.

    It takes a :class:`~capbench.benchmarks.statistics.contract.Statistic` subclass, or a plain function
    ``f(scores [n], human [n], groups [n], **options) -> float`` where NaN means undefined::

        @register_statistic("share_agreeing", label="agreement")
        def share_agreeing(scores, human, groups): ...

    Args:
        name: The name that task files use.
        label: For a function: the name to print. Default: ``name``.
        higher_is_better: For a function: whether a larger value is a better metric.

    Raises:
        UsageError: The name is taken.
    """

    def decorator(target: T) -> T:
        is_class = isinstance(target, type)
        statistics.add(name, target if is_class else as_class(target, label or name, higher_is_better))
        return target

    return decorator


def as_class(function: Callable[..., float], printed: str, larger_is_better: bool) -> type[Statistic]:
    """Return a plain function as a class of statistics, which takes the function's options.

    Args:
        function: As of :func:`register_statistic`.
        printed: The name to print.
        larger_is_better: Whether a larger value is a better metric.
    """
    from .contract import FunctionStatistic

    class RegisteredFunction(FunctionStatistic):
        __doc__ = function.__doc__
        label = printed
        higher_is_better = larger_is_better

        def __init__(self, **options: Any) -> None:
            super().__init__(function, **options)

    return RegisteredFunction
