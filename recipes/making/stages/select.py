"""The rows whose captions name the most visual elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

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
    """What reads captions."""


class Select(Stage):
    """Keeps the rows whose captions name the most elements; of equal ones those that come first."""

    Settings = SelectSettings
    settings: SelectSettings
    chooses = True

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return (self.settings.caption,)

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return ("elements",)

    def check(self) -> None:
        """Raise if the parser cannot be used here; see ``Stage.check``."""
        self.settings.parser.build().check()

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with how many ``elements`` its caption names."""
        settings = self.settings
        graphs = graphs_of([row.values[settings.caption] for row in rows], settings.parser.build(), models.cache)
        made: list[Made] = []
        for row in rows:
            graph = graphs[row.values[settings.caption]]
            if isinstance(graph, str):
                made.append(Unmade(graph))
                continue
            count = count_elements(graph, settings.elements)
            about = {"parser": settings.parser.parser, "counts": {"elements": count}}
            made.append(row.having(self.name, about, elements=count))
        return made

    def left_out(self, rows: Iterable[MakingRow]) -> Mapping[int, str]:
        """Return the rows beyond the most, whose captions name the fewest elements."""
        if self.settings.most is None:
            return {}
        # A sort is stable; a row that went on as it came names none.
        counts = [row.values.get("elements", 0) for row in rows]
        ranked = sorted(range(len(counts)), key=lambda number: -counts[number])
        return dict.fromkeys(ranked[self.settings.most :], "others name more elements")
