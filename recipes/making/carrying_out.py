"""Carries rows through the stages of a maker; what was made before is not made again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...adapters.pixels.handles import digests
from ...benchmarks.running.shards.carrying_out import UnitEngine
from ...benchmarks.running.units import Unit
from ...benchmarks.store.store import Store
from ...errors import DataError, UnitsLeftError, counted
from ...progress import Progress, Reporter, silent
from .contract import Stage
from .models import MakerModels
from .rows import Made, MakingRow, digest_of, key_of, require_values
from .schema import Maker
from .work import carry_out_shard, of_value, read_made, to_value, work_of, write_rows_of


@dataclass(frozen=True)
class StageResult:
    """What a stage made.

    Attributes:
        stage: The stage.
        given: Rows that it was given.
        rows: Those that go on.
        unmade: Id to the reason, of rows that it could make nothing of.
        found: How many were made before.
    """

    stage: Stage
    given: int
    rows: list[MakingRow]
    unmade: dict[str, str]
    found: int


@dataclass
class Making:
    """A maker at work.

    Attributes:
        maker: The maker.
        stages: Its stages.
        models: What they ask.
        store: What keeps made rows.
        folder: Where the engine's workers find and leave rows.
        engine: Who makes shards; None is this process.
        run_folder: Where the engine writes how far it is; None: nowhere.
        progress: Gives a reporter for a stage.
    """

    maker: Maker
    stages: Sequence[Stage]
    models: MakerModels
    store: Store
    folder: Path
    engine: UnitEngine | None = None
    run_folder: Path | None = None
    progress: Progress = silent
    _digests: dict[Path, str] = field(default_factory=dict[Path, str])

    def carry_out(self, rows: Sequence[MakingRow]) -> Iterator[StageResult]:
        """Yield what each stage made of the rows that came through the one before.

        Raises:
            DataError: A stage could make nothing of any row, or rows lack what it reads.
            BenchError: A model failed.
        """
        left = list(rows)
        for stage in self.stages:
            require_values(left, stage.name, *stage.reads())
            result = self._result(stage, left)
            if not result.rows:
                first = next(iter(result.unmade.items()), None)
                why = f"; {first[0]}: {first[1]}" if first else ""
                raise DataError(f"stage '{stage.name}' left no row of {len(left)}{why}")
            yield result
            left = result.rows
            for role in stage.roles:
                if not any(role in later.roles for later in self.stages[self.stages.index(stage) + 1 :]):
                    self.models.release(role)

    def _result(self, stage: Stage, given: Sequence[MakingRow]) -> StageResult:
        report = self.progress(stage.name)
        if stage.shard is None:
            made, found = carry_out_shard(stage, given, self.models), 0
            report(len(given), len(given))
        else:
            made, found = self._kept(stage, given, report)
        rows: list[MakingRow] = []
        unmade: dict[str, str] = {}
        for row, one in zip(given, made, strict=True):
            if isinstance(one, MakingRow):
                rows.append(replace(one, image=row.image))
                continue
            unmade[row.id] = one.reason
            logging.getLogger(__name__).info("stage %s: row %s: %s", stage.name, row.id, one.reason)
            if stage.settings.on_failure == "keep":
                rows.append(row.having(stage.name, {"unmade": one.reason}))
        return StageResult(stage, len(given), rows, unmade, found)

    def _kept(self, stage: Stage, given: Sequence[MakingRow], report: Reporter) -> tuple[list[Made], int]:
        """Return what is made of rows, and how many of them had been made before."""
        models = {role: self._fingerprint(role) for role in stage.roles}
        producer = {"making": stage.fingerprint(), "models": models}
        images = self._image_digests(given)
        keys = [key_of(row, image) for row, image in zip(given, images, strict=True)]
        known = self.store.get(producer, keys)
        found = len(known)
        report(found, len(given))
        missing = [number for number, key in enumerate(keys) if key not in known]
        size = stage.shard or len(missing)
        shards = [missing[start : start + size] for start in range(0, len(missing), size)]
        for shard, made in self._made(stage, producer, given, shards):
            new = {keys[number]: value for number, value in zip(shard, made, strict=True)}
            # In one piece: of a shard that is cut off nothing is kept, and it is made as it would have been.
            self.store.put(producer, {key: value for key, value in new.items() if not value["passing"]})
            known |= new
            report(len(known), len(given))
        return [of_value(known[key], row) for key, row in zip(keys, given, strict=True)], found

    def _made(
        self, stage: Stage, producer: Mapping[str, Any], given: Sequence[MakingRow], shards: list[list[int]]
    ) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
        if self.engine is None:
            for shard in shards:
                made = carry_out_shard(stage, [given[number] for number in shard], self.models)
                yield shard, [to_value(one) for one in made]
            return
        units: list[Unit] = []
        for at, shard in enumerate(shards):
            key = write_rows_of(self.folder, [given[number] for number in shard])
            pool = stage.roles[0] if stage.roles else "cpu"
            units.append(
                Unit(
                    digest_of(producer, key),
                    "make",
                    stage.name,
                    at,
                    (0, len(shard)),
                    pool=pool,
                    inputs=(key,),
                )
            )
        spec, run_folder = work_of(self.maker, self.folder, self.store.path), self.run_folder
        step = self.progress(f"{stage.name}, shards")
        outcome = self.engine.carry_out(
            spec,
            units,
            report=lambda advance: step(advance.done, advance.units),
            folder=run_folder and run_folder / stage.name,
        )
        if outcome.waiting:
            raise UnitsLeftError(
                f"stage '{stage.name}' has {counted(outcome.waiting, 'unit')} left for the queue",
                f"Submit the jobs: sh {run_folder}/{stage.name}/submit.sh; when they are through, the same command "
                "goes on.",
            )
        for shard, unit in zip(shards, units, strict=True):
            made = read_made(self.folder, outcome.units[unit.key].unit.key)
            lost = {"unmade": "no worker survived it", "passing": True}
            yield shard, [made.get(given[number].id, lost) for number in shard]

    def _fingerprint(self, role: str) -> dict[str, Any]:
        return self.models[role].fingerprint()

    def _image_digests(self, rows: Sequence[MakingRow]) -> list[str]:
        """Return the digest of each row's image; of one that cannot be read its name, as a stage will say."""
        files = {row.image: row.pixels for row in rows if row.image is not None}
        new = {file: pixels for file, pixels in files.items() if file not in self._digests}
        for file, digest in zip(new, digests(list(new.values())), strict=True):
            self._digests[file] = digest if isinstance(digest, str) else f"unreadable: {file.name}"
        return ["" if row.image is None else self._digests[row.image] for row in rows]
