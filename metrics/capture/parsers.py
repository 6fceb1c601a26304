"""What parses captions into scene graphs: one contract, four parsers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..contract import Context
from .scene_graphs import Graph

NO_GRAPH = "the parser gave no graph"


@dataclass(frozen=True)
class ParsedCaption:
    """A caption after parsing.

    Attributes:
        sentences: The graph of each sentence that gave one; of a finished graph, that alone.
        nouns: Words of the caption tagged as nouns, as written, for the check of the objects; None of a
            finished graph, which is taken as it is.
        without_graph: How many sentences gave none.
    """

    sentences: tuple[Graph, ...]
    nouns: tuple[str, ...] | None
    without_graph: int = 0


class CaptionParser(ABC):
    """Parses captions, sentence by sentence."""

    @property
    def finished(self) -> bool:
        """Whether every graph is final, so that no lemma and no noun is asked for (``ParsedCaption.nouns``).

        Raises:
            MetricError: The parser cannot be used.
        """
        return False

    @abstractmethod
    def check(self) -> None:
        """Raise if something that it needs is missing.

        Raises:
            MetricError: The hint says how to get it.
        """

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Return everything that can change a graph."""

    @abstractmethod
    def parse(self, captions: Sequence[str], context: Context) -> dict[str, ParsedCaption | str]:
        """Return each caption parsed, or why it could not be.

        Args:
            captions: Captions as written; equal ones are parsed once.
            context: Cache and progress.

        Raises:
            MetricError: Nothing can be parsed.
        """

    def unknown(self, caption: str) -> Sequence[str]:
        """Return the words of a caption that the parser does not know and passes over; most parsers know all."""
        return ()
