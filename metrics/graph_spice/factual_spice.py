"""SPICE of scene graphs that FACTUAL's parser, or another, makes: without Java."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...errors import require_all
from ..contract import Context
from . import synonyms as tables
from .facts import Fact, matches, tuples
from .graphs import GraphMetric


class FactualSpice(GraphMetric):
    """F1 of objects, attributes and relations, held against those of all references together.

    Tuples that are equal are matched first, then those of which each word has a synonym set of WordNet in common with
    the other's. Tuples of one side that are synonyms of each other are not merged, as the released ``Evaluator`` does
    it; SPICE's jar merges them.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``.

    Args:
        synonyms: Whether synonyms match. They are read out of METEOR's jar; Java is not needed.
        parser: This and what follows as of :class:`~capbench.metrics.graph_spice.graphs.GraphMetric`.
        parser_model: The parser's checkpoint, pipeline or file.
        parser_revision: Branch, tag or commit of the checkpoint.
        input_limit: How ``factual`` cuts long sentences.
        lemmatize: Whether words become lemmas.
        empty: What a graph without any fact is.
        wordnet: Folder of WordNet's database files.
        nltk_data: Folder of NLTK's data.
        device: Where models run.
        batch_size: Sentences that ``factual`` parses at once.

    Raises:
        ValueError: A setting is out of range.
    """

    label = "SPICE (FACTUAL)"
    source = "Li et al., Findings of ACL 2023; FactualSceneGraph 0.7.3 evaluation/spice_evaluation.py"

    def __init__(
        self,
        synonyms: bool = True,
        parser: Literal["factual", "spacy", "grammar", "recorded"] = "factual",
        parser_model: str | None = None,
        parser_revision: str | None = None,
        input_limit: Literal["0.5.0", "0.7"] | float = "0.5.0",
        lemmatize: bool = True,
        empty: Literal["nothing", "phrase"] = "nothing",
        wordnet: str | None = None,
        nltk_data: str | None = None,
        device: str | None = None,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(
            parser, parser_model, parser_revision, input_limit, lemmatize, empty, wordnet, nltk_data, device, batch_size
        )  # fmt: skip
        self.synonyms = synonyms

    def check(self) -> None:
        """Raise if the parser, WordNet or METEOR's jar is missing."""
        require_all(super().check, *([tables.check] if self.synonyms else []))

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what parses and knows lemmas and synonyms."""
        return {**super().fingerprint(), **(tables.FINGERPRINT if self.synonyms else {})}

    def _compare(
        self, pairs: Sequence[tuple[frozenset[Fact], frozenset[Fact]]], context: Context
    ) -> list[tuple[float, float, float]]:
        knows = tables.synonym_sets if self.synonyms else None
        rows: list[tuple[float, float, float]] = []
        for candidate, references in pairs:
            mine, theirs = tuples(candidate), tuples(references)
            matched = matches(mine, theirs, knows)
            precision = matched / len(mine) if mine else 0.0
            recall = matched / len(theirs) if theirs else 0.0
            f1 = 2 * precision * recall / (precision + recall) if matched else 0.0
            rows.append((f1, precision, recall))
        return rows
