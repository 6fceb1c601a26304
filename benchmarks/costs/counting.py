"""How many units a run has, without its documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..running.planned_metrics import PlannedMetric
from ..running.shards.placing import pool_of
from ..running.shards.states import PARTS
from ..running.units import Stage

Counted = dict[tuple[Stage, str, bool], int]
"""Units by stage, by pool, and by whether they come after the state of the whole corpus is known."""


def shards_of(rows: int, shard: int) -> int:
    """Return how many shards so many documents are."""
    return -(-rows // shard)


def count_units(metrics: Sequence[PlannedMetric], shards: int) -> Counted:
    """Return how many units ``Placing`` yields for so many shards."""
    found: Counter[tuple[Stage, str, bool]] = Counter()
    alone = shards == 1
    early = [one for one in metrics if alone or one.metric.has_state or not one.metric.corpus_dependent]
    for pool in {pool_of(one) for one in early}:
        found["score", pool, False] += shards
    for one in () if alone else metrics:
        pool = pool_of(one)
        if one.metric.has_state:
            found["frequencies", "cpu", True] += PARTS
            found["score", pool, True] += shards
        elif one.metric.corpus_dependent:
            found["score", pool, True] += 1
    return dict(found)
