"""METEOR's value from its statistics (Denkowski and Lavie 2014, equations 1 to 5)."""

from __future__ import annotations

import numpy as np

# The values for English that the jar uses with "-l en" (section 3).
ALPHA = 0.85
BETA = 0.2
GAMMA = 0.6
DELTA = 0.75
MODULE_WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase
N_STATISTICS = 23


def meteor(statistics: np.ndarray) -> np.ndarray:
    """Return METEOR ``[m]``, 0 to 1, of statistics.

    Args:
        statistics: ``[m, 23]``, of single items or sums over items: words of candidate and reference
            (columns 0, 1), function words among them (2, 3); then for exact, stem, synonym and
            paraphrase matches in turn the matched content words of candidate and reference and the
            matched function words of both (4 to 19); chunks, after ``exempt`` (20); all matched words
            of candidate and reference (21, 22).
    """
    # In the jar's order, to the last bit: of two references with the same value it takes the first.
    words, function_words = statistics[:, 0:2], statistics[:, 2:4]
    matches = statistics[:, 4:20].reshape(-1, 4, 2, 2)
    weighted_matches = np.zeros(words.shape)
    for kind, weight_of_kind in enumerate((DELTA, 1 - DELTA)):
        for module, weight in enumerate(MODULE_WEIGHTS):
            weighted_matches += matches[:, module, kind] * weight * weight_of_kind
    weighted_words = DELTA * (words - function_words) + (1 - DELTA) * function_words
    # Nothing matched: 0 / 0, and no value but 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (weighted_matches / weighted_words).T
        mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = statistics[:, 20] / (statistics[:, 21:23].sum(axis=1) / 2)
        return np.nan_to_num(mean * (1 - GAMMA * fragmentation**BETA), nan=0.0)


def exempt(statistics: np.ndarray) -> np.ndarray:
    """Return the jar's statistics with no chunk where candidate and reference match wholly in one.

    The paper does not say so, but the jar neither penalises such an item nor counts its chunk when it
    sums items: without this step the corpus value is off in the fifth decimal.

    Args:
        statistics: ``[m, 23]`` of single items, as the jar answers.
    """
    matched = statistics[:, 4:20].reshape(-1, 8, 2).sum(axis=1)
    whole = (matched == statistics[:, 0:2]).all(axis=1) & (statistics[:, 20] == 1)
    exempted = statistics.copy()
    exempted[whole, 20] = 0.0
    return exempted
