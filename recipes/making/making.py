"""Carries out a maker from the data to the report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from ...access import require_permitted
from ...benchmarks.scale.executors import Executor
from ...benchmarks.scale.progress_file import progress_written
from ...benchmarks.store.store import Store, parse_store
from ...drafts import own_name, remove_abandoned
from ...errors import DataError, UsageError
from ...progress import Progress, silent
from .contract import MakerModels, MakingRow, RowFile, StageFacts
from .pipeline import Making, build_stages, require_models, require_seen, require_values
from .report import Report, judged, lengths, require_judges, write_report
from .schema import LoadedMaker
from .sources import SourceRows, read_given, with_digests
from .writing import write_output

WORK = ".work"
"""Below the output: where workers leave rows until all is made."""
ROWS = "rows-"
"""Below that, with the name of a process behind it: its rows between stages."""
MAKER = "maker.txt"
"""Below the output: the name of the maker whose folder it is."""


@dataclass(frozen=True)
class MakingCall:
    """A maker, and what it is carried out on.

    Attributes:
        loaded: The maker.
        data: A folder of images, a table, a folder of DCI, or the name of a task.
        limit: The first so many rows alone.
        include_path: Folders with task files of the user's own.
        allow_outside: Folders besides those of tasks and data whose files tasks may read.
        store: What ``parse_store`` reads; None for the user's own.
        executor: Who makes shards of rows; None is this process.
        run_folder: Where is written how far it is; None: nowhere.
        progress: Gives a reporter for a stage.
    """

    loaded: LoadedMaker
    data: str
    limit: int | None = None
    include_path: Sequence[str | Path] = ()
    allow_outside: Sequence[str | Path] = ()
    store: str | None = None
    executor: Executor | None = None
    run_folder: Path | None = None
    progress: Progress = silent

    def given(self, output: Path | None) -> SourceRows:
        """Read what is begun with; see ``read_given``."""
        return read_given(
            self.data, output, limit=self.limit, include_path=self.include_path, allow_outside=self.allow_outside
        )


def dry_run(call: MakingCall) -> Iterator[tuple[str, str]]:
    """Check everything without a model, and yield what would be done: a label and a value each.

    Raises:
        BenchError: The maker or its data do not do; or, when all is told, models cannot be had, or make
            nothing of the images.
    """
    require_permitted(call.loaded.requests)
    maker = call.loaded.maker
    stages = build_stages(call.loaded)
    require_judges(maker)
    given = call.given(None)
    images: list[MakingRow] = []
    values, common = set[str](), set[str]()
    for row in given.rows():
        common = common.intersection(row.values) if images else {*row.values}
        values.update(row.values)
        images.append(MakingRow(row.id, row.image))
    require_values(stages, call.loaded, common)
    models = MakerModels(maker.models)
    yield "maker", maker.maker
    yield "rows", f"{len(images):,} from {given.name}"
    yield from (("left out", f"{place}: {why}") for place, why in list(given.left_out.items())[:3])
    yield "values", ", ".join(sorted(values)) or "none; an image each"
    for stage in stages:
        asks = ", ".join(f"{role} {models.name(role)}" for role in stage.roles)
        yield f"stage {stage.name}", asks or "no model"
    yield "output", maker.output.form
    told = maker.judged
    yield "judged by", ", ".join(told.metrics) if told else "no metric"
    require_models(stages, models)
    require_seen(stages, models, images)


def make(call: MakingCall, output: Path, told: Callable[[StageFacts], object] = lambda facts: None) -> Report:
    """Make the data, write them with a report; goes on where an earlier call was cut off.

    Args:
        call: The maker and its data.
        output: The folder that is written; made if it is not there.
        told: Is told of each stage that is done.

    Raises:
        DataError: The folder holds what another maker made.
        BenchError: As of :func:`dry_run`, or a stage failed.
    """
    require_permitted(call.loaded.requests)
    maker = call.loaded.maker
    stages, named = build_stages(call.loaded), parse_store(call.store)
    if named.objects:
        raise UsageError("makers keep rows in a file of this machine", "Name a file with --store.")
    written = nullcontext(call.progress)
    if call.run_folder is not None:
        written = progress_written(call.run_folder, call.progress)
    with Store(named.file) as store, _own(output, maker.maker) as (work, folder), written as progress:
        models = MakerModels(maker.models, store)
        require_models(stages, models)
        require_judges(maker)
        making = Making(maker, stages, models, store, folder, work, call.executor, progress)
        given = call.given(output)
        rows = RowFile(folder / "given.jsonl", with_digests(given.rows()))
        require_values(stages, call.loaded, rows.keys)
        require_seen(stages, models, rows)
        count = len(rows)
        facts: list[StageFacts] = []
        for fact, made in making.carry_out(rows):
            facts.append(fact)
            told(fact)
            rows = made
        result = write_output(rows, maker.output, output)
        table, remarks = judged(maker, rows, store.path, progress)
        report = Report(call.loaded, given, count, facts, rows, lengths(maker.judged, rows), table, remarks, result)
        write_report(report, output)
    return report


@contextmanager
def _own(output: Path, name: str) -> Generator[tuple[Path, Path]]:
    """Make the folder, and mark it as this maker's; give where shards lie and where rows, until all is made.

    Rows go however it ends; of shards what workers made stays where it fails, as nobody else has it.

    Raises:
        DataError: It is another's.
    """
    mark, work = output / MAKER, output / WORK
    output.mkdir(parents=True, exist_ok=True)
    # A mark alone is of a maker that made nothing.
    if any(one != mark for one in output.iterdir()):
        found = mark.read_text(encoding="utf-8").strip() if mark.is_file() else None
        if found is None:
            raise DataError(f"{output} holds other things", "Name a folder that is empty, or that this maker made.")
        if found != name:
            raise DataError(f"{output} holds what maker '{found}' made", "Name another folder with --output.")
    mark.write_text(f"{name}\n", encoding="utf-8")
    remove_abandoned(work.glob(f"{ROWS}*"), ROWS)
    # Another process may make the same at the same time.
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
