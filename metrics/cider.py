"""CIDEr: agreement with the references in tf-idf weighted n-grams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import DataError, MetricError
from .contract import Context, CorpusMetric, State, check_state
from .items import Items, Scores
from .words import corpus_frequencies, ptb
from .words.corpus_frequencies import HashedNGrams, hash_ngrams, hashed_ngrams_of
from .words.document_frequencies import file_digest, read_frequencies
from .words.ngrams import MAX_ORDER, Chunk, Counts, NGrams, spans

SIGMA = 6.0
SCALE = 10.0

_ONE_IMAGE = (
    "CIDEr weighs an n-gram by how few images have it in their references; with the references "
    "of a single image every weight is 0, and so is every score."
)
_COUNTED = frozenset({"ngrams", "frequencies", "rows", "sets"})
_JOINED = _COUNTED - {"sets"}


class Cider(CorpusMetric):
    """Mean cosine of tf-idf vectors of 1- to 4-grams, mean over references, times 10.

    An n-gram's document frequency is the number of data set rows whose references hold it, so an
    item's value depends on the other items and their weights: scores of different sets do not compare.

    With ``document_frequencies`` they are those of other captions: how many of their images have the
    n-gram in a caption, out of all images there. Then an item's value depends on the item alone.

    The state is the document frequencies (``corpus_frequencies``), the same for both variants; what is kept are the
    n-grams.

    Args:
        variant: ``"d"`` is CIDEr-D, what COCO and papers call CIDEr: counts clipped to the
            reference's, and a Gaussian penalty on the difference in length. ``"plain"`` is without both.
        document_frequencies: File of captions to count n-grams in, instead of the scored items' references:
            COCO's captions (``captions_val2014.json``), or rows with ``image`` and ``caption`` (jsonl, csv, ...).

    Raises:
        ValueError: The variant is not known.
    """

    splits_words = True
    is_plain = True
    label = "CIDEr"
    range = (0.0, SCALE)
    needs = frozenset({"references"})
    source = (
        "Vedantam et al., CVPR 2015; pycocoevalcap cider/cider_scorer.py (d), "
        "vrama91/cider pyciderevalcap/cider/cider_scorer.py (plain)"
    )

    def __init__(self, variant: Literal["d", "plain"] = "d", document_frequencies: str | Path | None = None) -> None:
        if variant not in ("d", "plain"):
            raise ValueError(f"unknown variant '{variant}'; it is 'd' or 'plain'")
        self.variant = variant
        # Private: the file's content is in the fingerprint, not its place.
        self._frequencies = None
        if document_frequencies is not None:
            self._frequencies = Path(document_frequencies).expanduser()
            self.corpus_dependent = False

    def check(self) -> None:
        """Raise if the file of captions cannot be read."""
        if self._frequencies is not None:
            try:
                file_digest(self._frequencies)
            except DataError as error:
                raise MetricError(
                    f"CIDEr's document_frequencies: {error.message}",
                    "Name a file of captions: COCO's captions_val2014.json, or rows of image and caption.",
                ) from error

    def fingerprint(self) -> dict[str, Any]:
        """Return the variant, what tokenises, and which captions give the document frequencies."""
        given = {}
        if self._frequencies is not None:
            given = {"document_frequencies": f"sha256 {file_digest(self._frequencies)}"}
        return {
            "metric": type(self).__name__, "variant": self.variant, "tokenizer": ptb.FINGERPRINT, **given
        }  # fmt: skip

    def state_map(self, items: Items, context: Context) -> State:
        """Return in the references of how many rows of a shard each of its n-grams occurs, those of candidates too."""
        return corpus_frequencies.count_rows(hashed_ngrams_of(items), items)

    def partition(self, state: State, parts: int) -> list[State]:
        """Cut a state by the hashes of the n-grams."""
        check_state(self, state, _COUNTED)
        return list[State](corpus_frequencies.cut(state, parts))

    def merge(self, states: Sequence[State]) -> State:
        """Return the frequencies in all rows of several shards."""
        for state in states:
            check_state(self, state, _COUNTED)
        return corpus_frequencies.add(states)

    def condense(self, state: State) -> State:
        """Return a state without the n-grams of a single row, which weigh as much as those of none."""
        check_state(self, state, _COUNTED)
        repeated = state["frequencies"] > 1
        return {
            **state, "ngrams": state["ngrams"][repeated], "frequencies": state["frequencies"][repeated]
        }  # fmt: skip

    def join(self, states: Sequence[State]) -> State:
        """Return the frequencies in the corpus.

        Raises:
            MetricError: All items share their references, where every weight is 0.
        """
        whole = self.merge(states)
        least, greatest = whole["sets"].tolist()
        if least >= greatest:
            raise MetricError(_ONE_IMAGE, "Score at least two images together, or use another metric.")
        return {name: whole[name] for name in _JOINED}

    def keep(self, items: Items) -> Mapping[str, np.ndarray]:
        """Return the n-grams of items."""
        return hashed_ngrams_of(items).ngrams.to_arrays()

    def restore(self, items: Items, kept: Mapping[str, np.ndarray]) -> None:
        """Give items their n-grams."""
        items.memo["hashed ngrams"] = hash_ngrams(NGrams.from_arrays(kept))

    def score(self, items: Items, context: Context, state: State | None = None) -> Scores:
        """Score each item; see ``CorpusMetric.score``.

        ``Scores.parts["per_order"]``: ``[n, 4]`` the value of each n, of which the value is the mean.

        Raises:
            MetricError: All items share their references, where every weight is 0.
            DataError: The captions that give the document frequencies cannot be read.
        """
        hashed = hashed_ngrams_of(items)
        ngrams, failures = hashed.ngrams, _failures(hashed.ngrams)
        weights = self._weights(hashed, items, context, state)
        scored = np.delete(np.arange(len(items)), list(failures))
        per_order = np.full((len(items), MAX_ORDER), np.nan)
        for order, idf in enumerate(weights, 1):
            for chunk in ngrams.chunks(scored):
                per_order[chunk.items, order - 1] = self._similarity(ngrams, chunk, order, idf)
        per_order *= SCALE
        return Scores(values=per_order.mean(axis=1), parts={"per_order": per_order}, failures=failures)

    def _weights(self, hashed: HashedNGrams, items: Items, context: Context, state: State | None) -> list[np.ndarray]:
        """Return the weight of each n-gram, for each n: log of rows over rows that hold it (at least 1)."""
        if self._frequencies is not None:
            given = read_frequencies(self._frequencies)
            held = [given.of(hashed.ngrams, order) for order in range(1, MAX_ORDER + 1)]
            return [np.log(given.documents) - np.log(np.maximum(rows, 1.0)) for rows in held]
        if state is None:
            held, rows_of_set = corpus_frequencies.frequencies_of(hashed, items)
            if np.count_nonzero(rows_of_set) < 2:
                raise MetricError(_ONE_IMAGE, "Score at least two images together, or use another metric.")
            rows = float(items.weights.sum())
        else:
            check_state(self, state, _JOINED)
            held = [corpus_frequencies.look_up(state, hashes) for hashes in hashed.hashes]
            rows = float(state["rows"][0])
        return [np.log(rows) - np.log(np.maximum(frequency, 1.0)) for frequency in held]

    def _similarity(self, ngrams: NGrams, chunk: Chunk, order: int, idf: np.ndarray) -> np.ndarray:
        """Return for each item of a chunk the mean over references of the n-grams' similarity."""
        candidates = ngrams.counts(chunk.candidates, order)
        references = ngrams.counts(chunk.references, order)
        in_candidate = candidates.counts * idf[candidates.ngrams]
        in_reference = references.counts * idf[references.ngrams]

        # An n-gram that no reference of the item has adds nothing: drop it before each of the rest
        # meets each reference.
        kept, _ = references.largest(chunk.set_of_reference).find(
            chunk.set_of_item[candidates.rows] * references.size + candidates.ngrams
        )
        item, ngram, in_candidate_kept = candidates.rows[kept], candidates.ngrams[kept], in_candidate[kept]
        references_of = chunk.set_sizes[chunk.set_of_item]
        first_reference = chunk.set_starts[chunk.set_of_item]
        reference = spans(first_reference[item], references_of[item])
        repeats = references_of[item]
        there, at = references.find(reference * references.size + np.repeat(ngram, repeats))
        hypothesis = np.repeat(in_candidate_kept, repeats)[there]
        target = in_reference[at[there]]
        if self.variant == "d":
            hypothesis = np.minimum(hypothesis, target)
        first_pair = np.cumsum(references_of) - references_of
        pair = spans(first_pair[item], repeats)[there]

        pair_item = np.repeat(np.arange(len(chunk.items)), references_of)
        pair_reference = spans(first_reference, references_of)
        dot = np.bincount(pair, hypothesis * target, minlength=len(pair_item))
        norms = (
            _norms(candidates, in_candidate, len(chunk.candidates))[pair_item]
            * _norms(references, in_reference, len(chunk.references))[pair_reference]
        )
        similarity = np.divide(dot, norms, out=np.zeros(len(norms)), where=norms > 0)
        if self.variant == "d":
            # The released code takes the number of bigrams for the length.
            length = np.maximum(ngrams.lengths - 1, 0)
            delta = length[chunk.candidates][pair_item] - length[chunk.references][pair_reference]
            similarity *= np.exp(-(delta**2) / (2 * SIGMA**2))
        return np.bincount(pair_item, similarity, minlength=len(chunk.items)) / references_of


def _norms(counts: Counts, vector: np.ndarray, rows: int) -> np.ndarray:
    """Return the Euclidean norm ``[rows]`` of each row's vector."""
    return np.sqrt(np.bincount(counts.rows, vector**2, minlength=rows))


def _failures(ngrams: NGrams) -> dict[int, str]:
    """Return item index to why it cannot be scored: no reference has a word."""
    set_of_reference = np.repeat(np.arange(len(ngrams.set_sizes)), ngrams.set_sizes)
    words = np.bincount(set_of_reference, ngrams.lengths[ngrams.references], minlength=len(ngrams.set_sizes))
    faults = {
        number: ptb.references_fault([""] * size)
        for number, (size, words_of_set) in enumerate(zip(ngrams.set_sizes.tolist(), words, strict=True))
        if not words_of_set
    }
    found = ((item, faults.get(number)) for item, number in enumerate(ngrams.set_of_item.tolist()))
    return {item: fault for item, fault in found if fault is not None}
