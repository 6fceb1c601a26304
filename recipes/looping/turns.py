"""Carries out a self-loop, turn by turn; a turn that is finished is not carried out again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...adapters.aliases import resolve_model
from ...benchmarks.records.reading import read_task_run
from ...drafts import write_whole
from ...errors import DataError, UsageError
from ...permissions import Permissions, permit
from ...rows import BadRow, load_json, read_rows
from ..making.making import make
from ..making.report import StageFacts
from ..training.carrying_out import carry_out as train
from ..training.judging import JudgedRun, judged
from ..training.loop import StepReport
from ..training.tuning import start_of, with_start
from .call import LoopCall
from .checking import dry_run
from .report import LoopTurn, write_report

MARK, FINISHED, DATA, RUNS = "loop.json", "turn.json", "data", "runs"


@dataclass(frozen=True)
class LoopReporter:
    """Whom a loop tells how far it is.

    Attributes:
        turn: Of each part of a turn that begins, in words.
        stage: Of each stage of a maker that is done.
        step: Of each step of a training.
    """

    turn: Callable[[str], object] = lambda words: None
    stage: Callable[[StageFacts], object] = lambda facts: None
    step: Callable[[StepReport], object] = lambda taken: None


def carry_out(call: LoopCall, output: Path, told: LoopReporter = LoopReporter()) -> list[LoopTurn]:
    """Carry out all turns that are not finished, and write the report after each of these and after the last.

    Turn 0 is the captioner that the loop begins with. The folder of each other turn, ``turn-1`` and so on, is a model
    as ``--model`` takes it, with the data that it was trained on below it.

    Args:
        call: The loop.
        output: The folder that is written; made if it is not there.
        told: Is told how far it is.

    Returns:
        All turns, from 0.

    Raises:
        DataError: The folder holds what another loop made.
        BenchError: As of ``dry_run``, or a part failed.
    """
    loop = call.loaded.loop
    if call.processes.count > 1:
        raise UsageError(
            f"a loop is carried out by one process, and this is one of {call.processes.count}",
            "Start it without accelerate; --processes and --engine place what makes data.",
        )
    _require_own(call, output)
    folders = [output / f"turn-{number}" for number in range(loop.turns + 1)]
    if not all((folder / FINISHED).is_file() for folder in folders):
        for _ in dry_run(call):
            pass
    turns: list[LoopTurn] = []
    captioner = loop.captioner
    with permit(with_start(start_of(call.loaded.recipe().recipe))):
        for number, folder in enumerate(folders):
            is_left = not (folder / FINISHED).is_file()
            if is_left:
                _carry_out_turn(call, captioner, folder, f"turn {number} of {loop.turns}", told)
            captioner = str(folder) if number else captioner
            turns.append(_finished(call, folder, number))
            if is_left or number == loop.turns:
                write_report(call.loaded, turns, output)
    return turns


def _carry_out_turn(call: LoopCall, captioner: str, folder: Path, name: str, told: LoopReporter) -> None:
    """Make data, train on them and have the result judged; what was begun of it goes on."""
    rows, remarks = 0, list[str]()
    if folder.name != "turn-0":
        told.turn(f"{name}: data are made with {captioner}")
        report = make(call.making(captioner, folder.name), folder / DATA, told.stage)
        told.turn(f"{name}: {call.loaded.loop.train.recipe} trains on {len(report.rows):,} rows")
        # The rows name images that the maker was allowed to read; its own are gone with its folder of work.
        images = (row.get("image") for row in read_rows(report.result) if not isinstance(row, BadRow))
        seen = {(report.result.parent / image).parent for image in images if image is not None}
        with permit(Permissions(folders=tuple(sorted(seen)))):
            trained = train(call.training(report.result), folder, told.step, {}, judge=False)
        rows, remarks, captioner = len(report.rows), trained.remarks, str(folder.absolute())
    told.turn(f"{name}: tasks judge")
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
    """Return a turn that is finished.

    Raises:
        DataError: A run of it cannot be read.
    """
    kept = load_json(folder / FINISHED)
    judges = call.loaded.loop.judge
    runs = [JudgedRun(judges[judge], read_task_run(folder / run)) for judge, run in kept["runs"]]
    return LoopTurn(number, kept["rows"], runs, kept["remarks"])


def _require_own(call: LoopCall, output: Path) -> None:
    """Make the folder, and mark it as this loop's.

    Raises:
        DataError: It is another's.
    """
    mark, fingerprint = output / MARK, call.loaded.fingerprint()
    if mark.is_file():
        found = load_json(mark)
        if found["fingerprint"] != fingerprint:
            raise DataError(
                f"{output} holds turns of loop '{found['loop']}' with other settings, data or tasks",
                "Name another folder with --output, or remove this one; the number of turns alone may change.",
            )
        return
    output.mkdir(parents=True, exist_ok=True)
    if any(output.iterdir()):
        raise DataError(f"{output} holds other things", "Name a folder that is empty, or that this loop made.")
    write_whole(mark, json.dumps({"loop": call.loaded.loop.loop, "fingerprint": fingerprint}) + "\n")
