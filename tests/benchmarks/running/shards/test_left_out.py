"""Documents that no worker survives: they have the reason, and the others the scores of a run without them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from in_shards import Fragile, Picky, RankOf

from capbench.benchmarks.inputs.failures import Failure, FailureLog
from capbench.benchmarks.inputs.items import CaptionRow, gathered
from capbench.benchmarks.protocols.job import Shard, Summary, caption_columns
from capbench.benchmarks.protocols.results import ScoredMetric
from capbench.benchmarks.running.planned_metrics import PlannedMetric
from capbench.benchmarks.running.shards.codec import Originals
from capbench.benchmarks.running.shards.folder_shelf import FolderShelf
from capbench.benchmarks.running.shards.gathering import Gathering
from capbench.benchmarks.running.shards.placing import Placing
from capbench.benchmarks.running.shards.results import Results
from capbench.benchmarks.running.shards.shelf import MemoryShelf, Shelf
from capbench.benchmarks.running.shards.work import NOT_SURVIVED, RunWork
from capbench.benchmarks.running.units import Unit
from capbench.metrics import Metric
from capbench.metrics.bleu import Bleu4
from capbench.metrics.cider import Cider

METRICS: Sequence[Metric] = (Picky(), Fragile(), Bleu4(), Cider(), RankOf())
PLANNED = [PlannedMetric(type(one).__name__, one, "mean", True) for one in METRICS]
WORDS = ["dog", "boat", "child", "horse", "street"]
SIZE = 6


def rows(count: int, corpora: int = 1) -> list[CaptionRow]:
    """Captions, one of which is strange, one odd and one without spaces, each in every corpus."""

    def text(n: int) -> str:
        if n % 8 == 3:
            return f"一只狗站在河边看着一艘船 {n}"
        return f"a {'odd' if n % 8 == 5 else 'strange' if n % 8 == 6 else 'small'} {WORDS[n % 5]} by the {n}"

    return [
        CaptionRow(
            f"row {n}|{c}",
            f"{n}.jpg",
            text(n),
            (f"one {WORDS[n % 5]}", f"the {WORDS[n // 3 % 5]} {n}"),
            corpus=c,
        )
        for n in range(count)
        for c in range(corpora)
    ]


@dataclass(frozen=True)
class Leaving:
    """Carries out units as engines do where no worker survives some documents.

    Attributes:
        work: The work.
        left: Documents that are left out, of a unit that this is true of.
    """

    work: RunWork
    left: Callable[[Unit], tuple[int, ...]]

    def carry_out(self, units: Iterable[Unit]) -> list[Unit]:
        final: dict[str, Unit] = {}
        done: list[Unit] = []
        for asked in units:
            unit = asked.needing(final)
            if left := self.left(asked):
                # An engine finds them by parts of the shard, down to none.
                for first, end in ((0, 2), (1, 1)):
                    self.work.run_unit(unit.narrowed((first, end)))
                unit = unit.leaving_out(left)
            self.work.run_unit(unit)
            final |= {} if unit == asked else {asked.key: unit}
            done.append(unit)
        return done


def scored(
    given: Sequence[CaptionRow], shelf: Shelf, left: Callable[[Unit], tuple[int, ...]] = lambda unit: ()
) -> tuple[Mapping[str, ScoredMetric], np.ndarray, list[Failure], list[Failure]]:
    """Return the scores of rows by each metric, the item of each row, failures and remarks."""

    def shards() -> Generator[Shard, None, Summary]:
        for first in range(0, len(given), SIZE):
            some = given[first : first + SIZE]
            items, of_row, numbers = gathered(some)
            yield Shard(items, of_row, caption_columns(some, [None] * len(some)), item_numbers=numbers)
        return Summary(len(given))

    gathering, failures = Gathering(shelf, hash_images=False), FailureLog(False)
    units = Leaving(RunWork(PLANNED, shelf), left).carry_out(
        Placing(PLANNED, gathering, {}).units(gathering.gather(shards()))
    )
    results = Results(units, PLANNED, gathering)
    together = results.together()
    found = {one.name: one for one in results.scored(together, failures)}
    return found, gathering.collected.item_of_sample, failures.entries, together.remarks


def each_shelf(tmp_path: Path) -> list[Shelf]:
    (tmp_path / "shelf").mkdir()
    return [MemoryShelf(), FolderShelf(tmp_path / "shelf", Originals())]


def values(scored: ScoredMetric, of_row: np.ndarray) -> list[float]:
    assert scored.scores is not None, scored.error
    return scored.scores.values[of_row].tolist()


@pytest.mark.parametrize("corpora", [1, 2])
def test_others_have_the_scores_of_a_run_without_them(tmp_path: Path, corpora: int):
    given = rows(20, corpora)
    left = (1, 4)
    kept = [row for n, row in enumerate(given) if n not in {SIZE + one for one in left}]

    def in_first_pass(unit: Unit) -> tuple[int, ...]:
        return left if unit.shard == 1 and not unit.needs else ()

    def in_piece(unit: Unit) -> tuple[int, ...]:
        return tuple(SIZE + one for one in left) if unit.whole else ()

    for shelf in each_shelf(tmp_path):
        found, of_row, failures, remarks = scored(
            given, shelf, lambda unit: in_first_pass(unit) or in_piece(unit)
        )
        without, of_kept, told, remarked = scored(kept, MemoryShelf())
        for name, one in found.items():
            mine = values(one, of_row)
            assert [v for n, v in enumerate(mine) if n not in {SIZE + at for at in left}] == pytest.approx(
                values(without[name], of_kept), abs=0, nan_ok=True
            ), name
            assert one.scores is not None
            weights = np.bincount(of_row, minlength=len(one.scores.values)).astype(float)
            of_others = np.bincount(of_kept).astype(float)
            assert one.value_of_all(weights) == one.system_value(weights)
            assert one.value_of_all(weights) == without[name].value_of_all(of_others)
            if one.terms is not None:
                value = one.aggregate.pool(weights @ np.concatenate(list(one.terms())))
                assert value == pytest.approx(one.system_value(weights), rel=1e-12)
            for at in left:
                item = int(of_row[SIZE + at])
                assert np.isnan(one.scores.values[item])
                assert one.scores.failures[item] == NOT_SURVIVED
                reason = f"{name}: {NOT_SURVIVED}"
                assert failures.count(Failure(given[SIZE + at].id, "metric", reason)) == 1
        assert [one for one in failures if NOT_SURVIVED not in one.reason] == told
        assert remarks == remarked


def test_document_that_is_left_out_where_the_state_is_there_still_counts_in_it(tmp_path: Path):
    given = rows(20)
    whole, _, _, _ = scored(given, MemoryShelf())
    for shelf in each_shelf(tmp_path):
        found, of_row, failures, _ = scored(
            given,
            shelf,
            lambda unit: (2,) if unit.needs and unit.shard == 1 and unit.stage == "score" else (),
        )
        expected = values(whole["Cider"], of_row)
        expected[SIZE + 2] = float("nan")
        assert values(found["Cider"], of_row) == pytest.approx(expected, abs=0, nan_ok=True)
        assert values(found["Bleu4"], of_row) == values(whole["Bleu4"], of_row)
        assert [one.sample for one in failures if NOT_SURVIVED in one.reason] == ["row 8|0"]


def test_document_that_is_left_out_is_told_as_such_where_the_metric_fails_on_the_others():
    given = rows(20)
    given[SIZE + 2] = replace(given[SIZE + 2], candidate="break")
    found, of_row, failures, _ = scored(
        given, MemoryShelf(), lambda unit: (1,) if unit.shard == 1 and not unit.needs else ()
    )
    scores = found["Fragile"].scores
    assert scores is not None
    reasons = [scores.failures[int(of_row[SIZE + at])] for at in range(SIZE)]
    assert [at for at, one in enumerate(reasons) if one == NOT_SURVIVED] == [1]
    assert all("it is broken" in one for at, one in enumerate(reasons) if at != 1)
    told = {one.sample: one.reason for one in failures if one.reason.startswith("Fragile: ")}
    assert told[given[SIZE + 1].id] == f"Fragile: {NOT_SURVIVED}"


@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("fault", ["left out", "raised", "another left out"])
def test_item_that_another_shard_scored_has_its_score_wherever_it_stands(shard: int, fault: str):
    given = rows(20)
    # Twice in the one shard, and once in the other.
    given[1] = given[SIZE + 2] = given[0]
    whole, of_whole, _, _ = scored(given, MemoryShelf())
    if fault == "raised":
        given[SIZE * shard + 4] = replace(given[SIZE * shard + 4], candidate="break")
    document = {"left out": 2 if shard else 0, "another left out": 3, "raised": None}[fault]
    found, of_row, _, _ = scored(
        given,
        MemoryShelf(),
        lambda unit: (
            () if document is None or unit.shard != shard or unit.needs or unit.whole else (document,)
        ),
    )
    weights = np.bincount(of_row).astype(float)
    for name, one in found.items():
        assert one.value_of_all(weights) == one.system_value(weights), name
        assert one.terms is not None
        value = one.aggregate.pool(weights @ np.concatenate(list(one.terms())))
        assert value == pytest.approx(one.system_value(weights), rel=1e-12), name
    for name in ("Picky", "Fragile"):
        for row in (0, 1, SIZE + 2):
            assert values(found[name], of_row)[row] == values(whole[name], of_whole)[row]
