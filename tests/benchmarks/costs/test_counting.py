"""How many units a run has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

from hypothesis import given
from hypothesis import strategies as st

from capbench.benchmarks.costs.counting import count_units, shards_of
from capbench.benchmarks.inputs.items import CaptionRow, gather
from capbench.benchmarks.inputs.metric_names import read_metric
from capbench.benchmarks.protocols.job import Shard, Summary, caption_columns
from capbench.benchmarks.running.planned_metrics import PlannedMetric, plan_metric
from capbench.benchmarks.running.shards.gathering import Gathering
from capbench.benchmarks.running.shards.placing import Placing
from capbench.benchmarks.running.shards.shelf import MemoryShelf

NAMES = ("length", "bleu_4", "cider", "clip_s", "mid", "clair", "gpt4_eval")
"""With and without a state, of all pools, and one that must see the whole corpus at once."""


def planned(name: str) -> PlannedMetric:
    return plan_metric(read_metric(name), frozenset({"references", "image", "encoder", "judge"}))


@given(names=st.sets(st.sampled_from(NAMES), min_size=1), shards=st.integers(1, 4))
def test_there_are_as_many_units_as_are_placed(names: set[str], shards: int):
    metrics = [planned(name) for name in sorted(names)]
    gathering = Gathering(MemoryShelf(), hash_images=True)
    models = {"encoder": "one", "judge": "another"}

    def collected() -> Generator[Shard, None, Summary]:
        for number in range(shards):
            rows = [CaptionRow(f"{number}", "image", f"caption {number}", ("a reference",))]
            yield Shard(*gather(rows), caption_columns(rows, [None]))
        return Summary(shards)

    placed = list(Placing(metrics, gathering, models).units(gathering.gather(collected())))
    # What follows the state of a corpus needs it; what must see all of it at once is whole.
    late = [unit.stage == "frequencies" or bool(unit.needs) or (unit.whole and shards > 1) for unit in placed]
    found = Counter((unit.stage, unit.pool, one) for unit, one in zip(placed, late, strict=True))

    assert count_units(metrics, shards) == found


def test_last_shard_may_be_small():
    assert [shards_of(rows, 20_000) for rows in (1, 20_000, 20_001, 10**9)] == [1, 1, 2, 50_000]
