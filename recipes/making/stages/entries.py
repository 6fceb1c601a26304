"""What stages have in common that ask a judge about each entry of an image: the whole, and its masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..asking import Conversation, converse
from ..contract import Stage
from ..models import MakerModels
from ..rows import Made, MakingRow, Unmade
from ..summaries import Asker, AskingSettings


@dataclass
class Told:
    """What became of the entries of a row.

    Attributes:
        results: Entry to what was made.
        faults: Entry to the reason, where nothing was.
        asked: Requests that were made.
        silent: Why the judge gave no answer, of the entries where nothing was made.
    """

    results: dict[str, Any] = field(default_factory=dict[str, Any])
    faults: dict[str, str] = field(default_factory=dict[str, str])
    asked: int = 0
    silent: str = ""


class EntryStage(Stage):
    """Asks a judge about each entry."""

    roles = ("judge",)
    settings: AskingSettings

    def asker(self, row: MakingRow, *names: str) -> Asker:
        """Return what asks for one text of a row."""
        return Asker(self.settings, self.seed, (self.name, row.id, *names))

    def ask(
        self,
        rows: Sequence[MakingRow],
        models: MakerModels,
        conversations: Sequence[Mapping[str, Conversation[Any]]],
    ) -> list[Told]:
        """Return what became of the conversations about each row, by entry; all go on together."""
        flat = [(number, key, one) for number, its in enumerate(conversations) for key, one in its.items()]
        told = [Told() for _ in rows]
        for (number, key, _), said in zip(
            flat, converse(models["judge"], [one for *_, one in flat]), strict=True
        ):
            its = told[number]
            its.asked += said.asked
            if said.result is None:
                its.silent = said.silent or its.silent
                its.faults[key] = said.silent or said.fault
            else:
                its.results[key] = said.result
        return told

    def unmade(self, told: Told) -> str | None:
        """Return why nothing can be made of a row, or None if something was."""
        return None

    def row(
        self, row: MakingRow, told: Told, models: MakerModels, prompts: Mapping[str, str], **values: Any
    ) -> Made:
        """Return a row with what was made, and where it came from; unmade where that is of no use."""
        if (fault := self.unmade(told)) is not None:
            return Unmade(fault, passing=bool(told.silent))
        about = {
            "model": models.name("judge"),
            "prompts": dict(prompts),
            "seed": self.seed,
            "requests": told.asked,
            "counts": {"entries": len(told.results), "left out": len(told.faults)},
            **({"left_out": told.faults} if told.faults else {}),
        }
        return replace(row.having(self.name, about, **values), passing=bool(told.silent))
