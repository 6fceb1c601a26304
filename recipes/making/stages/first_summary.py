"""The first summary of an image and of each of its masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from ....tasks.dci.mask_texts import BASE
from ..asking import Conversation, NoUse
from ..mask_texts import MaskTree
from ..models import MakerModels
from ..rows import Made, MakingRow
from ..summaries import FULL_IMAGE, SUBMASK, Asker, AskingSettings, reduced
from ..tokens import clip_tokens, cut_to_tokens
from .entries import EntryStage, Told


class FirstSummarySettings(AskingSettings):
    """Its keys."""

    least_area: int = 5_000
    """Pixels; smaller masks, and what they are made of, are left out."""
    prompts: Literal["released", "by_part"] = "released"
    """Which texts are said to be of a part of an image: of the released code, those that are short enough already; or
    those of masks."""
    input_tokens: Annotated[int, Field(gt=2)] = 2_000
    """A text is cut to so many of CLIP's tokens."""
    most_tokens: Annotated[int, Field(gt=2)] = 139
    """An answer of more is asked for again."""
    tokens: Annotated[int, Field(gt=2)] = 75
    """A summary is reduced to so many."""
    new_tokens: Annotated[int, Field(gt=0)] = 250
    """Of the judge's own."""


class FirstSummary(EntryStage):
    """Summarises the text of each entry in CLIP's tokens: ``summaries``, a list of one each."""

    Settings = FirstSummarySettings
    settings: FirstSummarySettings  # pyright: ignore[reportIncompatibleVariableOverride]

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return ("mask_data",)

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return ("summaries",)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with its summaries; one whose whole image has none is unmade."""
        texts = [MaskTree(row.values, self.settings.least_area).entries() for row in rows]
        made = self.ask(
            rows,
            models,
            [
                {key: self._summary(text, key, self.asker(row, key)) for key, text in its.items() if text}
                for row, its in zip(rows, texts, strict=True)
            ],
        )
        prompts = {"full image": FULL_IMAGE, "submask": SUBMASK}
        return [
            self.row(
                row, told, models, prompts, summaries={key: [text] for key, text in told.results.items()}
            )
            for row, told in zip(rows, made, strict=True)
        ]

    def unmade(self, told: Told) -> str | None:
        """Return why the row is of no use."""
        if BASE in told.results:
            return None
        return f"the whole image has no summary: {told.faults.get(BASE, 'nothing is said of it')}"

    def _summary(self, text: str, key: str, asker: Asker) -> Conversation[str]:
        settings = self.settings
        text = cut_to_tokens(text, settings.input_tokens)
        is_part = clip_tokens(text) <= settings.tokens if settings.prompts == "released" else key != BASE
        fault: NoUse | None = None
        for attempt in range(asker.tries):
            system = SUBMASK if is_part else FULL_IMAGE
            try:
                answer = asker.line((yield asker.request(text, system, settings.new_tokens, attempt)))
                if clip_tokens(answer) > settings.most_tokens:
                    raise NoUse(f"the answer has more than {settings.most_tokens} tokens")
                return (yield from reduced(answer, settings.tokens, asker, settings.new_tokens, attempt))
            except NoUse as found:
                fault = found
        raise fault or NoUse("was not asked for")
