"""SPICE of scene graphs that FACTUAL's parser, or another, makes: without Java."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, get_args

from ...errors import require_all
from ..contract import Context
from ..java.jars import find_jar
from ..meteor.jar import JAR
from ..meteor.resources import SynonymSets, synonyms_of
from .facts import Fact, matches, matches_of_merged, merged, tuples
from .graphs import GraphMetric

FINGERPRINT = {"synonyms": f"WordNet of {JAR}"}

_HOLDS = "ful"


def check() -> None:
    """Raise if the jar is missing.

    Raises:
        MetricError: The hint says how to get it.
    """
    find_jar(JAR)


@lru_cache(maxsize=200_000)
def synonym_sets(phrase: str) -> frozenset[int]:
    """Return the numbers of the synonym sets of a phrase and of its base forms; upper case counts as lower.

    Base forms are METEOR's, and what "-ful" stands behind ("hand" of "handful").

    Raises:
        MetricError: The jar is missing.
    """
    table = _table()
    word = "_".join(phrase.lower().split())
    found = set(table.of([word])[0].tolist())
    if word.endswith(_HOLDS):
        found |= set(table.of_form(word.removesuffix(_HOLDS)).tolist())
    return frozenset(found)


@cache
def _table() -> SynonymSets:
    with zipfile.ZipFile(find_jar(JAR)) as jar:
        return synonyms_of(jar)


Compare = Literal["tuples", "merged", "graphs"]
_VARIANTS: Mapping[Compare, Sequence[str]] = {"tuples": (), "merged": ("merged",), "graphs": ("set match",)}


class FactualSpice(GraphMetric):
    """F1 of objects, attributes and relations, held against those of all references together.

    Tuples that are equal are matched first, then those of which each word has a synonym set of WordNet in common with
    the other's. Tuples of one side that are synonyms of each other are not merged, as the released ``Evaluator`` has it
    by default; SPICE's jar merges them.

    ``Scores.parts``: ``precision [n]``, ``recall [n]``.

    Args:
        compare: What is compared: ``tuples``; ``merged``, tuples of which those of one side that are synonyms are one
            (``merge_tuples_synonyms`` of the released code, ``synonyms`` or not); ``graphs``, 1 where both sides have
            the same facts, one at least, else 0 (``set_match``).
        synonyms: Whether synonyms match. They are read out of METEOR's jar; Java is not needed.
        parser: ``factual``, ``spacy``, ``grammar`` or ``recorded``, as of ``capture``; this and what follows as of
            :class:`~capbench.metrics.graph_spice.graphs.GraphMetric`.
        parser_model: The parser's checkpoint, pipeline or file.
        parser_revision: Branch, tag or commit of the checkpoint.
        input_limit: How ``factual`` cuts long sentences: ``0.5.0``, or as FactualSceneGraph ``0.7`` does.
        lemmatize: Whether words become lemmas of WordNet's nouns.
        empty: What a graph without any fact is: ``nothing``, or the empty ``phrase``, as released.
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
        compare: Compare = "tuples",
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
        if compare not in get_args(Compare):
            raise ValueError(f"compare is {', '.join(get_args(Compare))}, not {compare}")
        self.synonyms = synonyms
        # Private: the fingerprint has what it stands for.
        self._what = compare
        self.label = self._spelled([*_VARIANTS[compare], *self._others])

    def check(self) -> None:
        """Raise if the parser, WordNet or METEOR's jar is missing."""
        require_all(super().check, *([check] if self._matches_synonyms or self._merges else []))

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what parses and knows lemmas and synonyms."""
        return {
            **super().fingerprint(),
            **({} if self._what == "tuples" else {"compare": self._what}),
            **(FINGERPRINT if self._matches_synonyms else {}),
            **({"merged": FINGERPRINT["synonyms"]} if self._merges else {}),
        }

    @property
    def _merges(self) -> bool:
        return self._what == "merged"

    @property
    def _matches_synonyms(self) -> bool:
        return self.synonyms and self._what != "graphs"

    def _compare(
        self, pairs: Sequence[tuple[frozenset[Fact], frozenset[Fact]]], context: Context
    ) -> list[tuple[float, float, float]]:
        return [self._row(*pair) for pair in pairs]

    def _row(self, candidate: frozenset[Fact], references: frozenset[Fact]) -> tuple[float, float, float]:
        if self._what == "graphs":
            same = float(bool(candidate) and candidate == references)
            return same, same, same
        knows = synonym_sets if self.synonyms else None
        mine, theirs = tuples(candidate), tuples(references)
        if not self._merges:
            return _f1(matches(mine, theirs, knows), len(mine), len(theirs))
        of_mine, of_theirs = (merged(one, synonym_sets) for one in (mine, theirs))
        return _f1(matches_of_merged(of_mine, of_theirs, knows), len(of_mine), len(of_theirs))


def _f1(matched: int, mine: int, theirs: int) -> tuple[float, float, float]:
    """Return F1, precision and recall of so many tuples of either side."""
    precision = matched / mine if mine else 0.0
    recall = matched / theirs if theirs else 0.0
    return 2 * precision * recall / (precision + recall) if matched else 0.0, precision, recall
