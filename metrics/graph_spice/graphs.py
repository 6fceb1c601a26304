"""Metrics over the facts of scene graphs that CAPTURE's parsers make."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ...errors import require_all
from ..capture import wordnet as wordnets
from ..capture.choices import choose_parser, named_parser
from ..capture.scene_graphs import ParsedCaption
from ..contract import PARSEABLE, Context, Metric
from ..items import Items, Scores
from .facts import Fact

# Vectors of the phrases of so many items are held at once.
_ITEMS_A_PIECE = 1_000
_NOTHING: Fact = ("",)


class GraphMetric(Metric):
    """What both metrics share: facts of candidates, held against those of all references together.

    Captions are parsed as CAPTURE parses them, sentence by sentence, by the same parsers and with the same parses:
    whichever of the metrics comes first, the others find them in the store. Nothing is left out of the graphs,
    and counts stay in. Where the parser gave no graph for a whole caption, the item has no value.

    Args:
        parser: ``factual``, ``spacy``, ``grammar`` or ``recorded``, as of ``capture``.
        parser_model: The parser's checkpoint, pipeline or file, as of ``capture``.
        parser_revision: Branch, tag or commit of the checkpoint.
        input_limit: How ``factual`` cuts long sentences, as of ``capture``.
        lemmatize: Whether words of the graphs become lemmas of WordNet's nouns (``lemmatize=True`` of the released
            ``Evaluator``, as its own examples have it).
        empty: What a graph without any fact is. ``nothing``: a candidate's scores 0, a reference's adds nothing;
            ``phrase``: the empty text is compared, as released.
        wordnet: Folder of WordNet's database files; not needed without ``lemmatize``.
        nltk_data: Folder of NLTK's data.
        device: Where models run; by default the GPU if there is one.
        batch_size: Sentences that ``factual`` parses at once.

    Raises:
        ValueError: A setting is out of range.
    """

    splits_words = True
    needs = frozenset({"references"})
    longest_caption = PARSEABLE

    def __init__(
        self,
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
        if empty not in ("nothing", "phrase"):
            raise ValueError(f"empty is nothing or phrase, not {empty}")
        self.lemmatize = lemmatize
        self.empty = empty
        # Private: the fingerprint has what they stand for.
        self._wordnet_folder = wordnet
        self._parser = choose_parser(
            parser,
            parser_model,
            parser_revision,
            nltk_data=nltk_data,
            input_limit=input_limit,
            device=device,
            batch_size=batch_size,
        )
        self._others = named_parser(parser, parser_model)
        self.label = self._spelled(self._others)

    def _spelled(self, others: Sequence[str]) -> str:
        """Return the label, with what is not the released parser or encoder."""
        return f"{type(self).label} ({', '.join(others)})" if others else type(self).label

    def check(self) -> None:
        """Raise if the parser, or WordNet, is missing."""
        require_all(self._parser.check, *([lambda: wordnets.find(self._wordnet_folder)] if self.lemmatize else []))

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what parses and knows lemmas."""
        settings = super().fingerprint()
        # Names of folders; what is in them follows.
        settings.pop("label", None)
        return {
            **settings,
            **({"wordnet": self._wordnet.digest} if self.lemmatize else {}),
            **self._parser.fingerprint(),
        }

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: The parser, or what the metric compares with, cannot be used.
        """
        reference_sets, set_of_item = items.reference_sets
        texts = dict.fromkeys(text for its in (items.candidates, *reference_sets) for text in its)
        parsed = self._parser.parse([text for text in texts if text.strip()], context)
        of_text = {text: self._facts(parsed.get(text)) for text in texts}
        of_set = [_pooled([of_text[text] for text in its]) for its in reference_sets]
        failures: dict[int, str] = {}
        pairs: dict[int, tuple[frozenset[Fact], frozenset[Fact]]] = {}
        for item, its_set in enumerate(set_of_item.tolist()):
            candidate, references = of_text[items.candidates[item]], of_set[its_set]
            if isinstance(candidate, str):
                failures[item] = f"candidate: {candidate}"
            elif isinstance(references, str):
                failures[item] = references
            else:
                pairs[item] = candidate, references
        columns = {name: np.full(len(items), np.nan) for name in ("value", "precision", "recall")}
        usable = list(pairs)
        for start in range(0, len(usable), _ITEMS_A_PIECE):
            piece = usable[start : start + _ITEMS_A_PIECE]
            rows = self._compare([pairs[item] for item in piece], context)
            for column, numbers in zip(columns.values(), zip(*rows, strict=True), strict=True):
                column[piece] = numbers
        values = columns.pop("value")
        return Scores(values=values, parts=columns, failures=failures)

    @abstractmethod
    def _compare(
        self, pairs: Sequence[tuple[frozenset[Fact], frozenset[Fact]]], context: Context
    ) -> list[tuple[float, float, float]]:
        """Return value, precision and recall of each candidate's facts against its references'."""

    def _facts(self, parsed: ParsedCaption | str | None) -> frozenset[Fact] | str:
        """Return the facts of a caption, none of one that says nothing, or why it was not parsed."""
        if isinstance(parsed, str):
            return parsed
        of_graphs = (graph.facts for graph in parsed.sentences) if parsed is not None else ()
        found = frozenset(self._lemmas(fact) for facts in of_graphs for fact in facts)
        if self.empty == "phrase":
            return found or frozenset({_NOTHING})
        # A parser's "( )" says no more than no graph.
        return found - {_NOTHING}

    def _lemmas(self, fact: Fact) -> Fact:
        if not self.lemmatize:
            return fact
        return tuple(
            " ".join(word if word == "is" else self._wordnet.lemma(word, "noun") for word in part.split(" "))
            for part in fact
        )

    @cached_property
    def _wordnet(self) -> wordnets.WordNet:
        return wordnets.load(wordnets.find(self._wordnet_folder))


def _pooled(captions: Sequence[frozenset[Fact] | str]) -> frozenset[Fact] | str:
    """Return the facts of all references, or why there are none."""
    if not captions:
        return "item has no reference"
    found: set[Fact] = set()
    for number, facts in enumerate(captions, 1):
        if isinstance(facts, str):
            return f"reference {number}: {facts}"
        found |= facts
    return frozenset(found)
