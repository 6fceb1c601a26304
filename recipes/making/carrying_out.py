"""Carries rows through the stages of a maker; what was made before is not made again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ...benchmarks.scale.executors import Executor, InProcess
from ...benchmarks.scale.folders import Folder
from ...benchmarks.store.store import Store
from ...errors import DataError
from ...permissions import permitted
from ...progress import Progress, silent
from .contract import Stage, StageFacts
from .models import MakerModels
from .rows import Made, MakingRow, RowFile, digest_of
from .schema import Maker
from .windows import windows
from .work import ShardMaker, ShardOfRows, make_shard, of_value


@dataclass
class Making:
    """A maker at work. Rows pass from file to file; no more of them are in memory than are made at once.

    Attributes:
        maker: The maker.
        stages: Its stages.
        models: What they ask.
        store: What keeps made rows.
        folder: Where rows lie between stages.
        work: Where what workers make lies until it is in the store.
        executor: Who makes shards; None is this process.
        progress: Gives a reporter for a stage.
    """

    maker: Maker
    stages: list[Stage]
    models: MakerModels
    store: Store
    folder: Path
    work: Path
    executor: Executor | None = None
    progress: Progress = silent

    def carry_out(self, given: RowFile) -> Iterator[tuple[StageFacts, RowFile]]:
        """Yield what each stage made of the rows that came through the one before, whose file goes.

        Raises:
            DataError: A stage could make nothing of any row, or rows lack what it reads.
            BenchError: A model failed.
        """
        left = given
        for number, stage in enumerate(self.stages):
            _require_values(left, stage)
            facts = StageFacts(stage.name, len(left), kept=stage.settings.on_failure == "keep")
            rows = self._through(stage, left, facts)
            if stage.chooses:
                rows = _chosen(stage, RowFile(self.folder / "made.jsonl", rows), facts)
            made = RowFile(self.folder / f"{number}.jsonl", facts.counting(rows))
            if not made:
                first = next(iter(facts.unmade.items()), None)
                why = f"; {first[0]}: {first[1]}" if first else ""
                raise DataError(f"stage '{stage.name}' left no row of {facts.given}{why}")
            left.remove()
            yield facts, made
            left = made
            for role in stage.roles:
                if not any(role in later.roles for later in self.stages[number + 1 :]):
                    self.models.release(role)

    def _through(self, stage: Stage, given: RowFile, facts: StageFacts) -> Iterator[MakingRow]:
        """Yield the rows that go on from a stage."""
        for row, one in self._made(stage, given, facts):
            if isinstance(one, MakingRow):
                yield one
                continue
            facts.unmade[row.id] = one.reason
            logging.getLogger(__name__).info("stage %s: row %s: %s", stage.name, row.id, one.reason)
            if facts.kept:
                yield row.having(stage.name, {"unmade": one.reason})

    def _made(self, stage: Stage, given: RowFile, facts: StageFacts) -> Iterator[tuple[MakingRow, Made]]:
        """Yield each row with what is made of it, or was made of it before."""
        models = {role: self.models[role].fingerprint() for role in stage.roles}
        producer = {"making": stage.fingerprint(), "models": models}
        passing = self._make_missing(stage, producer, given, facts)
        for window in windows(stage, given, producer, self.store):
            for row, key in zip(window.rows, window.keys, strict=True):
                yield row, of_value(window.known[key] if key in window.known else passing[key], row)

    def _make_missing(
        self, stage: Stage, producer: Mapping[str, Any], given: RowFile, facts: StageFacts
    ) -> dict[str, Any]:
        """Make what the store does not have, and return by key what it does not keep, as another run may make more."""
        report, done, passing = self.progress(stage.name), 0, dict[str, Any]()
        shards, numbers_of_shards = dict[int, ShardOfRows](), count()

        def missing() -> Iterator[ShardOfRows]:
            nonlocal done
            for window in windows(stage, given, producer, self.store):
                facts.found += len(window.known)
                done += len(window.rows) - sum(map(len, window.missing(1)))
                report(done, len(given))
                for numbers in window.missing(stage.shard):
                    rows = [window.rows[number] for number in numbers]
                    keys = [window.keys[number] for number in numbers]
                    shard = ShardOfRows(f"stage '{stage.name}', rows {rows[0].id} to {rows[-1].id}", rows, keys)
                    shards[next(numbers_of_shards)] = shard
                    yield shard

        for number, values in self._map(stage, digest_of(producer), missing()):
            shard = shards.pop(number)
            made = dict(zip(shard.keys, values, strict=True))
            # In one piece: of a shard that is cut off nothing is kept, and it is made as it would have been.
            self.store.put(producer, {key: value for key, value in made.items() if not value["passing"]})
            passing |= {key: value for key, value in made.items() if value["passing"]}
            done += len(shard.rows)
            report(done, len(given))
        return passing

    def _map(self, stage: Stage, producer: str, shards: Iterator[ShardOfRows]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each shard and what was made of its rows."""
        if self.executor is None:
            yield from InProcess().map(lambda shard: make_shard(stage, shard.rows, self.models), shards)
            return
        self.executor.use_folder(self.work)
        maker = ShardMaker(stage, self.maker.models, producer, self.store.path, Folder(self.work), permitted())
        yield from self.executor.map(maker, shards, self.executor.resources_for(next(iter(stage.roles), "")))


def _chosen(stage: Stage, made: RowFile, facts: StageFacts) -> Iterator[MakingRow]:
    """Yield the rows that a stage chooses of all that it made."""
    left_out = stage.left_out(made)
    for number, row in enumerate(made):
        if (why := left_out.get(number)) is None:
            yield row
        else:
            facts.not_chosen[why] += 1
    made.remove()


def _require_values(rows: RowFile, stage: Stage) -> None:
    """Raise if a row lacks what a stage reads.

    Raises:
        DataError: It names row, key and stage.
    """
    missing = next((key for key in stage.reads() if key not in rows.keys), None)
    if missing is None:
        return
    row = next(row for row in rows if missing not in row.values)
    raise DataError(
        f"row {row.id} has no '{missing}', which stage '{stage.name}' reads; it has {', '.join(row.values)}",
        "A stage before it makes that, or the data hold it.",
    )
