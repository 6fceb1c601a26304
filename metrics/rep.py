"""Rep-n: how many n-grams of a caption repeat an earlier one."""

import math
from typing import ClassVar

import numpy as np

from .contract import Context
from .items import Items, Scores
from .words import ptb


class _Rep(ptb.TokenMetric):
    """Number of n-grams less the number of different n-grams, over PTB tokens.

    The paper says "the average number of repeated n-grams" and no more; its code is not released. Chosen
    here: an n-gram that occurs k times counts k - 1, and words are those that BLEU and CIDEr compare
    (lower-cased, without punctuation). A caption shorter than n has none.
    """

    order: ClassVar[int]
    is_plain = True
    range = (0.0, math.inf)
    higher_is_better = False
    source = "Sarto et al., PAC-S++, 2024, section 5.8 (paper only; the counting rule is ours)"

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        candidates, failures = ptb.tokenize_candidates(items)
        values = np.array([repeated(candidate.split(" "), self.order) for candidate in candidates], float)
        values[list(failures)] = np.nan
        return Scores(values=values, failures=failures)


class Rep1(_Rep):
    """Words that repeat an earlier word of the caption."""

    label = "Rep-1"
    order = 1


class Rep2(_Rep):
    """Word pairs that repeat an earlier pair of the caption."""

    label = "Rep-2"
    order = 2


class Rep3(_Rep):
    """3-grams that repeat an earlier one of the caption."""

    label = "Rep-3"
    order = 3


class Rep4(_Rep):
    """4-grams that repeat an earlier one of the caption."""

    label = "Rep-4"
    order = 4


def repeated(words: list[str], order: int) -> int:
    """Return how many n-grams of a caption are not the first of their kind."""
    ngrams = list(zip(*(words[start:] for start in range(order)), strict=False))
    return len(ngrams) - len(set(ngrams))
