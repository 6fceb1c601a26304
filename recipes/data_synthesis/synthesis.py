"""Builds and checks the stages of a pipeline, then runs them; results are cached."""

import json
import logging
import shutil
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

from ...access import require_permitted
from ...atomic_files import own_name, remove_abandoned
from ...benchmarks.records.progress_file import progress_written
from ...benchmarks.scale.executors import Executor, InProcess
from ...benchmarks.scale.folders import Folder
from ...benchmarks.store.store import Store, parse_store
from ...errors import BenchError, DataError, UsageError, as_one, did_you_mean, require_all
from ...permissions import Permissions, permit, permitted
from ...progress import Progress, silent
from ..training.schema import ModelChoice, Strict, validated
from . import contract
from .contract import ROLES, NotGenerated, PipelineModels, PipelineRow, RowFile, Stage, StageFacts
from .provenance import shared_records, write_provenance
from .report import Report, judged, lengths, require_judges, write_report
from .schema import LoadedPipeline
from .sources import SourceRows, read_input, with_digests
from .writing import OF_DCI, claim, write_output

SHARDS = 8
"""Shards per window; missing rows of a window fill its shards."""


class StageHead(Strict):
    """The keys that identify a stage."""

    stage: str
    name: str = ""


def build_stages(loaded: LoadedPipeline) -> list[Stage]:
    """Return the stages of a pipeline.

    Raises:
        UsageError: A stage or a key is unknown, two stages have one name, or a model is missing or unused.
    """
    pipeline, parsed = loaded.pipeline, loaded.parsed
    built: list[Stage] = []
    for number, entry in enumerate(pipeline.stages):
        head, keys = ({k: v for k, v in entry.items() if (k in StageHead.model_fields) is own} for own in (True, False))
        named = validated(StageHead, head, parsed, "stages", str(number))
        kind = contract.stages[named.stage]
        settings = validated(kind.Settings, keys, parsed, "stages", str(number))
        built.append(kind(named.name or named.stage, settings, pipeline.seed))
    names = [stage.name for stage in built]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f"{parsed.where('stages')}: two stages have the name '{twice}'", "Give one of them another 'name'."
        )
    asked = {role for stage in built for role in stage.roles}
    for role in pipeline.models:
        if role not in ROLES:
            raise UsageError(f"{parsed.where('models', role)}: unknown role '{role}'", f"Known: {', '.join(ROLES)}.")
        if role not in asked and not (role == "encoder" and pipeline.judged):
            raise UsageError(f"{parsed.where('models', role)}: no stage uses the {role}", "Remove it.")
    return built


def require_models(built: Sequence[Stage], models: PipelineModels) -> None:
    """Raise if a model of a stage is not named, or a requirement is missing; nothing is loaded.

    Raises:
        BenchError: One error for all of them; several stages may need the same.
    """
    roles = list(dict.fromkeys(role for stage in built for role in stage.roles))
    try:
        require_all(*(lambda role=role: models.spec(role).check() for role in roles), *(stage.check for stage in built))
    except BenchError as error:
        raise as_one(list({part.message: part for part in error.parts}.values())) from error


def require_values(built: Sequence[Stage], loaded: LoadedPipeline, available: Collection[str]) -> None:
    """Raise if a stage, the output or 'judged' reads a value that neither the data nor an earlier stage gives.

    Args:
        built: The stages.
        loaded: The pipeline.
        available: The values that every row of the data has.

    Raises:
        DataError: Names the value and its reader.
    """
    known = set(available)
    for stage in built:
        _require(f"stage '{stage.name}' reads", stage.reads(), known)
        if (added := stage.makes()) is None:
            return
        known.update(added)
    output, judged = loaded.pipeline.output, loaded.pipeline.judged
    # Of "summaries.base" only the row can say whether it has the second.
    _require("the output needs", [key.partition(".")[0] for key in output.columns.values()], known)
    _require("the output needs", OF_DCI if output.form == "dci" else (), known)
    _require("'judged' reads", [key.partition(".")[0] for key in (judged.texts.values() if judged else ())], known)


def _require(label: str, keys: Iterable[str], known: Collection[str]) -> None:
    for key in keys:
        if key not in known:
            raise DataError(
                f"{label} '{key}', which no earlier stage makes and some rows lack; "
                f"available: {', '.join(sorted(known)) or 'an image per row'}.{did_you_mean(key, known)}",
                "Add it to the data, or add a stage that makes it.",
            )


@dataclass(frozen=True)
class ShardOfRows:
    """Rows that a stage processes and caches together.

    Attributes:
        name: For messages.
        rows: The rows.
        keys: Their cache keys.
    """

    name: str
    rows: list[PipelineRow]
    keys: list[str]


@dataclass
class StageOfShard:
    """Runs a stage on shards in a worker; models stay loaded.

    Attributes:
        stage: The stage.
        named: The models of the pipeline, by role.
        producer: A hash of everything that determines the results.
        store: The cache file of encoder features.
        folder: Holds results of shards until the driver has cached them.
        permissions: The permissions of the call.
    """

    stage: Stage
    named: Mapping[str, ModelChoice]
    producer: str
    store: Path
    folder: Folder
    permissions: Permissions
    _models: PipelineModels | None = field(default=None, init=False)

    def __call__(self, shard: ShardOfRows) -> list[dict[str, Any]]:
        """Return the result for each row; see :func:`make_shard`."""
        name = f"{contract.digest_of(self.producer, shard.keys)}.json"
        if self.folder.exists(name):
            return json.loads(self.folder.read(name))
        with permit(self.permissions):
            if self._models is None:
                self._models = PipelineModels(self.named, Store(self.store))
            values = make_shard(self.stage, shard.rows, self._models)
        if not any(value["passing"] for value in values):
            self.folder.put(name, json.dumps(values, ensure_ascii=False).encode())
        return values


def make_shard(stage: Stage, rows: Sequence[PipelineRow], models: PipelineModels) -> list[dict[str, Any]]:
    """Return the result of a stage for each row of a shard, as JSON values.

    Raises:
        DataError: The stage returned another number of rows.
    """
    output = list(stage.carry_out(rows, models))
    if len(output) != len(rows):
        raise DataError(f"stage '{stage.name}' returned {len(output)} rows for {len(rows)}", "Return one row for each.")
    # The path of the image is not cached: it is the input row's.
    return [
        {"unmade": row.reason, "passing": row.passing}
        if isinstance(row, NotGenerated)
        else {"values": row.values, "provenance": list(row.provenance), "passing": row.passing}
        for row in output
    ]


@dataclass
class Synthesis:
    """A running pipeline. Rows pass between stages in files, so that only one window of them is in memory.

    Attributes:
        stages: The stages.
        models: Their models.
        store: The cache of results.
        folder: Holds rows between stages.
        work: Holds results of workers until they are cached.
        executor: Runs shards; None is this process.
        progress: Returns a reporter for a stage.
        producers: Stage that ran to what decides its results: its settings, and the fingerprints of its models.
    """

    stages: list[Stage]
    models: PipelineModels
    store: Store
    folder: Path
    work: Path
    executor: Executor | None
    progress: Progress
    producers: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]], init=False)

    def run(self, source: RowFile) -> Iterator[tuple[StageFacts, RowFile]]:
        """Yield the statistics and the output rows of each stage; files of earlier rows are removed.

        Raises:
            DataError: A stage failed for all rows, or rows lack a value that it reads.
            BenchError: A model failed.
        """
        left = source
        for number, stage in enumerate(self.stages):
            _require(f"stage '{stage.name}' reads", stage.reads(), left.keys)
            facts = StageFacts(stage.name, len(left), kept=stage.settings.on_failure == "keep")
            rows = self._through(stage, left, facts)
            if stage.chooses:
                rows = _chosen(stage, RowFile(self.folder / "made.jsonl", rows), facts)
            output = RowFile(self.folder / f"{number}.jsonl", facts.counting(rows))
            if not output:
                first = next(iter(facts.unmade.items()), None)
                why = f"; {first[0]}: {first[1]}" if first else ""
                raise DataError(f"stage '{stage.name}' failed for all {facts.given} rows{why}")
            left.path.unlink()
            yield facts, output
            left = output
            for role in stage.roles:
                if not any(role in later.roles for later in self.stages[number + 1 :]):
                    self.models.release(role)

    def _through(self, stage: Stage, source: RowFile, facts: StageFacts) -> Iterator[PipelineRow]:
        """Yield the output rows of a stage, from the cache if possible."""
        models = {role: self.models[role].fingerprint() for role in stage.roles}
        producer = self.producers[stage.name] = {"making": stage.fingerprint(), "models": models}
        passing = self._make_missing(stage, producer, source, facts)
        for rows, keys, known in self._windows(stage, source, producer):
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
        self, stage: Stage, rows: Iterable[PipelineRow], producer: Mapping[str, Any]
    ) -> Iterator[tuple[list[PipelineRow], list[str], dict[str, Any]]]:
        """Yield windows of rows with their cache keys and their cached values."""
        left = iter(rows)
        while some := list(islice(left, SHARDS * stage.shard)):
            keys = [contract.key_of(row) for row in some]
            yield some, keys, self.store.get(producer, keys)

    def _make_missing(
        self, stage: Stage, producer: Mapping[str, Any], source: RowFile, facts: StageFacts
    ) -> dict[str, Any]:
        """Make the values that the cache lacks; return those that it does not keep (temporary failures) by key."""
        report, done, passing = self.progress(stage.name), 0, dict[str, Any]()
        shards, numbers = dict[int, ShardOfRows](), count()

        def missing() -> Iterator[ShardOfRows]:
            nonlocal done
            for rows, keys, known in self._windows(stage, source, producer):
                facts.reused += len(known)
                done += len(known)
                report(done, len(source))
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
            work = StageOfShard(
                stage, self.models.choices, contract.digest_of(producer), self.store.path, folder, permitted()
            )
            results = self.executor.map(work, missing(), self.executor.resources_for(next(iter(stage.roles), "")))
        for number, values in results:
            shard = shards.pop(number)
            generated = dict(zip(shard.keys, values, strict=True))
            # A shard is stored as a whole: an interrupted shard is made again.
            self.store.put(producer, {key: value for key, value in generated.items() if not value["passing"]})
            passing |= {key: value for key, value in generated.items() if value["passing"]}
            done += len(shard.rows)
            report(done, len(source))
        return passing


def _chosen(stage: Stage, rows: RowFile, facts: StageFacts) -> Iterator[PipelineRow]:
    """Yield the rows that a stage does not filter out."""
    left_out = stage.left_out(rows)
    for number, row in enumerate(rows):
        if (why := left_out.get(number)) is None:
            yield row
        else:
            facts.not_chosen[why] += 1
    rows.path.unlink()


WORK = ".work"
"""Below the output: the folder of workers' results while the pipeline runs."""
ROWS = "rows-"
"""Below that, with the name of a process appended: its rows between stages."""
PIPELINE = "pipeline.txt"
"""Below the output: the file with the name of the folder's pipeline."""


@dataclass(frozen=True, kw_only=True)
class RecipeCall:
    """What a call of a pipeline or of a loop has in common: where it runs, and what it may read.

    Attributes:
        include_path: Folders with user-defined task files.
        allow_outside: Additional folders whose files tasks may read.
        store: The cache, as ``parse_store`` reads it; None for the user's cache.
        executor: Runs shards of rows; None is this process.
        run_folder: Where progress is written; None: nowhere.
        progress: Returns a reporter for a stage or a step.
    """

    include_path: Sequence[str | Path] = ()
    allow_outside: Sequence[str | Path] = ()
    store: str | None = None
    executor: Executor | None = None
    run_folder: Path | None = None
    progress: Progress = silent


@dataclass(frozen=True)
class SynthesisCall(RecipeCall):
    """A pipeline, its data and its environment.

    Attributes:
        loaded: The pipeline.
        data: A folder of images, a table, a folder of DCI, or the name of a task.
        limit: The maximum number of rows.
    """

    loaded: LoadedPipeline
    data: str
    limit: int | None = None

    def source(self, output: Path | None) -> SourceRows:
        """Open the input; see ``read_input``."""
        return read_input(
            self.data, output, limit=self.limit, include_path=self.include_path, allow_outside=self.allow_outside
        )


def dry_run(call: SynthesisCall) -> Iterator[tuple[str, str]]:
    """Check everything without a model, and yield the plan as pairs of label and value.

    Raises:
        BenchError: The pipeline or its data are invalid; or, after the plan, models are missing.
    """
    require_permitted(call.loaded.requests)
    pipeline = call.loaded.pipeline
    stages = build_stages(call.loaded)
    require_judges(pipeline)
    source = call.source(None)
    total, values, common = 0, set[str](), set[str]()
    for total, row in enumerate(source.rows(), 1):
        common = common.intersection(row.values) if total > 1 else {*row.values}
        values.update(row.values)
    require_values(stages, call.loaded, common)
    models = PipelineModels(pipeline.models)
    yield "pipeline", pipeline.pipeline
    yield "rows", f"{total:,} from {source.name}"
    yield from (("left out", f"{place}: {why}") for place, why in list(source.left_out.items())[:3])
    yield "values", ", ".join(sorted(values)) or "none; an image per row"
    for stage in stages:
        asks = ", ".join(f"{role} {models.name(role)}" for role in stage.roles)
        yield f"stage {stage.name}", asks or "no model"
    roles = [role for stage in stages for role in stage.roles if role in models.choices]
    missing = filter(None, dict.fromkeys(models.spec(role).fetched_first() for role in roles))
    yield "fetched first", ", ".join(missing) or "nothing"
    yield "output", pipeline.output.form
    judging = pipeline.judged
    yield "judged by", ", ".join(judging.metrics) if judging else "no metric"
    require_models(stages, models)


def make(call: SynthesisCall, output: Path, on_stage: Callable[[StageFacts], object] = lambda facts: None) -> Report:
    """Run a pipeline, and write its output and a report; resumes an interrupted call.

    Args:
        call: The pipeline and its data.
        output: The output folder; created if missing.
        on_stage: Called after each stage.

    Raises:
        DataError: The folder holds the output of another pipeline.
        BenchError: As of :func:`dry_run`, or a stage failed.
    """
    require_permitted(call.loaded.requests)
    pipeline = call.loaded.pipeline
    stages, named = build_stages(call.loaded), parse_store(call.store)
    if named.objects:
        raise UsageError("a pipeline needs a cache in a local file, not in object storage", "Name a file with --store.")
    written = nullcontext(call.progress)
    if call.run_folder is not None:
        written = progress_written(call.run_folder, call.progress)
    with Store(named.file) as store, _own(output, pipeline.pipeline) as (work, folder), written as progress:
        models = PipelineModels(pipeline.models, store)
        require_models(stages, models)
        require_judges(pipeline)
        synthesis = Synthesis(stages, models, store, folder, work, call.executor, progress)
        source = call.source(output)
        rows = RowFile(folder / "given.jsonl", with_digests(source.rows()))
        require_values(stages, call.loaded, rows.keys)
        count = len(rows)
        facts: list[StageFacts] = []
        for fact, produced in synthesis.run(rows):
            facts.append(fact)
            on_stage(fact)
            rows = produced
        shared = shared_records(rows, [stage.name for stage in stages])
        result = write_output(rows, pipeline.output, output, shared)
        write_provenance(output, pipeline, synthesis.producers, shared, Path(call.data).expanduser())
        table, remarks = judged(pipeline, rows, store.path, progress)
        report = Report(call.loaded, source, count, facts, rows, lengths(pipeline.judged, rows), table, remarks, result)
        write_report(report, output)
    return report


@contextmanager
def _own(output: Path, name: str) -> Generator[tuple[Path, Path]]:
    """Create and mark the output folder; yield its temporary folders of shards and of rows.

    Rows are removed in any case. Shards of workers stay after a failure, as no other copy exists.

    Raises:
        DataError: The folder belongs to another pipeline.
    """
    claim(output, PIPELINE, name, "pipeline")
    work = output / WORK
    remove_abandoned(work.glob(f"{ROWS}*"), ROWS)
    # Another process may run the same pipeline at the same time.
    rows = work / (ROWS + own_name())
    rows.mkdir(parents=True)
    try:
        yield work, rows
        for shard in work.glob("*.json"):
            shard.unlink(missing_ok=True)
    finally:
        shutil.rmtree(rows, ignore_errors=True)
        if not any(work.iterdir()):
            work.rmdir()
