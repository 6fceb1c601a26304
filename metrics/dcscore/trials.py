"""Precision, recall and F1 of a caption's facts in one trial, and their means over all trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np

from .answers import Fact

_EPSILON = 1e-8

PARTS = ("precision", "recall", "f1", "precision_relevant", "recall_relevant", "f1_relevant")
"""What a trial gives, in order."""


def trial(
    facts: Sequence[Fact], oracle: Sequence[Fact], matches: Sequence[int | None], truths: Sequence[bool]
) -> np.ndarray:
    """Return ``[6]`` float64, the ``PARTS`` of one trial, each 0 to 1.

    Precision is the share of facts that are true. Facts that are about one fact of the oracle share its weight of 1,
    false ones too; recall is the weight of the true ones, and 1 for each true one that is about none, over the facts of
    the oracle and these. The relevant parts look at facts that say what is to be seen, on both sides; weights stay
    those among all facts, as released (``compute_precision_recall`` in ``eval/evaluation_decapbench.py`` of DeCapBench,
    e356ed7). There people's facts are all relevant; a relevant fact that is about another one counts as about none.

    Args:
        facts: ``n`` facts of the caption, of which one or more are relevant.
        oracle: Facts of the oracle, of which one or more are relevant.
        matches: ``n`` places among the oracle's facts; None for a fact that is about none.
        truths: ``n``, whether each is true.
    """
    sharing = Counter(matches)

    def scores(which: Sequence[int], known: Sequence[int]) -> tuple[float, float, float]:
        true = [matches[one] for one in which if truths[one]]
        shares = [1 / sharing[match] for match in true if match in known]
        beyond = len(true) - len(shares)
        precision, recall = len(true) / len(which), (sum(shares) + beyond) / (len(known) + beyond)
        return precision, recall, 2 * precision * recall / (precision + recall + _EPSILON)

    every = range(len(facts)), range(len(oracle))
    return np.array([*scores(*every), *scores(_relevant(facts), _relevant(oracle))])


def mean_of_trials(
    facts: Sequence[Fact],
    oracle: Sequence[Fact],
    matchings: Sequence[Sequence[int | None]],
    verifications: Sequence[Sequence[bool]],
) -> np.ndarray:
    """Return ``[6]`` float64, the means of ``PARTS`` over the trials: each matching with each verification."""
    trials = [trial(facts, oracle, *one) for one in product(matchings, verifications)]
    return np.mean(trials, axis=0)


def _relevant(facts: Sequence[Fact]) -> list[int]:
    return [place for place, fact in enumerate(facts) if fact.relevant]
