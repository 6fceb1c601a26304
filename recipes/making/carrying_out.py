"""Carries rows through the stages of a maker; what was made before is not made again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ...benchmarks.running.shards.carrying_out import OutcomeOfUnits, UnitEngine
from ...benchmarks.running.units import Unit
from ...benchmarks.store.store import Store
from ...errors import DataError, UnitsLeftError, counted
from ...progress import Progress, silent
from .contract import Stage
from .facts import StageFacts
from .models import MakerModels
from .row_file import RowFile
from .rows import Made, MakingRow, digest_of
from .schema import Maker
from .windows import Window, windows
from .work import carry_out_shard, of_value, read_made, to_value, work_of, write_rows_of


@dataclass
class Making:
    """A maker at work. Rows pass from file to file; no more of them are in memory than are made at once.

    Attributes:
        maker: The maker.
        stages: Its stages.
        models: What they ask.
        store: What keeps made rows.
        folder: Where rows lie between stages.
        units_folder: Where the engine's workers find and leave rows.
        engine: Who makes shards; None is this process.
        run_folder: Where the engine writes how far it is; None: nowhere.
        progress: Gives a reporter for a stage.
    """

    maker: Maker
    stages: list[Stage]
    models: MakerModels
    store: Store
    folder: Path
    units_folder: Path
    engine: UnitEngine | None = None
    run_folder: Path | None = None
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
        units = None if self.engine is None else self._by_engine(stage, producer, given, self.engine)
        report, done = self.progress(stage.name), 0
        for window in windows(stage, given, producer, self.store):
            facts.found += len(window.known)
            new = self._here(stage, window) if units is None else [self._left_by(next(units), window)]
            for values in new:
                kept = {key: value for key, value in values.items() if not value["passing"]}
                # In one piece: of a shard that is cut off nothing is kept, and it is made as it would have been.
                self.store.put(producer, kept)
                window.known |= values
                report(done + len(window.known), len(given))
            done += len(window.rows)
            report(done, len(given))
            for row, key in zip(window.rows, window.keys, strict=True):
                yield row, of_value(window.known[key], row)

    def _here(self, stage: Stage, window: Window) -> Iterator[dict[str, Any]]:
        """Make what a window lacks, and yield the values of each shard by their keys."""
        for shard in window.missing(stage.shard):
            made = carry_out_shard(stage, [window.rows[number] for number in shard], self.models)
            yield {window.keys[number]: to_value(one) for number, one in zip(shard, made, strict=True)}

    def _left_by(self, units: Sequence[str], window: Window) -> dict[str, Any]:
        """Return by their keys the values that workers left of what a window lacked.

        Args:
            units: Keys of the units that are of the window.
            window: The window.
        """
        made: dict[str, Any] = {}
        for unit in units:
            made |= read_made(self.units_folder, unit)
        lost = {"unmade": "no worker survived it", "passing": True}
        of_rows = zip(window.rows, window.keys, strict=True)
        return {key: made.get(row.id, lost) for row, key in of_rows if key not in window.known}

    def _by_engine(
        self, stage: Stage, producer: Mapping[str, Any], given: RowFile, engine: UnitEngine
    ) -> Iterator[list[str]]:
        """Have the engine make what all windows lack, and yield for each the keys of the units that made it."""
        of_windows: list[list[str]] = []

        def units() -> Iterator[Unit]:
            numbers = count()
            for window in windows(stage, given, producer, self.store):
                of_windows.append([])
                for shard in window.missing(stage.shard):
                    rows = [window.rows[number] for number in shard]
                    unit = self._unit(stage, producer, rows, next(numbers))
                    of_windows[-1].append(unit.key)
                    yield unit

        outcome = self._outcome(stage, units(), engine)
        return ([outcome.units[key].unit.key for key in keys] for keys in of_windows)

    def _unit(self, stage: Stage, producer: Mapping[str, Any], rows: list[MakingRow], number: int) -> Unit:
        key = write_rows_of(self.units_folder, rows)
        return Unit(
            digest_of(producer, key),
            "make",
            stage.name,
            number,
            (0, len(rows)),
            pool=stage.roles[0] if stage.roles else "cpu",
            inputs=(key,),
        )

    def _outcome(self, stage: Stage, units: Iterator[Unit], engine: UnitEngine) -> OutcomeOfUnits:
        """Have the engine carry out units.

        Raises:
            UnitsLeftError: They are handed to a queue, and not done.
        """
        spec, run_folder = work_of(self.maker, self.units_folder, self.store.path), self.run_folder
        step = self.progress(f"{stage.name}, shards")
        outcome = engine.carry_out(
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
        return outcome


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
