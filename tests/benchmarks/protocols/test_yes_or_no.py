"""What answers say, and the rates that are made of them, by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from capbench.benchmarks.protocols.yes_no import RATES, TERMS, majority_elsewhere, released, strict, term_of
from capbench.benchmarks.statistics.contract import UndefinedStatistic


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Yes", "yes"), ("No", "no"), ("no, there is not", "no"), ("Well,no", "yes"), ("No, sir. Yes", "no"),
        ("Yes. No", "yes"), ("There is not any", "no"), ("no\tdog", "yes"), ("NO", "yes"), ("Not", "yes"),
        ("cannot", "yes"), ("isn't", "yes"), ("None", "yes"), ("No!", "yes"), ("", "yes"), ("n,o", "no"),
    ],
)  # fmt: skip
def test_released_rule_reads_words_before_the_first_full_stop(answer: str, said: str):
    assert released(answer) == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("Yes", "yes"), ("NO!", "no"), (" 'no', I think", "no"), ("yes.", "yes"), ("1. Yes", "yes"),
        ("None", "neither"), ("Not", "neither"), ("There is no dog", "neither"), ("", "neither"), ("...", "neither"),
    ],
)  # fmt: skip
def test_strict_rule_reads_the_first_word(answer: str, said: str):
    assert strict(answer) == said


def sums(**counts: int) -> np.ndarray:
    return np.array([float(counts.get(name, 0)) for name in TERMS])


def test_each_answer_adds_to_one_term():
    said = [("yes", True), ("yes", False), ("no", False), ("no", True), ("neither", True), ("neither", False)]
    assert [term_of(one, truth) for one, truth in said] == [0, 1, 2, 3, 4, 5]  # type: ignore[arg-type]


def test_rates_are_those_of_yes():
    found = sums(yes_right=6, yes_wrong=2, no_right=3, no_wrong=4, neither_yes=2, neither_no=3)
    values = {name: rate(found) for name, rate in RATES.items()}
    precision, recall = 6 / 8, 6 / 12
    assert values == pytest.approx(
        {
            "accuracy": 9 / 20,
            "precision": precision,
            "recall": recall,
            "f1": 2 * precision * recall / (precision + recall),
            "yes_share": 8 / 20,
            "neither_share": 5 / 20,
        }
    )


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        ({"no_right": 2, "no_wrong": 1}, {"precision": "no answer is yes", "f1": "no answer is yes"}),
        ({"yes_wrong": 2, "no_right": 1}, {"recall": "no question is to be", "f1": "no question is to be"}),
        ({"yes_wrong": 2, "no_wrong": 1}, {"f1": "no yes is right"}),
    ],
)
def test_what_is_divided_by_nothing_is_undefined(counts: dict[str, int], undefined: dict[str, str]):
    for name, rate in RATES.items():
        if name in undefined:
            with pytest.raises(UndefinedStatistic, match=undefined[name]):
                rate(sums(**counts))
        else:
            rate(sums(**counts))


def test_majority_is_of_other_images():
    question = np.array([1, 1, 1, 1, 2, 2])
    image = np.array([1, 1, 2, 3, 1, 2])
    truth = np.array([True, True, False, False, True, True])
    # Of question 1, image 1 sees two noes elsewhere; image 2 two yeses and a no; question 2 is always yes.
    assert majority_elsewhere(question, image, truth).tolist() == [0, 0, 0, 0, 1, 1]
    assert majority_elsewhere(question[:1], image[:1], truth[:1]).tolist() == [0.5]
    assert majority_elsewhere(question[:4], image[:4], np.array([True, False, True, True])).tolist() == [1, 0, 1, 1]


@pytest.mark.data
@pytest.mark.parametrize(("kind", "share"), [("random", 0.685), ("popular", 0.869), ("adversarial", 0.698)])
def test_pope_is_answered_to_a_large_part_by_the_question_alone(
    data_folder: Callable[[str], Path], kind: str, share: float
):
    lines = (data_folder("pope") / f"coco_pope_{kind}.json").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    text, image = (np.unique([row[key] for row in rows], return_inverse=True)[1] for key in ("text", "image"))
    found = majority_elsewhere(text, image, np.array([row["label"] == "yes" for row in rows]))
    assert round(float(found.mean()), 4) == share
