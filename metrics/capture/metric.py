"""CAPTURE: F1 of objects, attributes and relations, weighted; or its precision or recall."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from ...errors import MetricError
from ..contract import Context, require_choice
from ..items import Items, Scores
from ..vectors.checkpoints import Checkpoint
from .matching import KINDS, Kind, KindScore, Pairing, Soft, elements, finish, pair, synonym_check
from .parsers import F1, NUMBERS, OF_A_KIND, RELEASED_ENCODER, ParsedMetric, label_of, named_parser, other_encoder
from .phrases import PhraseEncoder
from .scene_graphs import Graph, ParsedCaption, merge

_STOP_WORDS = Path(__file__).parent / "stop_words.json"
# Number of items whose phrase vectors are in memory at once: some 0.2 GB.
_ITEMS_A_PIECE = 1_000


@dataclass(frozen=True)
class Explanation:
    """How a candidate was compared with one reference.

    Attributes:
        candidate: The candidate's graph.
        reference: The reference's graph.
        matched: The matches of each kind.
        value: The metric of the two: CAPTURE, or the number that ``of`` names.
    """

    candidate: Graph
    reference: Graph
    matched: dict[Kind, KindScore]
    value: float


@dataclass(eq=False, repr=False)
class Capture(ParsedMetric):
    """Weighted mean of the F1 of objects, attributes and relations, and of that the mean over the references.

    As released by default. Captions are parsed sentence by sentence, the graphs merged, stop words and objects
    that are no nouns of the caption left out. Elements that are equal are matched first, then synonyms (one word
    inside of the other, or a lemma of WordNet in common; relations in all three places); those left over count
    with the cosine to the most similar one that is left over on the other side. An empty kind counts 0.

    Matching is greedy, and the released code goes through Python sets, whose order depends on PYTHONHASHSEED.
    Here sets are gone through in the order of their letters: one of the orders that the released code may
    meet, so that every value is one that it can give, and always the same one. (The best matching would be
    as definite, but is no outcome of the released code.)

    ``Scores.parts``, each ``[n]`` and a mean over the references: ``object_precision``, ``object_recall``,
    ``object_f1``, the same of ``attribute`` and ``relation``; ``precision`` and ``recall``, weighted as the
    value is; ``sentences_without_graph``, how many sentences of the item's captions the parser gave none for.
    Where it gave none for a whole caption the item has no value; an empty candidate has 0.

    ``of`` makes one of these the value, as a separate metric. Several of them on the same captions parse and match
    once.

    ``label`` names the number, and the parser and the encoder where they are not the released ones.

    Args:
        of: Which number is the value: CAPTURE itself (``f1``), ``precision`` or ``recall``, or those of one kind
            (``object_recall``).
        parser: ``factual``, the released one; ``spacy``, rules over a dependency parse; ``grammar``, rules over
            a closed list of words; ``recorded``, graphs of a file.
        parser_model: The parser's checkpoint (a name on the hub or a folder), pipeline, or file: for ``grammar``
            the words, of the shapes world unless given (or ``captions``); for ``recorded`` the graphs (required).
        parser_revision: Branch, tag or commit of the checkpoint.
        input_limit: How ``factual`` cuts long sentences: as FactualSceneGraph ``0.5.0``, current when CAPTURE
            was published, or ``0.7`` and after, where the longest sentence of a caption loses its last token.
        encoder: The sentence encoder of soft matching: a name on the hub or a folder.
        encoder_revision: Branch, tag or commit of the encoder.
        alpha: Weight of objects.
        beta: Weight of attributes.
        gamma: Weight of relations.
        synonyms: Whether synonyms match (the paper's table 3 leaves other parts out).
        substring: Whether a word inside of another is a synonym; released code only, not in the paper.
        soft: How similarities of unmatched elements count: their ``sum``, or their ``mean`` (the
            paper's equation 5); False for none.
        stop_words: Whether the released 317 stop words are left out.
        repeated_attributes: Whether an attribute of two objects counts twice, as released; the paper's
            appendix B has it once.
        wordnet: Folder of WordNet's database files; by default $WNSEARCHDIR, NLTK's data or Debian's. Not
            needed where synonyms do not match and graphs come finished (``grammar``, most of ``recorded``).
        device: Where parser and encoder run; by default the GPU if there is one.

    Raises:
        ValueError: A setting is out of range.
    """

    label = "CAPTURE"
    source = "Dong et al. 2024 (arXiv:2405.19092), section 3, appendix B; capture_metric 0.1.13 capture.py"

    of: str = F1
    encoder: str = RELEASED_ENCODER
    encoder_revision: str | None = None
    alpha: float = 5.0
    beta: float = 5.0
    gamma: float = 2.0
    synonyms: bool = True
    substring: bool = True
    soft: Literal["sum", "mean", False] = "sum"
    stop_words: bool = True
    repeated_attributes: bool = True

    def __post_init__(self) -> None:
        require_choice("of", self.of, NUMBERS)
        require_choice("soft", self.soft, ("sum", "mean", False))
        if min(self.alpha, self.beta, self.gamma) < 0 or self.alpha + self.beta + self.gamma <= 0:
            raise ValueError("alpha, beta and gamma must not be negative, nor all 0")
        super().__post_init__()
        named = named_parser(self.parser, self.parser_model)
        if self.soft:
            checkpoint = Checkpoint("CAPTURE's text encoder", "encoder", self.encoder, self.encoder_revision)
            self._encoder = PhraseEncoder(checkpoint, self.device)
            named += other_encoder(self.encoder, RELEASED_ENCODER)
        self.label = label_of(self.of, named)

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and what parses, what knows synonyms and what encodes."""
        # The fingerprint of CAPTURE itself has no key for it.
        return self._producer() | ({} if self.of == F1 else {"of": self.of})

    def _producer(self) -> dict[str, Any]:
        """Return what decides all of the numbers."""
        return {
            **{name: float(getattr(self, name)) for name in ("alpha", "beta", "gamma")},
            **{name: getattr(self, name) for name in ("synonyms", "substring", "repeated_attributes")},
            "soft": self._soft,
            "stop_words": hashlib.sha256(json.dumps(sorted(self._stop_list)).encode()).hexdigest(),
            **super().fingerprint(),
        }

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: WordNet, the parser or the encoder cannot be used.
        """
        key = f"capture {json.dumps(self._producer(), sort_keys=True)}"
        scores = items.memo.get(key)
        if scores is None:
            scores = items.memo[key] = self._score(items, context)
        return scores if self.of == F1 else replace(scores, values=scores.parts[self.of])

    def _score(self, items: Items, context: Context) -> Scores:
        parsed = self._parse(items.candidates, [text for texts in items.references for text in texts], context)
        graphs = self._graphs(parsed)
        failures = {
            number: fault
            for number in range(len(items))
            if (fault := _fault(items.candidates[number], items.references[number], parsed))
        }
        table = np.full((len(items), len(OF_A_KIND)), np.nan)
        usable = [number for number in range(len(items)) if number not in failures]
        for start in range(0, len(usable), _ITEMS_A_PIECE):
            piece = usable[start : start + _ITEMS_A_PIECE]
            pairs = [(items.candidates[n], reference) for n in piece for reference in items.references[n]]
            rows = np.array([_row(explanation) for explanation in self._match(pairs, graphs, context)])
            sizes = [len(items.references[n]) for n in piece]
            starts = np.cumsum([0, *sizes[:-1]])
            table[piece] = np.add.reduceat(rows, starts, axis=0) / np.array(sizes)[:, None]
        parts = {name: table[:, column] for column, name in enumerate(OF_A_KIND)}
        weights = np.array([*self.weights.values()]) / sum(self.weights.values())
        for name in ("precision", "recall"):
            parts[name] = _weighted([parts[f"{kind}_{name}"] for kind in KINDS], weights)
        texts = ((candidate, *refs) for candidate, refs in zip(items.candidates, items.references, strict=True))
        graphless = ([getattr(parsed[text], "without_graph", 0) for text in captions] for captions in texts)
        parts["sentences_without_graph"] = np.array(list(map(sum, graphless)), dtype=np.float64)
        values = _weighted([parts[f"{kind}_f1"] for kind in KINDS], weights)
        return Scores(values=values, parts=parts, failures=failures)

    def explain(self, candidate: str, references: Sequence[str], context: Context | None = None) -> list[Explanation]:
        """Return how a candidate compares with each reference; the mean of the values is its score.

        Args:
            candidate: The caption.
            references: Captions to compare it with.
            context: Cache and progress.

        Raises:
            MetricError: A caption cannot be parsed, or something is missing.
        """
        context = context or Context()
        parsed = self._parse([candidate], references, context)
        if fault := _fault(candidate, references, parsed):
            raise MetricError(f"CAPTURE cannot explain this: {fault}.")
        pairs = [(candidate, reference) for reference in references]
        return list(self._match(pairs, self._graphs(parsed), context))

    def _parse(
        self, candidates: Sequence[str], references: Sequence[str], context: Context
    ) -> dict[str, ParsedCaption | str]:
        # As released, an empty caption has no element of any kind.
        blank = dict.fromkeys((text for text in candidates if not text.strip()), ParsedCaption((Graph(),), nouns=None))
        texts = [text for text in dict.fromkeys((*candidates, *references)) if text not in blank]
        return {**self._parser.parse(texts, context), **blank}

    def _graphs(self, parsed: dict[str, ParsedCaption | str]) -> dict[str, Graph]:
        return {
            caption: parse.sentences[0]
            if parse.nouns is None
            else merge(parse.sentences, parse.nouns, self._stop_list, self._wordnet)
            for caption, parse in parsed.items()
            if isinstance(parse, ParsedCaption)
        }

    def _match(
        self, pairs: Sequence[tuple[str, str]], graphs: dict[str, Graph], context: Context
    ) -> Iterator[Explanation]:
        """Yield how each candidate and reference are matched."""
        synonyms = self._synonyms if self.synonyms else None

        def matched_of(kind: Kind, both: tuple[str, str]) -> Pairing:
            candidates, references = (elements(graphs[text], kind, self.repeated_attributes) for text in both)
            return pair(candidates, references, synonyms)

        pairings: list[dict[Kind, Pairing]] = [{kind: matched_of(kind, both) for kind in KINDS} for both in pairs]
        left_over = (phrase for by_kind in pairings for part in by_kind.values() for phrase in _left_over(part))
        vectors = self._vectors(left_over, context)
        for (candidate, reference), by_kind in zip(pairs, pairings, strict=True):
            matched: dict[Kind, KindScore] = {kind: finish(part, vectors, self._soft) for kind, part in by_kind.items()}
            yield Explanation(graphs[candidate], graphs[reference], matched, self._number(matched))

    def _number(self, matched: Mapping[Kind, KindScore]) -> float:
        kind, _, name = self.of.rpartition("_")
        if kind:
            return getattr(matched[cast("Kind", kind)], name)
        total = sum(weight * getattr(matched[kind], name) for kind, weight in self.weights.items())
        return total / sum(self.weights.values())

    @property
    def weights(self) -> dict[Kind, float]:
        """The weight of each kind in the value, as set; a number of one kind counts that kind alone."""
        return dict(zip(KINDS, map(float, (self.alpha, self.beta, self.gamma)), strict=True))

    @property
    def _soft(self) -> Soft:
        return self.soft or "off"

    @property
    def _asks_wordnet(self) -> bool:
        return self.synonyms or not self._parser.finished

    @cached_property
    def _synonyms(self) -> Callable[[str, str], bool]:
        return synonym_check(self._wordnet, self.substring)

    @cached_property
    def _stop_list(self) -> frozenset[str]:
        return frozenset(json.loads(_STOP_WORDS.read_text(encoding="utf-8")) if self.stop_words else ())


def _row(explanation: Explanation) -> list[float]:
    return [getattr(explanation.matched[kind], name) for kind in KINDS for name in ("precision", "recall", "f1")]


def _left_over(pairing: Pairing) -> Iterator[str]:
    """Yield the phrases whose vectors soft matching needs."""
    candidates, references = pairing.left_over()
    if candidates and references:
        yield from (pairing.candidate[number].phrase for number in candidates)
        yield from (pairing.reference[number].phrase for number in references)


def _fault(candidate: str, references: Sequence[str], parsed: dict[str, ParsedCaption | str]) -> str | None:
    """Return why an item cannot be scored, or None if it can."""
    if not references:
        return "item has no reference"
    sides = {"candidate": candidate} | {f"reference {number}": text for number, text in enumerate(references, 1)}
    reasons = (f"{side}: {reason}" for side, text in sides.items() if isinstance(reason := parsed[text], str))
    return next(reasons, None)


def _weighted(columns: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return the weighted sum of columns: a matrix product's bits depend on the other rows."""
    return np.sum([column * weight for column, weight in zip(columns, weights.tolist(), strict=True)], axis=0)
