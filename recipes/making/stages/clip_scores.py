"""How an encoder scores the first summary and the negatives of each entry, as DCI stores it."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import Stage, StageSettings
from ..models import MakerModels
from ..rows import Made, MakingRow, Unmade
from ..similarities import named_texts, similarities

_SCALE = 100.0
"""CLIP's own."""


class ClipScores(Stage):
    """Makes ``clip_scores`` of each entry: ``sum`` (the first summary) and ``KIND_NUMBER`` of each negative, in 100ths.

    By them the hardest negative is found, which is the same text for every model.
    """

    Settings = StageSettings
    roles = ("encoder",)

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return ("mask_data", "summaries", "negatives")

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return ("clip_scores",)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with its scores."""
        made: list[Made] = []
        for row, found in zip(rows, similarities(rows, models), strict=True):
            if isinstance(found, str):
                made.append(Unmade(found))
                continue
            scores = {
                key: {name: _SCALE * found[key][text] for name, text in texts.items()}
                for key, texts in named_texts(row).items()
            }
            about = {"model": models.name("encoder"), "counts": {"entries": len(scores)}}
            made.append(row.having(self.name, about, clip_scores=scores))
        return made
