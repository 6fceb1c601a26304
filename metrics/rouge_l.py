"""ROUGE-L: the longest common subsequence."""

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import LCSseq

from .contract import Context
from .items import Items, Scores
from .words import ptb

BETA = 1.2


class RougeL(ptb.WordMetric):
    """F of precision and recall in the longest common subsequence of words, beta 1.2.

    Precision and recall are each the largest over the references, which need not be one reference's.

    ``Scores.parts``: ``precision [n]`` and ``recall [n]``.
    """

    is_plain = True
    label = "ROUGE-L"
    needs = frozenset({"references"})
    source = "Lin, WAS 2004; pycocoevalcap rouge/rouge.py"

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        tokenized = ptb.tokenize_items(items, self.tokenizer)
        precision, recall = np.full((2, len(items)), np.nan)
        reference_sets, set_of_item = tokenized.reference_sets, items.reference_sets[1].tolist()
        for item, candidate in enumerate(tokenized.candidates):
            if item in tokenized.failures:
                continue
            precision[item], recall[item] = precision_and_recall(candidate, reference_sets[set_of_item[item]])
        parts: dict[str, np.ndarray] = {"precision": precision, "recall": recall}
        return Scores(f_measure(precision, recall), parts, dict(tokenized.failures))


def precision_and_recall(candidate: str, references: Sequence[str]) -> tuple[float, float]:
    """Return the largest precision and the largest recall over references (at least one).

    Texts are tokens joined by single spaces and are split there and only there: an empty reference
    is one empty token, as in the released code.
    """
    words = candidate.split(" ")
    precision = recall = 0.0
    for reference in references:
        reference_words = reference.split(" ")
        common = LCSseq.similarity(words, reference_words)
        precision = max(precision, common / len(words))
        recall = max(recall, common / len(reference_words))
    return precision, recall


def f_measure(precision: np.ndarray, recall: np.ndarray) -> np.ndarray:
    """Return ``(1 + beta²) P R / (R + beta² P)``, 0 where either is 0 (Lin 2004, equation 4)."""
    above = (1 + BETA**2) * precision * recall
    below = recall + BETA**2 * precision
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)
