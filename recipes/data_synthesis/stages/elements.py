"""Elements of captions, read by CAPTURE's parsers, and the rows whose captions name the most."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ....metrics.capture.parsers import choose_parser
from ....metrics.capture.scene_graphs import CaptionParser, Graph, complete, united
from ....metrics.contract import Cache, Context
from ...training.schema import Strict
from ..contract import Generated, NotGenerated, PipelineModels, PipelineRow, Stage, StageSettings

Kind = Literal["objects", "attributes", "relations"]


class ParserChoice(Strict):
    """A parser, named as CAPTURE's settings name it."""

    parser: Literal["factual", "spacy", "grammar", "recorded"] = "factual"
    """What finds them in a text."""
    parser_model: str | None = None
    """The parser's model, where it has one."""
    parser_revision: str | None = None
    """The revision of that model on the hub."""

    def build(self) -> CaptionParser:
        """Return the parser."""
        return choose_parser(self.parser, self.parser_model, self.parser_revision)


def graphs_of(captions: Sequence[str], parser: CaptionParser, cache: Cache) -> dict[str, Graph | str]:
    """Return the scene graph of each caption, or why it cannot be parsed.

    Raises:
        MetricError: The parser cannot be used.
    """
    return {
        caption: parsed if isinstance(parsed, str) else united(*map(complete, parsed.sentences))
        for caption, parsed in parser.parse(list(dict.fromkeys(captions)), Context(cache)).items()
    }


def element_set(graph: Graph) -> frozenset[tuple[Any, ...]]:
    """Return all elements of a caption as one set."""
    return frozenset([*((name,) for name in graph.objects), *graph.attributes, *graph.relations])


class SelectSettings(StageSettings):
    """Its keys."""

    caption: str
    """The value that holds the caption."""
    most: Annotated[int, Field(gt=0)] | None = None
    """Number of rows that are kept; None keeps all, and counts."""
    elements: tuple[Kind, ...] = ("objects", "attributes", "relations")
    """Elements that are counted, each once per caption."""
    parser: ParserChoice = ParserChoice()
    """The parser of captions."""


class Select(Stage):
    """Keeps the rows whose captions name the most elements; of ties the first ones."""

    Settings = SelectSettings
    settings: SelectSettings
    chooses = True
    takes = ("{caption}",)
    gives = ("elements",)

    def check(self) -> None:
        """Raise if the parser cannot be used here; see ``Stage.check``."""
        self.settings.parser.build().check()

    def carry_out(self, rows: Sequence[PipelineRow], models: PipelineModels) -> Iterator[Generated]:
        """Yield each row with how many ``elements`` its caption names."""
        settings = self.settings
        graphs = graphs_of([row.values[settings.caption] for row in rows], settings.parser.build(), models.cache)
        for row in rows:
            graph = graphs[row.values[settings.caption]]
            if isinstance(graph, str):
                yield NotGenerated(graph)
                continue
            # Each element of a caption once.
            count = sum(len(getattr(graph, kind)) for kind in settings.elements)
            about = {"parser": settings.parser.parser, "counts": {"elements": count}}
            yield row.having(self.name, about, elements=count)

    def left_out(self, rows: Iterable[PipelineRow]) -> Mapping[int, str]:
        """Return the rows beyond the most, whose captions name the fewest elements."""
        if self.settings.most is None:
            return {}
        # A sort is stable; a row that went on as it came names none.
        counts = [row.values.get("elements", 0) for row in rows]
        ranked = sorted(range(len(counts)), key=lambda number: -counts[number])
        return dict.fromkeys(ranked[self.settings.most :], "others name more elements")
