"""What an answer says, and what is made of many: accuracy, precision, recall, F1, share of yes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from ...statistics.contract import UndefinedStatistic

Said = Literal["yes", "no", "neither"]
_NO = frozenset({"No", "no", "not"})
_FIRST_WORD = re.compile(r"[^\W\d_]+")


def released(answer: str) -> Said:
    """Return what an answer says by the rule of POPE's released code.

    It says no if one of the words before the first full stop is ``No``, ``no`` or ``not``, split at single spaces,
    commas taken out; and yes otherwise, also where it is empty, or ``NO``, ``Not``, ``cannot``, ``isn't``, ``None``.
    Source: RUCAIBox/POPE, ``evaluate.py``.
    """
    words = answer.partition(".")[0].replace(",", "").split(" ")
    return "no" if _NO.intersection(words) else "yes"


def strict(answer: str) -> Said:
    """Return the first word of an answer, whatever its case, if that is yes or no."""
    found = _FIRST_WORD.search(answer)
    match found[0].lower() if found else "":
        case "yes":
            return "yes"
        case "no":
            return "no"
        case _:
            return "neither"


TERMS = ("yes_right", "yes_wrong", "no_right", "no_wrong", "neither_yes", "neither_no")
"""What an answer adds to: what it says and, of yes and no, whether that is right; of neither, what would have been."""


def term_of(said: Said, truth: bool) -> int:
    """Return which of ``TERMS`` an answer adds one to."""
    right = said == "yes" if truth else said == "no"
    return {"yes": 0, "no": 2}[said] + (not right) if said != "neither" else 4 + (not truth)


def _share(part: float, whole: float, reason: str) -> float:
    if not whole:
        raise UndefinedStatistic(reason)
    return part / whole


def _accuracy(sums: np.ndarray) -> float:
    return _share(sums[0] + sums[2], sums.sum(), "there is no answer")


def _precision(sums: np.ndarray) -> float:
    return _share(sums[0], sums[0] + sums[1], "no answer is yes")


def _recall(sums: np.ndarray) -> float:
    return _share(sums[0], sums[0] + sums[3] + sums[4], "no question is to be answered with yes")


def _f1(sums: np.ndarray) -> float:
    precision, recall = _precision(sums), _recall(sums)
    return _share(2 * precision * recall, precision + recall, "no yes is right")


def _yes(sums: np.ndarray) -> float:
    return _share(sums[0] + sums[1], sums.sum(), "there is no answer")


def _neither(sums: np.ndarray) -> float:
    return _share(sums[4] + sums[5], sums.sum(), "there is no answer")


RATES: Mapping[str, Callable[[np.ndarray], float]] = {
    "accuracy": _accuracy,
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
    "yes_share": _yes,
    "neither_share": _neither,
}
"""What is made of the sums ``[6]`` of ``TERMS``; yes is what is looked for. What says neither is in no precision, and
right in nothing."""


def majority_elsewhere(question: np.ndarray, image: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return ``[n]`` what it counts to give the answer that the same question mostly has on other images.

    Where both are as frequent, or it is asked of no other image, that is a half.

    Args:
        question: ``[n]`` equal numbers for equal questions.
        image: ``[n]`` equal numbers for equal images.
        truth: ``[n]`` whether yes is right.
    """
    votes = np.where(truth, 1, -1)
    _, of_question = np.unique(question, return_inverse=True)
    _, of_both = np.unique(np.stack([question, image]), axis=1, return_inverse=True)
    balance = np.bincount(of_question, votes)[of_question] - np.bincount(of_both, votes)[of_both]
    return np.where(balance == 0, 0.5, (balance > 0) == truth)
