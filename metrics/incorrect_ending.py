"""%Incorrect: captions that break off after a preposition, conjunction or determiner."""

from __future__ import annotations

from typing import Any

import numpy as np

from .contract import Context
from .items import Items, Scores
from .words import ptb


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Of the words of the three classes, those that end a human caption in fewer than 1 in 50 of their
# occurrences, counted on the 616,767 captions of COCO 2014. The rule keeps out words that end a sentence
# rightly as adverb or pronoun ("people standing around", "one dog chases another"): outside, up, by, down,
# around, out, inside, off, above, behind, below, underneath, about, alongside, round, past, beyond, within,
# throughout, aside, besides; yet, where, once, since; her, other, another, one, half, much.
PREPOSITIONS = _words(
    "across after against along amid among amongst as at atop before beneath beside between despite during "
    "except for from in into like near of on onto opposite over per through till to toward towards under "
    "unlike upon versus via with without"
)
CONJUNCTIONS = _words(
    "although and because but if nor or so than that though unless until when whereas whether while whilst"
)
DETERMINERS = _words(
    "a all an any both each either every few his its many my neither no our several some such that the "
    "their these this those what which whose your"
)
FUNCTION_WORDS = PREPOSITIONS | CONJUNCTIONS | DETERMINERS


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
