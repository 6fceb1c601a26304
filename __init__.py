"""capbench: one harness for caption evaluation.

``evaluate`` runs tasks with a model, ``score`` scores captions in memory, ``load_run`` reads a
finished run; they return a ``Run`` or a ``ScoreTable``. ``register_*`` add metrics, adapters, statistics and
protocols; ``as_evaluate`` makes a module of the evaluate library, ``as_torchmetrics`` and ``CLIPScore`` metrics with
the interface of torchmetrics, ``compute_score`` is that of pycocoevalcap's scorers, ``reward`` a reward function for
trainers. Everything is imported on first use, so ``import capbench`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters import register_adapter
    from .benchmarks.api import compute_score, evaluate, load_run, score
    from .benchmarks.interchange.as_evaluate import as_evaluate
    from .benchmarks.interchange.as_reward import reward
    from .benchmarks.interchange.as_torchmetrics import CLIPScore, as_torchmetrics
    from .benchmarks.protocols import register_protocol
    from .benchmarks.running.score_table import ScoreTable
    from .benchmarks.statistics import register_statistic
    from .benchmarks.tables.results import Run
    from .metrics import register_metric

_LAZY = {
    "CLIPScore": ".benchmarks.interchange.as_torchmetrics",
    "Run": ".benchmarks.tables.results",
    "ScoreTable": ".benchmarks.running.score_table",
    "as_evaluate": ".benchmarks.interchange.as_evaluate",
    "as_torchmetrics": ".benchmarks.interchange.as_torchmetrics",
    "compute_score": ".benchmarks.api",
    "evaluate": ".benchmarks.api",
    "load_run": ".benchmarks.api",
    "reward": ".benchmarks.interchange.as_reward",
    "score": ".benchmarks.api",
    "register_adapter": ".adapters",
    "register_metric": ".metrics",
    "register_protocol": ".benchmarks.protocols",
    "register_statistic": ".benchmarks.statistics",
}

__all__ = [
    "CLIPScore",
    "Run",
    "ScoreTable",
    "as_evaluate",
    "as_torchmetrics",
    "compute_score",
    "evaluate",
    "load_run",
    "register_adapter",
    "register_metric",
    "register_protocol",
    "register_statistic",
    "reward",
    "score",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("capbench")
    if name in _LAZY:
        value = globals()[name] = getattr(importlib.import_module(_LAZY[name], __name__), name)
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
