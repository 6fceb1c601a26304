"""What a stage makes of a shard of rows, in this process or in a worker of an executor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...benchmarks.scale.folders import Folder
from ...benchmarks.store.store import Store
from ...errors import DataError
from ...permissions import Permissions, permit
from .contract import Stage
from .models import MakerModels
from .rows import Made, MakingRow, Unmade, digest_of
from .schema import MakerModel


@dataclass(frozen=True)
class ShardOfRows:
    """Rows that a stage makes at once, and that are kept together.

    Attributes:
        name: For messages.
        rows: The rows.
        keys: Of each, what it is kept by.
    """

    name: str
    rows: list[MakingRow]
    keys: list[str]


@dataclass
class ShardMaker:
    """Makes shards by one stage in a worker, where it lives as long as that does, with the models that it loads.

    Attributes:
        stage: The stage.
        named: The models of the maker, by role.
        producer: A hash of what decides what it makes.
        store: The file that keeps what encoders made.
        folder: Where what is made of a shard lies until the driver has it in its store.
        permissions: What files may decide.
    """

    stage: Stage
    named: Mapping[str, MakerModel]
    producer: str
    store: Path
    folder: Folder
    permissions: Permissions
    _models: MakerModels | None = field(default=None, init=False)

    def __call__(self, shard: ShardOfRows) -> list[dict[str, Any]]:
        """Return what is made of each row, as :func:`to_value` gives it."""
        name = f"{digest_of(self.producer, shard.keys)}.json"
        if self.folder.exists(name):
            return json.loads(self.folder.read(name))
        with permit(self.permissions):
            if self._models is None:
                self._models = MakerModels(self.named, Store(self.store))
            values = make_shard(self.stage, shard.rows, self._models)
        if not any(value["passing"] for value in values):
            self.folder.put(name, json.dumps(values, ensure_ascii=False).encode())
        return values


def make_shard(stage: Stage, rows: Sequence[MakingRow], models: MakerModels) -> list[dict[str, Any]]:
    """Return what a stage makes of each row of a shard, as :func:`to_value` gives it.

    Raises:
        DataError: It gave more or less than it was given.
    """
    made = stage.carry_out(rows, models)
    if len(made) != len(rows):
        raise DataError(f"stage '{stage.name}' gave {len(made)} rows for {len(rows)}", "It returns one for each.")
    return [to_value(one) for one in made]


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
