"""Carries out stages a shard at a time: in this process, or by workers of an engine that open the same work."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...benchmarks.running.units import Unit, UnitReport, WorkSpec
from ...benchmarks.store.store import Store
from ...drafts import write_whole
from ...errors import DataError
from .contract import Stage
from .models import MakerModels
from .pipeline import stages_of
from .rows import Made, MakingRow, Unmade, digest_of
from .schema import Maker

FACTORY = "capbench.recipes.making.work:open_work"


class MakingWork:
    """What a worker has: the stages of a maker, and their models.

    A unit is a shard of a stage's rows. Its rows are ``GIVEN.json`` in a folder that all workers see, where what is
    made of them becomes ``KEY.json``.

    Args:
        stages: Those of the maker.
        models: What they ask.
        folder: Where workers find and leave rows.
    """

    def __init__(self, stages: Sequence[Stage], models: MakerModels, folder: Path) -> None:
        self._stages = {one.name: one for one in stages}
        self._models = models
        self._folder = folder

    def is_done(self, unit: Unit) -> bool:
        """Return whether the shard was made."""
        return _file(self._folder, unit.key).is_file()

    def run_unit(self, unit: Unit) -> UnitReport:
        """Make a shard; see ``Work``."""
        start = time.monotonic()
        if self.is_done(unit):
            return UnitReport(0.0, found=len(unit.documents))
        given = read_rows_of(self._folder, unit.inputs[0])
        rows = [given[number] for number in unit.documents]
        made = carry_out_shard(self._stages[unit.producer], rows, self._models)
        values = {row.id: to_value(one) for row, one in zip(rows, made, strict=True)}
        write_whole(_file(self._folder, unit.key), json.dumps(values, ensure_ascii=False))
        return UnitReport(time.monotonic() - start, computed=len(rows))

    def release(self, pool: str) -> None:
        """Let go of a model."""
        self._models.release(pool)


def open_work(maker: dict[str, Any], folder: str, store: str) -> MakingWork:
    """Open the work of a worker; see :class:`WorkSpec`."""
    read = Maker.model_validate(maker)
    return MakingWork(stages_of(read), MakerModels(read.models, Store(Path(store))), Path(folder))


def work_of(maker: Maker, folder: Path, store: Path) -> WorkSpec:
    """Return how a worker opens its work."""
    arguments = {
        "maker": maker.model_dump(mode="json", exclude_unset=True),
        "folder": str(folder),
        "store": str(store),
    }
    return WorkSpec(FACTORY, arguments, str(folder))


def carry_out_shard(stage: Stage, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
    """Return what a stage makes of a shard.

    Raises:
        DataError: It gave more or less than it was given.
    """
    made = stage.carry_out(rows, models)
    if len(made) != len(rows):
        raise DataError(
            f"stage '{stage.name}' gave {len(made)} rows for {len(rows)}", "It returns one for each."
        )
    return made


def write_rows_of(folder: Path, rows: Sequence[MakingRow]) -> str:
    """Write rows for workers, and return the key under which they find them."""
    values = [row.to_values() for row in rows]
    key = digest_of(values)
    if not _file(folder, key).is_file():
        write_whole(_file(folder, key), json.dumps(values, ensure_ascii=False))
    return key


def read_rows_of(folder: Path, key: str) -> list[MakingRow]:
    """Return rows that were written under a key."""
    return [MakingRow.of_values(one) for one in json.loads(_file(folder, key).read_bytes())]


def read_made(folder: Path, key: str) -> dict[str, Any]:
    """Return what a unit made: id to its value, as :func:`to_value` gives it."""
    return json.loads(_file(folder, key).read_bytes())


def to_value(made: Made) -> dict[str, Any]:
    """Return what was made as JSON values."""
    if isinstance(made, Unmade):
        return {"unmade": made.reason, "passing": made.passing}
    # Where the image lies is the row's that it was made of.
    return {"values": made.values, "provenance": list(made.provenance), "passing": made.passing}


def of_value(value: dict[str, Any], row: MakingRow) -> Made:
    """Return what JSON values say was made of a row."""
    if "unmade" in value:
        return Unmade(value["unmade"], value["passing"])
    return replace(row, values=value["values"], provenance=tuple(value["provenance"]))


def _file(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"
