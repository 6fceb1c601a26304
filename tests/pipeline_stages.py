"""Real, small stages that can be told to end the process, and judges that answer by a script."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from capbench.adapters.contracts import Judge, Judged, Judgement, JudgeRequest
from capbench.recipes.data_synthesis.contract import (
    Generated,
    NotGenerated,
    PipelineModels,
    PipelineRow,
    Stage,
    StageSettings,
    stages,
)
from capbench.rows import read_rows


class AddSettings(StageSettings):
    add: str
    folder: str
    """Each row that is begun is a line of ``begun`` there; at a row of the name ``kill-STAGE-ROW`` the process ends."""


class Add(Stage):
    """Adds letters to a text; of a text with ``bad`` nothing can be made, of one with ``busy`` not this time."""

    Settings = AddSettings
    shard = 2

    def reads(self) -> Sequence[str]:
        return ("text",)

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> list[Generated]:
        outcomes: list[Generated] = []
        folder = Path(self.settings.folder)
        for row in rows:
            fate = folder / f"kill-{self.name}-{row.id}"
            if fate.exists():
                fate.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            number = os.open(folder / "begun", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(number, f"{self.name} {row.id}\n".encode())
            os.close(number)
            text = row.values["text"]
            if "bad" in text or "busy" in text:
                outcomes.append(NotGenerated("is bad" if "bad" in text else "is busy", passing="busy" in text))
            else:
                outcomes.append(
                    row.having(
                        self.name, {"counts": {"letters": len(self.settings.add)}}, text=text + self.settings.add
                    )
                )
        return outcomes


class Scripted(Judge):
    """Answers by a function of the request and of how often the same text was asked about; None is no answer."""

    name = "scripted"

    def __init__(self, answer: Callable[[JudgeRequest, int], str | None]) -> None:
        self.answer = answer
        self.asked: list[JudgeRequest] = []

    def fingerprint(self) -> dict[str, Any]:
        return {"judge": "scripted"}

    def stream(self, requests: Sequence[JudgeRequest]) -> Iterator[Judged]:
        judgements: dict[int, Judgement] = {}
        failures: dict[int, str] = {}
        for at, request in enumerate(requests):
            before = sum(asked.prompt == request.prompt and asked.system == request.system for asked in self.asked)
            self.asked.append(request)
            answer = self.answer(request, before)
            if answer is None:
                failures[at] = "the server is down"
            else:
                judgements[at] = Judgement(answer)
        yield Judged(judgements, failures)


class Models(PipelineModels):
    """Models that are objects."""

    def __init__(self, **models: Any) -> None:
        super().__init__({})
        self._loaded = models

    def name(self, role: str) -> str:
        return self._loaded[role].name


def rows_of(folder: Path, name: str = "rows.jsonl") -> list[dict[str, Any]]:
    """Return the rows that a pipeline wrote into a folder."""
    return [row for row in read_rows(folder / name) if isinstance(row, dict)]


def made_of(stage: Stage, row: PipelineRow, models: Models | None = None) -> Any:
    """Return what a stage makes of one row."""
    (outcome,) = stage.carry_out([row], models or Models())
    return outcome


def asked_of(
    stage: Stage, values: dict[str, Any], answer: Callable[[JudgeRequest, int], str | None]
) -> tuple[Any, Scripted]:
    """Return what a stage makes of one row with these values, and the judge that it asked."""
    judge = Scripted(answer)
    return made_of(stage, PipelineRow("17", None, values), Models(judge=judge)), judge


stages.register("add")(Add)
