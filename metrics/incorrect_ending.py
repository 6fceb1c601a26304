"""%Incorrect: captions that break off after a preposition, conjunction or determiner."""

from pathlib import Path
from typing import Any

import numpy as np

from ..rows import load_yaml
from .contract import Context
from .items import Items, Scores
from .words import ptb

_WORDS: dict[str, str] = load_yaml(Path(__file__).with_suffix(".yaml"))
FUNCTION_WORDS = frozenset(word for words in _WORDS.values() for word in words.split())


class IncorrectEnding(ptb.TokenMetric):
    """1 if the last word is a preposition, conjunction or determiner, else 0; the mean is their share.

    The paper specifies no more, and its word lists are not released. Chosen here: the last PTB token
    (punctuation removed) is looked up in a list, without regard to its part of speech in the sentence.
    Of the human captions of COCO 0.5 % end so.
    """

    english_only = True
    label = "%Incorrect"
    is_share = True
    higher_is_better = False
    source = "Sarto et al., PAC-S++, 2024, section 5.8 (paper only; the word lists are ours)"

    def fingerprint(self) -> dict[str, Any]:
        """Return the words and what tokenises."""
        return {**super().fingerprint(), "words": sorted(FUNCTION_WORDS)}

    def score(self, items: Items, context: Context) -> Scores:
        """Score each item; see ``Metric.score``."""
        candidates, failures = ptb.tokenize_candidates(items)
        values = np.array([candidate.rpartition(" ")[2] in FUNCTION_WORDS for candidate in candidates], float)
        values[list(failures)] = np.nan
        return Scores(values=values, failures=failures)
