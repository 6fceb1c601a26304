"""The stages of a maker: built and checked before any of them works, then carried out; what was made is kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from ...benchmarks.scale.executors import Executor, InProcess
from ...benchmarks.scale.folders import Folder
from ...benchmarks.store.store import Store
from ...errors import BenchError, DataError, UsageError, as_one, did_you_mean, require_all
from ...permissions import Permissions, permit, permitted
from ...progress import Progress, silent
from ..training.schema import Strict, validated
from .contract import ROLES, MakerModels, MakingRow, RowFile, Stage, StageFacts, Unmade, digest_of, key_of, stages
from .schema import LoadedMaker, Maker, MakerModel
from .writing import OF_DCI

SHARDS = 8
"""Of a window: of rows that were made but for a few, shards are as full as in one window they can be."""


class StageHead(Strict):
    """The keys that say which stage it is."""

    stage: str
    name: str = ""


def build_stages(loaded: LoadedMaker) -> list[Stage]:
    """Return the stages of a maker.

    Raises:
        UsageError: A stage is not known, two have one name, a key is nobody's, a model is missing or not asked.
    """
    maker, parsed = loaded.maker, loaded.parsed
    built: list[Stage] = []
    for number, given in enumerate(maker.stages):
        head, keys = ({k: v for k, v in given.items() if (k in StageHead.model_fields) is own} for own in (True, False))
        named = validated(StageHead, head, parsed, "stages", str(number))
        kind = stages[named.stage]
        settings = validated(kind.Settings, keys, parsed, "stages", str(number))
        built.append(kind(named.name or named.stage, settings, maker.seed))
    names = [one.name for one in built]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f"{parsed.where('stages')}: two stages are called '{twice}'", "Give one of them another 'name'."
        )
    asked = {role for one in built for role in one.roles}
    for role in maker.models:
        if role not in ROLES:
            raise UsageError(f"{parsed.where('models', role)}: unknown role '{role}'", f"Known: {', '.join(ROLES)}.")
        if role not in asked and not (role == "encoder" and maker.judged):
            raise UsageError(f"{parsed.where('models', role)}: no stage asks the {role}", "Leave it out.")
    return built


def require_models(built: Sequence[Stage], models: MakerModels) -> None:
    """Raise if a model that a stage asks is not named, or it or what else a stage needs cannot be had.

    Nothing is loaded.

    Raises:
        BenchError: One error for all of them; several stages may need the same.
    """
    roles = list(dict.fromkeys(role for one in built for role in one.roles))
    try:
        require_all(*(lambda role=role: models.spec(role).check() for role in roles), *(one.check for one in built))
    except BenchError as error:
        raise as_one(list({one.message: one for one in error.parts}.values())) from error


def require_seen(built: Sequence[Stage], models: MakerModels, rows: Iterable[MakingRow]) -> None:
    """Raise if a model that a stage asks can make nothing of any row's image; nothing is loaded.

    Args:
        built: The stages.
        models: What they ask.
        rows: What is begun with; looked at as far as a model refuses the images.

    Raises:
        DataError: It names the stage, the model and the first image.
    """
    for stage in built:
        for role in stage.roles if stage.settings.on_failure == "leave_out" else ():
            first = ""
            for row in rows:
                why = "" if row.image is None else models.spec(role).refuses(row.pixels)
                if not why:
                    break
                first = first or f"{row.id}: {why}"
            else:
                raise DataError(
                    f"stage '{stage.name}' could make nothing of any row, as the {role} {models.name(role)} takes "
                    f"none of the images; {first}",
                    f"Give others with --data, or another model with --set models.{role}.name=NAME.",
                )


def require_values(built: Sequence[Stage], loaded: LoadedMaker, given: Collection[str]) -> None:
    """Raise if a stage reads, or the output or its judges want, what the data do not hold and no stage makes.

    Args:
        built: The stages.
        loaded: The maker.
        given: The values that every row of the data has.

    Raises:
        DataError: It names the value and who wants it.
    """
    known = set(given)

    def require(who: str, *wanted: str) -> None:
        for value in wanted:
            if value not in known:
                raise DataError(
                    f"{who} '{value}', which no stage before makes and not every row has; "
                    f"there is: {', '.join(sorted(known)) or 'an image each'}.{did_you_mean(value, known)}",
                    "A stage before it makes that, or the data hold it.",
                )

    for stage in built:
        require(f"stage '{stage.name}' reads", *stage.reads())
        if (made := stage.makes()) is None:
            return
        known.update(made)
    output, judged = loaded.maker.output, loaded.maker.judged
    # Of "summaries.base" only the row can say whether it has the second.
    require("the output holds", *(key.partition(".")[0] for key in output.columns.values()))
    require("the output holds", *(OF_DCI if output.form == "dci" else ()))
    require("'judged' looks at", *(key.partition(".")[0] for key in (judged.texts.values() if judged else ())))


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
        """Return what is made of each row, as :func:`make_shard` does."""
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
    """Return what a stage makes of each row of a shard, as JSON values.

    Raises:
        DataError: It gave more or less than it was given.
    """
    made = stage.carry_out(rows, models)
    if len(made) != len(rows):
        raise DataError(f"stage '{stage.name}' gave {len(made)} rows for {len(rows)}", "It returns one for each.")
    # Where the image lies is the row's that something was made of.
    return [
        {"unmade": one.reason, "passing": one.passing}
        if isinstance(one, Unmade)
        else {"values": one.values, "provenance": list(one.provenance), "passing": one.passing}
        for one in made
    ]


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
            if missing := next((key for key in stage.reads() if key not in left.keys), None):
                row = next(row for row in left if missing not in row.values)
                raise DataError(
                    f"row {row.id} has no '{missing}', which stage '{stage.name}' reads; "
                    f"it has {', '.join(row.values)}",
                    "A stage before it makes that, or the data hold it.",
                )
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
        """Yield the rows that go on from a stage, with what is made of them, or was made of them before."""
        models = {role: self.models[role].fingerprint() for role in stage.roles}
        producer = {"making": stage.fingerprint(), "models": models}
        passing = self._make_missing(stage, producer, given, facts)
        for rows, keys, known in self._windows(stage, given, producer):
            for row, key in zip(rows, keys, strict=True):
                value = (known if key in known else passing)[key]
                if "unmade" not in value:
                    yield replace(row, values=value["values"], provenance=tuple(value["provenance"]))
                    continue
                facts.unmade[row.id] = value["unmade"]
                logging.getLogger(__name__).info("stage %s: row %s: %s", stage.name, row.id, value["unmade"])
                if facts.kept:
                    yield row.having(stage.name, {"unmade": value["unmade"]})

    def _windows(
        self, stage: Stage, rows: Iterable[MakingRow], producer: Mapping[str, Any]
    ) -> Iterator[tuple[list[MakingRow], list[str], dict[str, Any]]]:
        """Yield rows some at a time, with what each is kept by, and what the store has by that as it is looked at."""
        left = iter(rows)
        while some := list(islice(left, SHARDS * stage.shard)):
            keys = [key_of(row) for row in some]
            yield some, keys, self.store.get(producer, keys)

    def _make_missing(
        self, stage: Stage, producer: Mapping[str, Any], given: RowFile, facts: StageFacts
    ) -> dict[str, Any]:
        """Make what the store does not have, and return by key what it does not keep, as another run may make more."""
        report, done, passing = self.progress(stage.name), 0, dict[str, Any]()
        shards, numbers = dict[int, ShardOfRows](), count()

        def missing() -> Iterator[ShardOfRows]:
            nonlocal done
            for rows, keys, known in self._windows(stage, given, producer):
                facts.found += len(known)
                done += len(known)
                report(done, len(given))
                left = [(row, key) for row, key in zip(rows, keys, strict=True) if key not in known]
                for start in range(0, len(left), stage.shard):
                    some, of_some = map(list, zip(*left[start : start + stage.shard], strict=True))
                    shard = ShardOfRows(f"stage '{stage.name}', rows {some[0].id} to {some[-1].id}", some, of_some)
                    shards[next(numbers)] = shard
                    yield shard

        if self.executor is None:
            results = InProcess().map(lambda shard: make_shard(stage, shard.rows, self.models), missing())
        else:
            self.executor.use_folder(self.work)
            folder = Folder(self.work)
            maker = ShardMaker(stage, self.maker.models, digest_of(producer), self.store.path, folder, permitted())
            results = self.executor.map(maker, missing(), self.executor.resources_for(next(iter(stage.roles), "")))
        for number, values in results:
            shard = shards.pop(number)
            made = dict(zip(shard.keys, values, strict=True))
            # In one piece: of a shard that is cut off nothing is kept, and it is made as it would have been.
            self.store.put(producer, {key: value for key, value in made.items() if not value["passing"]})
            passing |= {key: value for key, value in made.items() if value["passing"]}
            done += len(shard.rows)
            report(done, len(given))
        return passing


def _chosen(stage: Stage, made: RowFile, facts: StageFacts) -> Iterator[MakingRow]:
    """Yield the rows that a stage chooses of all that it made."""
    left_out = stage.left_out(made)
    for number, row in enumerate(made):
        if (why := left_out.get(number)) is None:
            yield row
        else:
            facts.not_chosen[why] += 1
    made.remove()
