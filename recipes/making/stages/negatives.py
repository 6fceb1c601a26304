"""False descriptions of an image and of each of its masks, made of its first summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from ....adapters.encoders.clip_tokens import CONTEXT
from ....tasks.dci.mask_texts import BASE
from ..asking import Conversation, NoUse
from ..models import MakerModels
from ..rows import Made, MakingRow
from ..summaries import NEGATIVES, Asker, AskingSettings, reduced
from ..tokens import clip_tokens
from .entries import EntryStage, Told


class NegativesSettings(AskingSettings):
    """Its keys."""

    of_image: Annotated[int, Field(gt=0)] = 3
    """Of each kind."""
    of_mask: Annotated[int, Field(gt=0)] = 1
    """Of each kind, of a caption of a part."""
    shorter: Annotated[int, Field(ge=0)] = 15
    """Tokens that one may be shorter than the summary; others are asked for again."""
    longer: Annotated[int, Field(ge=0)] = 50
    """Tokens that an answer may be longer …"""
    reduced_to: Annotated[int, Field(ge=0)] = 5
    """… before it is reduced to so many more than the summary, and never more than CLIP's context."""
    new_tokens: Annotated[int, Field(gt=0)] = 150
    """Of the judge's own."""


class Negatives(EntryStage):
    """Makes ``negatives`` of each entry: by kind (basic, layout, swaps), so many of each."""

    Settings = NegativesSettings
    settings: NegativesSettings  # pyright: ignore[reportIncompatibleVariableOverride]

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return ("summaries",)

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return ("negatives",)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with negatives; an entry that lacks one of a kind loses its summaries, too."""
        conversations = [
            {
                f"{key} {kind} {number}": self._negative(
                    its[0], kind, self.asker(row, key, kind, str(number))
                )
                for key, its in row.values["summaries"].items()
                for kind in NEGATIVES
                for number in range(self.settings.of_image if key == BASE else self.settings.of_mask)
            }
            for row in rows
        ]
        made: list[Made] = []
        for row, told in zip(rows, self.ask(rows, models, conversations), strict=True):
            by_entry = _by_entry(row.values["summaries"], told)
            summaries = {key: row.values["summaries"][key] for key in by_entry}
            told.results = by_entry
            made.append(self.row(row, told, models, NEGATIVES, negatives=by_entry, summaries=summaries))
        return made

    def unmade(self, told: Told) -> str | None:
        """Return why the row is of no use."""
        if BASE in told.results:
            return None
        reason = next((why for key, why in told.faults.items() if key.startswith(f"{BASE} ")), "")
        return f"the whole image lacks negatives: {reason}"

    def _negative(self, summary: str, kind: str, asker: Asker) -> Conversation[str]:
        settings, own = self.settings, clip_tokens(summary)
        fault: NoUse | None = None
        for attempt in range(asker.tries):
            try:
                request = asker.request(summary, NEGATIVES[kind], settings.new_tokens, attempt)
                answer = asker.line((yield request))
                if not own - settings.shorter <= clip_tokens(answer) <= own + settings.longer:
                    raise NoUse("the answer is much shorter or longer than the summary")
                if answer == summary:
                    raise NoUse("the answer is the summary itself")
                most = min(own + settings.reduced_to, CONTEXT)
                return (yield from reduced(answer, most, asker, settings.new_tokens, attempt))
            except NoUse as found:
                fault = found
        raise fault or NoUse("was not asked for")


def _by_entry(summaries: Sequence[str], told: Told) -> dict[str, dict[str, list[str]]]:
    """Return entry to kind to texts, of the entries that have some of every kind."""
    found: dict[str, dict[str, list[str]]] = {key: {kind: [] for kind in NEGATIVES} for key in summaries}
    for name, text in told.results.items():
        key, kind, _ = name.rsplit(" ", 2)
        found[key][kind].append(text)
    return {key: kinds for key, kinds in found.items() if all(kinds.values())}
