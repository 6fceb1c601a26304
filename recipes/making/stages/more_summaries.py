"""Further summaries of an image and of each of its masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from ....adapters.encoders.clip_tokens import CONTEXT
from ....tasks.dci.mask_texts import BASE
from ..asking import Conversation, NoUse
from ..mask_texts import MaskTree
from ..models import MakerModels
from ..rows import Made, MakingRow
from ..summaries import SEVERAL, Asker, AskingSettings, numbered_lines
from ..tokens import clip_tokens
from .entries import EntryStage

_AT_ONCE = 5


class MoreSummariesSettings(AskingSettings):
    """Its keys."""

    input_tokens: Annotated[int, Field(gt=2)] = 1_000
    """A text has so many of CLIP's tokens: the last lines of an image's are left out, the deepest of a mask's."""
    new_tokens: Annotated[int, Field(gt=0)] = 1_400
    """Of the judge's own."""
    of_image: Annotated[int, Field(ge=0)] = 8
    """It is asked until there are more than so many of an image."""
    of_mask: Annotated[int, Field(ge=0)] = 4
    """The same of a mask, or the logarithm of its tokens where that is more."""


class MoreSummaries(EntryStage):
    """Adds to the ``summaries`` of each entry, five at a time; those over the context are left out.

    What is there after the last try is kept: an entry has its first summary in any case.
    """

    Settings = MoreSummariesSettings
    settings: MoreSummariesSettings  # pyright: ignore[reportIncompatibleVariableOverride]

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return ("mask_data", "summaries")

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return ("summaries",)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with further summaries."""
        conversations = []
        for row in rows:
            texts = MaskTree(row.values).entries(self.settings.input_tokens)
            first = row.values["summaries"]
            conversations.append(
                {key: self._further(texts[key], its, key, self.asker(row, key)) for key, its in first.items()}
            )
        made = self.ask(rows, models, conversations)
        return [
            self.row(
                row, told, models, {"several": SEVERAL}, summaries={**row.values["summaries"], **told.results}
            )
            for row, told in zip(rows, made, strict=True)
        ]

    def _further(self, text: str, first: Sequence[str], key: str, asker: Asker) -> Conversation[list[str]]:
        import math

        settings = self.settings
        wanted = settings.of_image if key == BASE else max(settings.of_mask, math.log(clip_tokens(text)))
        # In the order in which they came, each once.
        found = dict.fromkeys(first)
        fault = NoUse("nothing new was said")
        for attempt in range(asker.tries):
            if len(found) > wanted:
                break
            prompt = f"Full description: {text}\n\nSummaries:"
            try:
                answer = yield asker.request(prompt, SEVERAL, settings.new_tokens, attempt)
                lines = numbered_lines(answer, _AT_ONCE, asker)
            except NoUse as reason:
                fault = reason
                continue
            found |= dict.fromkeys(line for line in lines if clip_tokens(line) < CONTEXT)
        if len(found) == len(first):
            raise fault
        return list(found)
