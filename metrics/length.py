"""Length: how many words a caption has."""

import math

import numpy as np

from .contract import Context, Metric
from .items import Items, Scores


class Length(Metric):
    """Number of words of the candidate, split at white space.

    The baseline that every metric must beat: judges tend to prefer the longer caption. A captioner is no better for
    longer ones.
    """

    splits_words = True
    is_plain = True
    has_direction = False
    label = "length"
    range = (0.0, math.inf)
    source = "word count; the length baseline of Vedantam et al., CVPR 2015 (PASCAL-50S)"

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        words = (len(candidate.split()) for candidate in items.candidates)
        return Scores(values=np.fromiter(words, dtype=np.float64, count=len(items)))
