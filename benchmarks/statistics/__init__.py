"""Statistics of a metric's agreement with human judgement, by name.

Importing this package loads no numpy; a statistic's module is imported when its name is first looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ...progress import Reporter, unheard
from ...registry import Registry

if TYPE_CHECKING:
    from .contract import Statistic

Intervals = Literal["auto", "bootstrap", "influence"]
"""How intervals are computed: bootstrap, influence functions, or (``auto``) influence functions for many rows."""


@dataclass(frozen=True)
class Draws:
    """Settings of the cluster bootstrap over images, or of the influence functions in its place.

    A bootstrap resample holds as many images as the data, drawn with replacement; a row's weight is how often its
    image was drawn. The draws depend on ``seed`` and the number of images alone, so metrics and statistics of one task
    see the same resamples.

    Attributes:
        resamples: Number of resamples; 0 computes no intervals.
        seed: Seed of the draws.
        progress: Called with (passes done, passes in all); a pass is one resample of one metric and rater.
        intervals: Bootstrap or influence functions. A statistic without an influence function is always resampled.
        processes: Number of processes, which does not change the resamples. None starts one a core if there is enough
            work and this process runs no other threads.
    """

    resamples: int = 1000
    seed: int = 0
    progress: Reporter = unheard
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
        "one_minus_r2": "capbench.benchmarks.statistics.correlation:OneMinusR2",
        "average_precision": "capbench.benchmarks.statistics.correlation:AveragePrecision",
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
