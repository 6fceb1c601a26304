"""Metrics over the facts of scene graphs that CAPTURE's parsers make."""

from __future__ import annotations

import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import starmap
from typing import Any, Literal, get_args

import numpy as np

from ..errors import require_all
from .capture.parsers import ParsedMetric, named_parser, other_encoder
from .capture.phrases import PhraseEncoder
from .capture.scene_graphs import Graph, read_items
from .contract import Context, labelled, require_choice
from .items import Items, Scores
from .java import find_jar
from .meteor.resources import JAR, SynonymSets, synonyms_of
from .vectors.checkpoints import Checkpoint

# Number of items whose phrase vectors are in memory at once.
_ITEMS_A_PIECE = 1_000
_NOTHING: Fact = ("",)


@dataclass(kw_only=True, eq=False, repr=False)
class GraphMetric(ParsedMetric):
    """The base of both metrics: facts of candidates, compared with those of all references together.

    Captions are parsed as CAPTURE parses them, sentence by sentence, by the same parsers and with the same parses:
    whichever of the metrics comes first, the others find them in the store. Nothing is left out of the graphs,
    and counts stay in. Where the parser gave no graph for a whole caption, the item has no value.

    Args:
        lemmatize: Whether words of the graphs become lemmas of WordNet's nouns (``lemmatize=True`` of the released
            ``Evaluator``, as its own examples have it).
        empty: What a graph without any fact is. ``nothing``: a candidate's scores 0, a reference's adds nothing;
            ``phrase``: the empty text is compared, as released.

    Raises:
        ValueError: A setting is out of range.
    """

    lemmatize: bool = True
    empty: Literal["nothing", "phrase"] = "nothing"

    def __post_init__(self) -> None:
        require_choice("empty", self.empty, ("nothing", "phrase"))
        super().__post_init__()

    @property
    def _asks_wordnet(self) -> bool:
        return self.lemmatize

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what parses, knows lemmas and encodes."""
        return {**super().fingerprint(), "lemmatize": self.lemmatize, "empty": self.empty}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: The parser, or a resource of the comparison, cannot be used.
        """
        pairs, failures = self._sides(items, context)
        columns = {name: np.full(len(items), np.nan) for name in ("value", "precision", "recall")}
        usable = list(pairs)
        for start in range(0, len(usable), _ITEMS_A_PIECE):
            piece = usable[start : start + _ITEMS_A_PIECE]
            rows = self._compare([pairs[item] for item in piece], context)
            for column, numbers in zip(columns.values(), zip(*rows, strict=True), strict=True):
                column[piece] = numbers
        values = columns.pop("value")
        return Scores(values=values, parts=columns, failures=failures)

    def _sides(self, items: Items, context: Context) -> tuple[dict[int, _Sides], dict[int, str]]:
        """Return the facts of items, and why others have none, by index."""
        reference_sets, set_of_item = items.reference_sets
        of_text, of_set = read_items(self._parser, items.candidates, reference_sets, self._facts, context)
        failures = {item: "item has no reference" for item, texts in enumerate(items.references) if not texts}
        pairs: dict[int, _Sides] = {}
        for item, its_set in enumerate(set_of_item.tolist()):
            candidate, references = of_text[items.candidates[item]], of_set[its_set]
            if isinstance(candidate, str):
                failures[item] = f"candidate: {candidate}"
            elif isinstance(references, str):
                failures[item] = references
            elif item not in failures:
                pairs[item] = frozenset(candidate), frozenset(references)
        return pairs, failures

    @abstractmethod
    def _compare(self, pairs: Sequence[_Sides], context: Context) -> list[_Row]:
        """Return value, precision and recall of each candidate's facts against its references'."""

    def _facts(self, graphs: Sequence[Graph]) -> list[Fact]:
        """Return the facts of a caption, none for an empty one."""
        lemmas = dict.fromkeys(self._lemmas(fact) for graph in graphs for fact in graph.facts)
        if self.empty == "phrase":
            return list(lemmas) or [_NOTHING]
        # A parser's "( )" is an empty graph.
        return [fact for fact in lemmas if fact != _NOTHING]

    def _lemmas(self, fact: Fact) -> Fact:
        if not self.lemmatize:
            return fact
        return tuple(
            " ".join(word if word == "is" else self._wordnet.lemma(word, "noun") for word in part.split(" "))
            for part in fact
        )


ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
"""The sentence encoder of the released examples."""


@dataclass(eq=False, repr=False)
class SoftSpice(GraphMetric):
    """The mean over the candidate's phrases of the cosine with the most similar phrase of all references.

    Phrases are the objects, and a phrase for each attribute ("red car") and relation ("car on road"). As released it
    is a precision: missing facts of the references are not penalised, except with ``both_ways``.

    ``Scores.parts``: ``precision [n]``, which is the value, and ``recall [n]``, the same of the references' phrases.

    Args:
        both_ways: Whether the value is the harmonic mean of precision and recall, each moved from -1..1 to 0..1
            (``bidirectional=True`` of the released ``Evaluator``).
        encoder: The sentence encoder: a name on the hub or a folder.
        encoder_revision: Branch, tag or commit of the encoder.
        parser: ``factual``, ``spacy``, ``grammar`` or ``recorded``, as of ``capture``; this and what follows as of
            :class:`~capbench.metrics.graph_spice.GraphMetric`.
        parser_model: The parser's checkpoint, pipeline or file.
        parser_revision: Branch, tag or commit of the checkpoint.
        input_limit: How ``factual`` cuts long sentences: ``0.5.0``, or as FactualSceneGraph ``0.7`` does.
        lemmatize: Whether words become lemmas of WordNet's nouns.
        empty: What a graph without any fact is: ``nothing``, or the empty ``phrase``, as released.
        wordnet: Folder of WordNet's database files.
        device: Where models run.

    Raises:
        ValueError: A setting is out of range.
    """

    label = "soft-SPICE"
    range = (-1.0, 1.0)
    source = "Li et al., Findings of ACL 2023; FactualSceneGraph 0.7.3 evaluation/soft_spice_evaluation.py"

    both_ways: bool = False
    encoder: str = ENCODER
    encoder_revision: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checkpoint = Checkpoint("soft-SPICE's text encoder", "encoder", self.encoder, self.encoder_revision)
        self._encoder = PhraseEncoder(checkpoint, self.device)
        named = [*named_parser(self.parser, self.parser_model), *other_encoder(self.encoder, ENCODER)]
        self.label = labelled(self, [*["both ways"] * self.both_ways, *named])

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what parses, knows lemmas and encodes."""
        return {**super().fingerprint(), "both_ways": self.both_ways}

    def explain(self, items: Items, context: Context) -> list[list[NearestPhrase]]:
        """Return the phrases of the first item's candidate and of its references, each with the other side's nearest.

        Args:
            items: The caption, which has a score.
            context: Cache and progress.
        """
        ((left, right, similarity),) = self._similarities([self._sides(items, context)[0][0]], context)
        # Without a phrase on one side there are no cosines.
        return [
            [(text, others[row.argmax()], float(row.max())) for text, row in zip(side, cosines, strict=False)]
            for side, others, cosines in ((left, right, similarity), (right, left, similarity.T))
        ]

    def _compare(self, pairs: Sequence[_Sides], context: Context) -> list[_Row]:
        rows: list[_Row] = []
        for _, _, similarity in self._similarities(pairs, context):
            precision, recall = (
                float(similarity.max(axis=axis).mean(dtype=np.float64)) if similarity.size else 0.0 for axis in (1, 0)
            )
            rows.append((self._value(precision, recall) if similarity.size else 0.0, precision, recall))
        return rows

    def _similarities(self, pairs: Sequence[_Sides], context: Context) -> Iterator[_Similarity]:
        """Yield the phrases of both sides of each pair with their cosines, empty where a side has none."""
        of_pairs = [(phrases(candidate), phrases(references)) for candidate, references in pairs]
        vectors = self._vectors((phrase for pair in of_pairs for side in pair for phrase in side), context)
        for pair in of_pairs:
            left, right = (np.array([vectors[text] for text in side]) for side in pair)
            yield *pair, left @ right.T if left.size and right.size else np.zeros((0, 0))

    def _value(self, precision: float, recall: float) -> float:
        if not self.both_ways:
            return precision
        moved, other = (precision + 1) / 2, (recall + 1) / 2
        return 2 * moved * other / (moved + other) if moved + other > 0 else 0.0


FINGERPRINT = {"synonyms": f"WordNet of {JAR}"}

_HOLDS = "ful"


@lru_cache(maxsize=200_000)
def synonym_sets(phrase: str) -> frozenset[int]:
    """Return the numbers of the synonym sets of a phrase and of its base forms; upper case counts as lower.

    Base forms are METEOR's, and what "-ful" stands behind ("hand" of "handful").

    Raises:
        MetricError: The jar is missing.
    """
    table = _table()
    word = "_".join(phrase.lower().split())
    synsets = set(table.of([word])[0].tolist())
    if word.endswith(_HOLDS):
        synsets |= set(table.of_form(word.removesuffix(_HOLDS)).tolist())
    return frozenset(synsets)


@cache
def _table() -> SynonymSets:
    with zipfile.ZipFile(find_jar(JAR)) as jar:
        return synonyms_of(jar)


Compare = Literal["tuples", "merged", "graphs"]
_VARIANTS: Mapping[Compare, Sequence[str]] = {"tuples": (), "merged": ("merged",), "graphs": ("set match",)}


@dataclass(eq=False, repr=False)
class FactualSpice(GraphMetric):
    """F1 of objects, attributes and relations, compared with those of all references together.

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
            :class:`~capbench.metrics.graph_spice.GraphMetric`.
        parser_model: The parser's checkpoint, pipeline or file.
        parser_revision: Branch, tag or commit of the checkpoint.
        input_limit: How ``factual`` cuts long sentences: ``0.5.0``, or as FactualSceneGraph ``0.7`` does.
        lemmatize: Whether words become lemmas of WordNet's nouns.
        empty: What a graph without any fact is: ``nothing``, or the empty ``phrase``, as released.
        wordnet: Folder of WordNet's database files.
        device: Where models run.

    Raises:
        ValueError: A setting is out of range.
    """

    label = "SPICE (FACTUAL)"
    source = "Li et al., Findings of ACL 2023; FactualSceneGraph 0.7.3 evaluation/spice_evaluation.py"

    compare: Compare = "tuples"
    synonyms: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("compare", self.compare, get_args(Compare))
        self._merges = self.compare == "merged"
        self._matches_synonyms = self.synonyms and self.compare != "graphs"
        self.label = labelled(self, [*_VARIANTS[self.compare], *named_parser(self.parser, self.parser_model)])

    def check(self) -> None:
        """Raise if the parser, WordNet or METEOR's jar is missing."""
        require_all(super().check, *([lambda: find_jar(JAR)] if self._matches_synonyms or self._merges else []))

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what parses and knows lemmas and synonyms."""
        return {
            **super().fingerprint(),
            "synonyms": self.synonyms,
            **({} if self.compare == "tuples" else {"compare": self.compare}),
            **(FINGERPRINT if self._matches_synonyms else {}),
            **({"merged": FINGERPRINT["synonyms"]} if self._merges else {}),
        }

    def _compare(self, pairs: Sequence[_Sides], context: Context) -> list[_Row]:
        if self.compare == "graphs":
            return [(float(bool(candidate) and candidate == references),) * 3 for candidate, references in pairs]
        return [_f1(len(matched), len(left), len(right)) for left, right, matched in starmap(self._matches, pairs)]

    def explain(self, items: Items, context: Context) -> list[TupleMatch]:
        """Return the tuples of the first item: matched ones, then those of the candidate and of the references alone.

        Args:
            items: The caption, which has a score.
            context: Cache and progress.
        """
        left, right, matched = self._matches(*self._sides(items, context)[0][0])
        taken = {place for place, _ in matched.values()}
        return [
            *((how, left[number], right[place]) for number, (place, how) in sorted(matched.items())),
            *(("unmatched", fact, None) for number, fact in enumerate(left) if number not in matched),
            *(("missing", None, fact) for number, fact in enumerate(right) if number not in taken),
        ]

    def _matches(self, candidate: Set[Fact], references: Set[Fact]) -> tuple[list[Merged], list[Merged], Matches]:
        """Return the compared tuples of both sides, and their matches."""
        read = sorted if self.compare == "graphs" else tuples
        left, right = (
            merged(read(facts), synonym_sets) if self._merges else [[{word} for word in row] for row in read(facts)]
            for facts in (candidate, references)
        )
        return left, right, matches(left, right, synonym_sets if self._matches_synonyms else None)


def _f1(matched: int, candidates: int, references: int) -> tuple[float, float, float]:
    """Return F1, precision and recall from the numbers of tuples: matched, the candidate's, the references'."""
    precision = matched / candidates if candidates else 0.0
    recall = matched / references if references else 0.0
    return 2 * precision * recall / (precision + recall) if matched else 0.0, precision, recall


Words = set[str]
"""Synonyms."""
Merged = list[Words]
"""A tuple, each of its words with its synonyms."""
Synonyms = Callable[[str], frozenset[int]]
"""Returns the synonym sets of a word or phrase."""


def merged(facts: Sequence[Fact], synonyms: Synonyms) -> list[Merged]:
    """Return tuples without duplicates, synonyms included.

    Words of no synonym set are merged with nothing, themselves included, so that a tuple with such a word stays.

    Args:
        facts: The tuples of a graph, in the order of their letters.
        synonyms: Returns the synonym sets of a word or phrase.
    """
    of_facts = [[{word} for word in fact] for fact in facts]
    of_size = {size: [words for words in of_facts if len(words) == size] for size in (1, 2, 3)}
    objects = _grouped([words[0] for words in of_size[1]], synonyms)
    _widen([words[0] for words in of_size[1]], objects, synonyms)
    for place in (0, 2):
        named = [words[place] for words in of_size[3]]
        objects = _grouped(named, synonyms, objects)
        _widen(named, objects, synonyms)
    for size in (2, 3):
        said = [words[1] for words in of_size[size]]
        _widen(said, _grouped(said, synonyms), synonyms)
    groups, sets_of = list[Merged](), partial(_sets, synonyms=synonyms)
    for entry in of_facts:
        alike = next((number for number, other in enumerate(groups) if _match(entry, other, sets_of)), None)
        if alike is None:
            groups.append(entry)
        else:
            groups[alike] = [a | b for a, b in zip(entry, groups[alike], strict=True)]
    return groups


def matches(candidate: Sequence[Merged], reference: Sequence[Merged], synonyms: Synonyms | None) -> Matches:
    """Return which tuples match one to one: those with all words in common first, then those of synonyms.

    Greedy in the given order: each of the candidate takes the first of the reference that is free.

    Args:
        candidate: The candidate's tuples.
        reference: The references' tuples.
        synonyms: As of :func:`merged`; None where synonyms do not match.
    """
    matched: Matches = {}
    free = dict(enumerate(reference))
    comparing: dict[str, Callable[[Words], Set[Any]]] = {"equal": frozenset}
    if synonyms is not None:
        comparing["synonym"] = partial(_sets, synonyms=synonyms)
    for how, sets_of in comparing.items():
        for number, fact in enumerate(candidate):
            places = (place for place, other in free.items() if _match(fact, other, sets_of))
            if number not in matched and (place := next(places, None)) is not None:
                matched[number] = place, how
                del free[place]
    return matched


def _grouped(named: Iterable[Words], synonyms: Synonyms, known: list[Words] | None = None) -> list[Words]:
    """Return the groups of words that share a synonym set; where groups are known, these, with more words each."""
    groups = [] if known is None else list(known)
    for words in named:
        synsets = _sets(words, synonyms)
        alike = next((number for number, group in enumerate(groups) if synsets & _sets(group, synonyms)), None)
        if alike is not None:
            groups[alike] = groups[alike] | words
        elif known is None:
            groups.append(words)
    return groups


def _widen(named: Iterable[Words], groups: Sequence[Words], synonyms: Synonyms) -> None:
    """Add to words all those of the first group that they share a synonym set with."""
    for words in named:
        synsets = _sets(words, synonyms)
        words |= next((group for group in groups if synsets & _sets(group, synonyms)), set())


def _sets(words: Iterable[str], synonyms: Synonyms) -> frozenset[int]:
    return frozenset().union(*map(synonyms, words))


def _match(fact: Merged, other: Merged, sets_of: Callable[[Words], Set[Any]]) -> bool:
    """Return whether all words of two tuples have something in common: the words themselves, or synonym sets."""
    return len(fact) == len(other) and all(sets_of(a) & sets_of(b) for a, b in zip(fact, other, strict=True))


Fact = tuple[str, ...]
"""Its parts: an object; object and attribute; subject, relation (of one part or more) and object."""
_Sides = tuple[frozenset[Fact], frozenset[Fact]]
"""Facts of a candidate, and of all its references."""
Matches = dict[int, tuple[int, str]]
"""Index of a tuple of the candidate to that of the reference, and ``equal`` or ``synonym``."""
_Similarity = tuple[list[str], list[str], np.ndarray]
"""Phrases of both sides, and their cosines, empty where a side has none."""
NearestPhrase = tuple[str, str, float]
"""A phrase, the most similar one of the other side, and their cosine."""
TupleMatch = tuple[str, Merged | None, Merged | None]
"""How a tuple matches (``equal``, ``synonym``, ``unmatched``, ``missing``), the candidate's and the references'."""
_Row = tuple[float, float, float]
"""Value, precision and recall."""

_IS = "is"


def tuples(facts: Iterable[Fact]) -> list[Fact]:
    """Return the tuples of objects, attributes and relations, in the order of their letters.

    Of two with the same letters ("traffic light" as an object, and "light" of "traffic") one counts.
    """
    by_letters: dict[str, Fact] = {}
    for fact in sorted(facts):
        first, last = fact[0], fact[-1]
        if len(fact) == 1:
            parts = [fact]
        elif len(fact) == 2 or (len(fact) == 3 and fact[1] == _IS):
            parts = [(first, last), (first,)]
        else:
            parts = [(first, " ".join(fact[1:-1]), last), (first,), (last,)]
        for part in parts:
            by_letters.setdefault(" ".join(part), part)
    return [by_letters[letters] for letters in sorted(by_letters)]


def phrases(facts: Iterable[Fact]) -> list[str]:
    """Return the phrases whose meanings are compared, in the order of their letters."""
    texts: set[str] = set()
    for fact in facts:
        texts.add(fact[0])
        if len(fact) == 1:
            continue
        if len(fact) == 2:
            texts.add(f"{fact[1]} {fact[0]}")
        elif fact[1] == _IS:
            texts.add(f"{fact[2]} {fact[0]}")
        else:
            texts |= {" ".join(fact), fact[-1]}
    return sorted(texts)
