"""AMBER: what a description names of the things in an image, and of things that are not there, without a judge."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..downloads import Resource
from ..errors import MetricError, require_all
from .capture import nltk_text, wordnet
from .contract import PARSEABLE, Context, ShareMetric, labelled
from .items import Items, Scores
from .words.spacy_pipelines import load_pipeline, pipeline_identity

RELEASED_VECTORS = "en_core_web_lg"
_PARTS = ("nouns", "hallucinated", "truth", "covered", "foreseen", "cognitive", "captions", "hallucinating")


class _Amber(ShareMetric):
    """The count that the four metrics share.

    The references are two lists of words with commas: what annotators saw in the image (the truth), and what they
    foresaw that models hallucinate. A caption's nouns are those of NLTK's tagger, as WordNet lemmatises them, that
    occur among the associations. In their order:

    1. A noun among the safe words counts as a noun, and nothing more.
    2. One that is a word of the truth, or associated with one, covers the first such word.
    3. One that is a foreseen word, or associated with one, is cognitive for the first such word; so it is for the first
       whose vector is similar, too.
    4. It covers the first word of the truth whose vector, or whose associated word's, is similar; if there is none, it
       is hallucinated, foreseen or not.

    Associated words come before the words themselves. An empty caption names nothing: CHAIR, Hal and Cog are then best.

    ``Scores.parts``: counts ``[n]``: ``nouns``, and those ``hallucinated``; words of the ``truth``, and those
    ``covered``; ``foreseen`` words, and those that are ``cognitive``; ``captions`` (1), and whether it is
    ``hallucinating``.

    Args:
        associations: The file of associations, an object of lists of words (``relation.json``); required.
        safe_words: The file of safe words, one a line (``safe_words.txt``); required.
        vectors: An English pipeline of spaCy with word vectors: a package's name or a folder.
        similarity: Cosine above which two words are similar.
    """

    splits_words = True
    longest_caption = PARSEABLE
    needs = frozenset({"references"})
    data_files = frozenset({"associations", "safe_words"})
    set_by_data = data_files
    source = "Wang et al. 2023 (AMBER, arXiv:2311.07397); inference.py of github.com/junyangwang0410/AMBER (534babf)"

    def __init__(
        self, associations: str = "", safe_words: str = "", vectors: str = RELEASED_VECTORS, similarity: float = 0.8
    ) -> None:
        # Private: the files' content is in the fingerprint, not their place.
        self._files = associations, safe_words
        self._vectors = vectors
        self.similarity = similarity
        self.label = labelled(self, [Path(vectors).name] * (vectors != RELEASED_VECTORS))

    def check(self) -> None:
        """Raise if a file, a model of NLTK, WordNet or the word vectors are missing."""
        require_all(lambda: self._associations, nltk_text.check, wordnet.find, lambda: self._pipeline)

    def resources(self) -> Sequence[Resource]:
        """Return what ``bench fetch`` fetches for it."""
        return [nltk_text.resource(), wordnet.resource()]

    def fingerprint(self) -> dict[str, Any]:
        """Return the settings, and which files, models and vectors it reads, by their content."""
        read = {name: hashlib.sha256(_content(path)).hexdigest() for name, path in zip(
            ("associations", "safe_words"), self._files, strict=True
        )}  # fmt: skip
        models = {"nltk": nltk_text.fingerprint(), "wordnet": wordnet.load(wordnet.find()).digest}
        return {**self._settings(), **read, **models, "vectors": pipeline_identity(self._pipeline)}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``.

        Raises:
            MetricError: A file or model is missing.
        """
        key = f"amber {json.dumps(self.fingerprint() | {'metric': ''}, sort_keys=True)}"
        counted = items.memo.get(key)
        if counted is None:
            counted = items.memo[key] = self._count(items, context)
        parts, failures = counted
        return self._shares(parts, failures)

    def _count(self, items: Items, context: Context) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        texts, lemmas = nltk_text.read(items.candidates, context), wordnet.load(wordnet.find())
        counts, failures = np.zeros((len(items), len(_PARTS))), dict[int, str]()
        for item, (caption, references) in enumerate(zip(items.candidates, items.references, strict=True)):
            try:
                truth, foreseen = (self._words_of(text) for text in references)
            except ValueError as error:
                failures[item] = str(error)
                continue
            nouns = [noun for word in texts[caption].nouns if (noun := lemmas.lemma(word, "noun")) in self._places]
            hallucinated, covered, cognitive = self._sorted(nouns, truth, foreseen)
            sizes = (1 + max(place for _, place in words) for words in (truth, foreseen))
            pairs = zip(sizes, (covered, cognitive), strict=True)
            of_lists = [count for size, places in pairs for count in (size, len(places))]
            counts[item] = len(nouns), hallucinated, *of_lists, 1, hallucinated > 0
        return dict(zip(_PARTS, counts.T.copy(), strict=True)), failures

    def _words_of(self, text: str) -> list[tuple[str, int]]:
        """Return the words associated with those of a list, and those themselves, each with its place in the list."""
        named = [word.strip() for word in text.split(",")]
        if unknown := [word for word in named if word not in self._associations]:
            raise ValueError(f"its word {unknown[0]!r:.60} is not among the associations")
        others = [(other, place) for place, word in enumerate(named) for other in self._associations[word]]
        return others + [(word, place) for place, word in enumerate(named)]

    def _sorted(
        self, nouns: Sequence[str], truth: Sequence[tuple[str, int]], foreseen: Sequence[tuple[str, int]]
    ) -> tuple[int, set[int], set[int]]:
        """Return how many nouns are hallucinated, the covered places of the truth, and the cognitive ones."""
        hallucinated, covered, cognitive = 0, set[int](), set[int]()
        # The first of equal words counts.
        of_truth, of_foreseen = dict(reversed(truth)), dict(reversed(foreseen))
        for noun in nouns:
            if noun in self._safe:
                continue
            if noun in of_truth:
                covered.add(of_truth[noun])
                continue
            if noun in of_foreseen:
                cognitive.add(of_foreseen[noun])
            cognitive.update(self._similar(noun, foreseen))
            similar = self._similar(noun, truth)
            covered.update(similar)
            hallucinated += not similar
        return hallucinated, covered, cognitive

    def _similar(self, noun: str, words: Sequence[tuple[str, int]]) -> list[int]:
        """Return the place of the first similar word; none where there is none."""
        like = self._alike[self._places[noun]]
        return next(([place] for word, place in words if like[self._places[word]]), [])

    @cached_property
    def _places(self) -> dict[str, int]:
        """The words of the associations, numbered."""
        words = (word for name, others in self._associations.items() for word in (name, *others))
        return {word: place for place, word in enumerate(dict.fromkeys(words))}

    @cached_property
    def _alike(self) -> np.ndarray:
        """``[words, words]`` whether two words are similar; one without a vector is so to itself alone."""
        vectors = np.stack([self._pipeline.make_doc(word).vector for word in self._places])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        units = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
        return (units @ units.T > self.similarity) | np.eye(len(units), dtype=bool)

    @cached_property
    def _associations(self) -> dict[str, list[str]]:
        try:
            read: Any = json.loads(_content(self._files[0]))
        except ValueError as error:
            raise MetricError(f"associations {self._files[0]}: not JSON: {error}") from error
        if not isinstance(read, dict) or not all(isinstance(words, list) for words in read.values()):
            raise MetricError(f"associations {self._files[0]}: not an object of lists", "It is AMBER's relation.json.")
        return read

    @cached_property
    def _safe(self) -> frozenset[str]:
        return frozenset(_content(self._files[1]).decode("utf-8", "replace").split("\n"))

    @property
    def _pipeline(self) -> Any:
        pipeline = load_pipeline(self._vectors, "AMBER", "'vectors'", components=())
        if not len(pipeline.vocab.vectors):
            raise MetricError(
                f"spaCy's pipeline '{self._vectors}' has no word vectors.",
                f"'python -m spacy download {RELEASED_VECTORS}' fetches that of the released code.",
            )
        return pipeline


class AmberChair(_Amber):
    """The share of nouns that are hallucinated, of all captions together."""

    label = "AMBER CHAIR"
    higher_is_better = False
    undefined = "no caption has a noun that occurs among the associations"
    _share = "hallucinated", "nouns"


class AmberCover(_Amber):
    """The share of the words of the truth that captions cover."""

    label = "AMBER Cover"
    _share = "covered", "truth"


class AmberHal(_Amber):
    """The share of captions with a hallucinated noun."""

    label = "AMBER Hal"
    higher_is_better = False
    _share = "hallucinating", "captions"


class AmberCog(_Amber):
    """The share of the foreseen hallucinations that captions have."""

    label = "AMBER Cog"
    higher_is_better = False
    _share = "cognitive", "foreseen"


def _content(path: str) -> bytes:
    fetch = "'bench fetch amber_generative' fetches AMBER's relation.json and safe_words.txt."
    if not path:
        raise MetricError("AMBER needs its files, as the settings 'associations' and 'safe_words'.", fetch)
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise MetricError(f"AMBER's file {path}: {error.strerror or error}", fetch) from error
