"""BLEU-1 to BLEU-4."""

from typing import ClassVar

import numpy as np

from .contract import Context
from .items import Items, Scores
from .words import ptb
from .words.ngrams import MAX_ORDER, Chunk, NGrams, ngrams_of

# The constants of the released code: they stand for smoothing and keep 0 / 0 at 0. A caption without
# any match therefore scores about 1e-16 for BLEU-1 and about 1e-4 or more for BLEU-4, not 0, and such
# captions still have an order.
TINY = 1e-15
SMALL = 1e-9


class Bleu(ptb.WordMetric):
    """Geometric mean of clipped n-gram precisions, times the brevity penalty.

    The penalty is ``exp(1 - r / c)`` where the candidate's length ``c`` is below the reference length ``r``, else 1.
    The reference length is the one closest to the candidate's, the shorter of two equally close.

    ``Scores.parts``: ``correct [n, order]`` clipped matches, ``guessed [n, order]`` n-grams of the
    candidate, ``candidate_length [n]`` and ``reference_length [n]`` in words.
    """

    is_plain = True
    source = "Papineni et al., ACL 2002; pycocoevalcap bleu/bleu_scorer.py (option closest)"
    needs = frozenset({"references"})
    aggregation = "corpus"
    order: ClassVar[int]

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        tokenized = ptb.tokenize_items(items, self.tokenizer)
        parts = items.memo.get(f"bleu {self.tokenizer}")
        if parts is None:
            scored = np.delete(np.arange(len(items)), list(tokenized.failures))
            parts = items.memo[f"bleu {self.tokenizer}"] = _count(ngrams_of(items, self.tokenizer), scored)
        parts = {name: part[:, : self.order] if part.ndim == 2 else part for name, part in parts.items()}
        values = bleu(**parts)
        values[list(tokenized.failures)] = np.nan
        return Scores(values=values, parts=parts, failures=dict(tokenized.failures))

    def terms(self, scores: Scores) -> np.ndarray:
        """Return the counts of each item: correct and guessed n-grams of each n, and both lengths."""
        parts = scores.parts
        lengths = [parts["candidate_length"], parts["reference_length"]]
        return np.concatenate([parts["correct"], parts["guessed"], np.stack(lengths, axis=1)], axis=1)

    def pool(self, totals: np.ndarray) -> float:
        """Return BLEU of the pooled counts, each item counted as often as it weighs."""
        correct, guessed, lengths = np.split(totals[None], [self.order, 2 * self.order], axis=1)
        return float(bleu(correct, guessed, lengths[:, 0], lengths[:, 1])[0])


class Bleu1(Bleu):
    """BLEU of single words."""

    label = "BLEU-1"
    order = 1


class Bleu2(Bleu):
    """BLEU up to 2-grams."""

    label = "BLEU-2"
    order = 2


class Bleu3(Bleu):
    """BLEU up to 3-grams."""

    label = "BLEU-3"
    order = 3


class Bleu4(Bleu):
    """BLEU up to 4-grams."""

    label = "BLEU-4"
    order = 4


def bleu(
    correct: np.ndarray, guessed: np.ndarray, candidate_length: np.ndarray, reference_length: np.ndarray
) -> np.ndarray:
    """Return BLEU ``[m]`` of counts (Papineni et al. 2002, section 2.3).

    Args:
        correct: ``[m, order]`` clipped matches.
        guessed: ``[m, order]`` n-grams of the candidates.
        candidate_length: ``[m]`` words.
        reference_length: ``[m]`` words.
    """
    precision = (correct + TINY) / (guessed + SMALL)
    mean = precision.prod(axis=1) ** (1 / precision.shape[1])
    ratio = (candidate_length + TINY) / (reference_length + SMALL)
    return mean * np.exp(np.minimum(1 - 1 / ratio, 0))


def _count(ngrams: NGrams, items: np.ndarray) -> dict[str, np.ndarray]:
    """Return the parts of all items up to the largest order; zeros for items that are not requested."""
    n = len(ngrams.candidate)
    correct, guessed = np.zeros((2, n, MAX_ORDER))
    candidate_length, reference_length = np.zeros((2, n))
    for chunk in ngrams.chunks(items):
        length = ngrams.lengths[chunk.texts]
        candidate_length[chunk.items] = length[chunk.candidates]
        reference_length[chunk.items] = _closest(length, chunk)
        for order in range(1, MAX_ORDER + 1):
            grams = ngrams.count(chunk, order)
            guessed[chunk.items, order - 1] = np.maximum(length[chunk.candidates] - (order - 1), 0)
            if len(grams.counts):
                is_candidate = chunk.is_candidate.take(grams.texts)
                starts, own = grams.is_start.nonzero()[0], is_candidate.nonzero()[0]
                allowed = np.maximum.reduceat(np.where(is_candidate, 0, grams.counts), starts)
                clipped = np.minimum(grams.counts[own], allowed[starts.searchsorted(own, side="right") - 1])
                of_text = np.bincount(grams.texts[own], clipped, minlength=len(chunk.texts))
                correct[chunk.items, order - 1] = of_text[chunk.candidates]
    return {
        "correct": correct,
        "guessed": guessed,
        "candidate_length": candidate_length,
        "reference_length": reference_length,
    }


def _closest(length: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Return for each candidate of a chunk the closest length of a reference, the shorter of two."""
    sizes, item, reference = chunk.pairs()
    distance = np.abs(length[reference] - length[chunk.candidates][item])
    scale = int(length.max()) + 1
    return np.minimum.reduceat(distance * scale + length[reference], np.cumsum(sizes) - sizes) % scale
