"""What captions say, as CAPTURE's parsers read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...metrics.capture.choices import choose_parser
from ...metrics.capture.scene_graphs import CaptionParser, Graph, complete, in_order
from ...metrics.contract import Cache, Context
from ..training.schema import Strict

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
    """Return what each caption says, names as its sentences' graphs have them; or why it cannot be read.

    Raises:
        MetricError: The parser cannot be used.
    """
    found: dict[str, Graph | str] = {}
    for caption, parsed in parser.parse(list(dict.fromkeys(captions)), Context(cache)).items():
        if isinstance(parsed, str):
            found[caption] = parsed
            continue
        sentences = [complete(one) for one in parsed.sentences]
        found[caption] = in_order(
            Graph(
                tuple(name for one in sentences for name in one.objects),
                tuple(pair for one in sentences for pair in one.attributes),
                tuple(triple for one in sentences for triple in one.relations),
            )
        )
    return found


def count_elements(graph: Graph, kinds: Sequence[Kind]) -> int:
    """Return how many different elements of some kinds a caption names."""
    return sum(len(getattr(graph, kind)) for kind in kinds)


def element_set(graph: Graph) -> frozenset[tuple[Any, ...]]:
    """Return all that a caption says, as one set."""
    return frozenset([*((name,) for name in graph.objects), *graph.attributes, *graph.relations])
