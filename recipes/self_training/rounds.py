"""Checks and runs a self-training loop, turn by turn; finished turns are not repeated."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...access import require_permitted
from ...adapters.aliases import resolve_model
from ...atomic_files import write_whole
from ...benchmarks.records.reading import read_task_run
from ...errors import AdapterError, BenchError, MetricError, UsageError, as_one
from ...permissions import Permissions, permit
from ...rows import load_json
from ..data_synthesis import synthesis
from ..data_synthesis.contract import StageFacts
from ..data_synthesis.schema import SynthesisPipeline
from ..data_synthesis.synthesis import RecipeCall, SynthesisCall
from ..data_synthesis.writing import claim
from ..training import execution as training
from ..training.contract import TrainingCall
from ..training.history import StepReport
from ..training.judging import JudgedRun, judged, require_judges
from ..training.processes import TrainingProcesses
from .report import LoopTurn, write_report
from .schema import LoadedLoop


@dataclass(frozen=True)
class LoopCall(RecipeCall):
    """A loop and its environment.

    Attributes:
        loaded: The loop.
        processes: The training process.
        data: Task name to the path of its local data.
    """

    loaded: LoadedLoop
    processes: TrainingProcesses
    data: Mapping[str, str | Path] = field(default_factory=dict[str, "str | Path"])

    def synthesis(self, captioner: str, turn: str) -> SynthesisCall:
        """Return the synthesis call of a turn.

        Args:
            captioner: The captioner of the previous turn.
            turn: The turn's name.
        """
        loaded = self.loaded
        shared = self._given("include_path", "allow_outside", "store", "executor", "progress")
        folder = self.run_folder and self.run_folder / turn
        return SynthesisCall(
            loaded.pipeline(captioner), loaded.data, loaded.loop.make.limit, run_folder=folder, **shared
        )

    def training(self, rows: Path) -> TrainingCall:
        """Return the training call of a turn."""
        shared = self._given("data", "include_path", "allow_outside", "progress")
        return TrainingCall(self.loaded.recipe(rows), self.processes, **shared)

    def judging(self) -> dict[str, Any]:
        """Return the options of the evaluation tasks; see ``judged``."""
        return self._given("store", "data", "include_path", "allow_outside", "progress")

    def _given(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}


_OF_ROWS = ("id", "image", "box", "group")
"""Keys of training rows that hold no texts."""


def dry_run(call: LoopCall) -> Iterator[tuple[str, str]]:
    """Check everything without a model, and yield the plan as pairs of label and value.

    The training recipe is checked with placeholder rows: one per input row, with the columns of the pipeline's output.
    Missing models and data are reported after the plan.

    Raises:
        BenchError: A part of the loop is invalid or does not fit the part before it, or something is missing.
    """
    loaded, loop = call.loaded, call.loaded.loop
    require_permitted(loaded.requests)
    _require_captioners(call)
    synthesis_call = call.synthesis(loop.captioner, "turn-1")
    # A name without "/" can be a task.
    if "/" in loop.make.data and not Path(loaded.data).exists():
        raise UsageError(
            f"{loaded.parsed.where('make', 'data')}: no such folder or file: {loaded.data}",
            "Name a folder of images, a table or a task: --set make.data=DATA.",
        )
    pipeline = synthesis_call.loaded.pipeline
    if pipeline.output.form != "rows":
        raise UsageError(
            f"{loaded.parsed.where('make', 'recipe')}: pipeline '{pipeline.pipeline}' writes the form "
            f"'{pipeline.output.form}', which no training recipe reads.",
            "Name a pipeline whose output has the form 'rows'.",
        )
    missing: list[BenchError] = []
    yield "loop", loop.loop
    yield "captioner", loop.captioner
    yield "turns", f"{loop.turns:,}"
    try:
        yield from ((f"make: {label}", value) for label, value in synthesis.dry_run(synthesis_call))
    except (AdapterError, MetricError) as error:
        missing += error.parts
    try:
        yield from ((f"train: {label}", value) for label, value in _trained(call, pipeline))
    except AdapterError as error:
        missing += error.parts
    yield "judged by", ", ".join(dict.fromkeys(judge.task for judge in loop.judge))
    try:
        require_judges(loop.judge, resolve_model(loop.captioner), None, (), call.judging())
    except BenchError as error:
        missing += error.parts
    if missing:
        raise as_one(list({error.message: error for error in missing}.values()))


def _trained(call: LoopCall, pipeline: SynthesisPipeline) -> Iterator[tuple[str, str]]:
    """Yield the plan of the training recipe for the pipeline's number of rows."""
    loaded, loop = call.loaded, call.loaded.loop
    recipe = loaded.recipe().recipe
    try:
        resolve_model(recipe.model.name, recipe.model.arguments).check()
    except AdapterError:
        # Rows, steps and memory can be computed with an opened model only.
        yield "recipe", recipe.recipe
        yield "model", recipe.model.name
        raise
    with TemporaryDirectory() as folder:
        synthesis_call, file = call.synthesis(loop.captioner, "turn-1"), Path(folder) / "rows.jsonl"
        image = next(replace(synthesis_call, limit=1).source(Path(folder)).rows()).image
        # A placeholder text in each column.
        columns: dict[str, Any] = {
            name: [str(image)] if name == "further_images" else ["A picture."]
            for name in pipeline.output.columns
            if name not in _OF_ROWS
        }
        columns |= {"image": str(image)} if image else {}
        lines = [json.dumps({"id": row.id, **columns}) + "\n" for row in synthesis_call.source(None).rows()]
        file.write_text("".join(lines), encoding="utf-8")
        try:
            # The rows name an image that the pipeline may read.
            with permit(Permissions(folders=(image.parent,) if image else ())):
                rows = training.dry_run(call.training(file))
        except BenchError as error:
            named = ", ".join(pipeline.output.columns) or "no column"
            raise UsageError(
                f"{loaded.parsed.where('train', 'recipe')}: recipe '{loop.train.recipe}' on the output of "
                f"pipeline '{pipeline.pipeline}' ({named}): {error.message}",
                error.hint,
            ) from error
    yield from (line for line in rows if line[0] != "judged by")


def _require_captioners(call: LoopCall) -> None:
    """Raise unless the start model and the trained model are captioners."""
    loaded = call.loaded
    trained = loaded.recipe().recipe.model
    for keys, name, arguments in (
        (("captioner",), loaded.loop.captioner, {}),
        (("train", "recipe"), trained.name, trained.arguments),
    ):
        role = resolve_model(name, arguments).role
        if role != "captioner":
            raise UsageError(
                f"{loaded.parsed.where(*keys)}: a loop needs a captioner, and '{name}' has the role {role}.",
                "List captioners with 'bench ls models'.",
            )


MARK, FINISHED, DATA, RUNS = "loop.json", "turn.json", "data", "runs"


@dataclass(frozen=True)
class LoopReporter:
    """Progress callbacks of a loop.

    Attributes:
        turn: Called with a message before each part of a turn.
        stage: Called after each pipeline stage.
        step: Called after each training step.
    """

    turn: Callable[[str], object] = lambda words: None
    stage: Callable[[StageFacts], object] = lambda facts: None
    step: Callable[[StepReport], object] = lambda taken: None


def run_loop(call: LoopCall, output: Path, reporter: LoopReporter = LoopReporter()) -> list[LoopTurn]:
    """Run all unfinished turns, and write the report after each of them and after the last turn.

    Turn 0 is the start captioner. The folder of each other turn, ``turn-1`` and so on, is a model
    as ``--model`` takes it, with its training data below it.

    Args:
        call: The loop.
        output: The output folder; created if missing.
        reporter: Progress callbacks.

    Returns:
        All turns, from 0.

    Raises:
        DataError: The folder belongs to another loop.
        BenchError: See ``dry_run``; or a part failed.
    """
    loop = call.loaded.loop
    is_first = call.processes.is_first
    mark = json.dumps({"loop": loop.loop, "fingerprint": call.loaded.fingerprint()})
    folders = [output / f"turn-{number}" for number in range(loop.turns + 1)]
    if is_first:
        claim(output, MARK, mark, "loop")
        if not all((folder / FINISHED).is_file() for folder in folders):
            for _ in dry_run(call):
                pass
    turns: list[LoopTurn] = []
    captioner = loop.captioner
    for number, folder in enumerate(folders):
        call.processes.wait()
        is_left = not (folder / FINISHED).is_file()
        if is_left:
            _run_turn(call, captioner, folder, f"turn {number} of {loop.turns}", reporter)
        captioner = str(folder) if number else captioner
        call.processes.wait()
        turns.append(_finished(call, folder, number))
        if is_first and (is_left or number == loop.turns):
            write_report(call.loaded, turns, output)
    return turns


def _run_turn(call: LoopCall, captioner: str, folder: Path, name: str, reporter: LoopReporter) -> None:
    """Run a turn: synthesis, training and evaluation; an interrupted turn is resumed.

    All processes train; the first makes data and evaluates.
    """
    rows, remarks = 0, list[str]()

    def made() -> tuple[Path, int]:
        reporter.turn(f"{name}: {captioner} makes data")
        report = synthesis.make(call.synthesis(captioner, folder.name), folder / DATA, reporter.stage)
        reporter.turn(f"{name}: {call.loaded.loop.train.recipe} trains on {len(report.rows):,} rows")
        return report.result, len(report.rows)

    if folder.name != "turn-0":
        result, rows = call.processes.of_first(made)
        trained = training.run_recipe(call.training(result), folder, reporter.step, {}, judge=False)
        remarks, captioner = trained.remarks, str(folder.absolute())
    if not call.processes.is_first:
        return
    reporter.turn(f"{name}: evaluation")
    runs = judged(call.loaded.loop.judge, resolve_model(captioner), folder / RUNS, call.judging())
    judges = call.loaded.loop.judge
    finished = {
        "rows": rows,
        "remarks": remarks,
        "runs": [
            [judges.index(judge), run.folder.relative_to(folder).as_posix()]
            for judge, run in runs
            if run.folder is not None
        ],
    }
    write_whole(folder / FINISHED, json.dumps(finished, indent=1) + "\n")


def _finished(call: LoopCall, folder: Path, number: int) -> LoopTurn:
    """Read a finished turn.

    Raises:
        DataError: One of its runs cannot be read.
    """
    kept = load_json(folder / FINISHED)
    judges = call.loaded.loop.judge
    runs = [JudgedRun(judges[judge], read_task_run(folder / run)) for judge, run in kept["runs"]]
    return LoopTurn(number, kept["rows"], runs, kept["remarks"])
