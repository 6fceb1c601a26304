"""The rows whose captions name the most visual elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from ....metrics.capture.scene_graphs import Graph
from ..contract import Stage, StageSettings
from ..elements import Kind, ParserChoice, count_elements, graphs_of
from ..models import MakerModels
from ..rows import Made, MakingRow, Unmade


class SelectSettings(StageSettings):
    """Its keys."""

    caption: str
    """The value that holds the caption."""
    most: Annotated[int, Field(gt=0)] | None = None
    """Rows that are kept; None keeps all, and counts."""
    elements: tuple[Kind, ...] = ("objects", "attributes", "relations")
    """What is counted; each element of a caption once."""
    parser: ParserChoice = ParserChoice()


class Select(Stage):
    """Keeps the rows whose captions name the most elements; of equal ones those that come first."""

    Settings = SelectSettings
    settings: SelectSettings
    shard = None

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return (self.settings.caption,)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return the rows that are kept, with their ``elements``; the others are unmade, with theirs."""
        settings = self.settings
        captions = [row.values[settings.caption] for row in rows]
        graphs = graphs_of(captions, settings.parser.build(), models.cache)
        counts: dict[int, int] = {}
        for number, caption in enumerate(captions):
            if isinstance(graph := graphs[caption], Graph):
                counts[number] = count_elements(graph, settings.elements)
        # A sort is stable.
        kept = set(sorted(counts, key=lambda number: -counts[number])[: settings.most])
        made: list[Made] = []
        for number, row in enumerate(rows):
            if number in kept:
                about = {"parser": settings.parser.parser, "counts": {"elements": counts[number]}}
                made.append(row.having(self.name, about, elements=counts[number]))
            elif number in counts:
                made.append(Unmade("others name more elements"))
            else:
                made.append(Unmade(str(graphs[captions[number]])))
        return made
