"""BLEU, ROUGE-L and CIDEr against pycocoevalcap."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider import cider_scorer
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from capbench.metrics import Context, Items, metrics
from capbench.metrics.words.ptb import tokenize_items

KINDS = ("bleu", "rouge_l", "cider")


def assert_equal_to_released(kind: str, items: Items, as_rows: Callable) -> None:
    rows, item_of_row = as_rows(items, tokenize_items(items))
    names, near, near_corpus = [kind], {"rtol": 0, "atol": 1e-9}, {"abs": 1e-9}
    if kind == "bleu":
        # Its values are small.
        names, near, near_corpus = [f"bleu_{n}" for n in (1, 2, 3, 4)], {"rtol": 1e-9, "atol": 0}, {"rel": 1e-12}
        corpus, values = Bleu(4).compute_score(*rows, verbose=0)
    else:
        corpus, values = ([result] for result in (Cider() if kind == "cider" else Rouge()).compute_score(*rows))
    for name, whole, of_rows in zip(names, corpus, values, strict=True):
        metric = metrics[name]()
        scores = metric.score(items, Context())
        assert not scores.failures
        np.testing.assert_allclose(scores.values[item_of_row], of_rows, **near)
        assert metric.corpus(scores, items.weights) == pytest.approx(whole, **near_corpus)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_pycocoevalcap_on_repeated_rows(kind: str, composed: Items, as_rows: Callable):
    assert_equal_to_released(kind, composed, as_rows)


@pytest.mark.data
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_flickr8k_expert_are_those_of_pycocoevalcap(kind, flickr8k_expert, as_rows, monkeypatch):
    # The captions recur: the released code shall cut each into n-grams once.
    monkeypatch.setattr(cider_scorer, "precook", cache(cider_scorer.precook))
    assert_equal_to_released(kind, flickr8k_expert.subset(np.arange(0, len(flickr8k_expert), 8)), as_rows)


@pytest.mark.data
@pytest.mark.parametrize(("kind", "items"), [("bleu", 100), ("rouge_l", 60), ("cider", 100)])
def test_values_of_long_captions_are_those_of_pycocoevalcap(kind: str, items: int, iiw: Items, as_rows: Callable):
    # The released ROUGE-L takes 25 ms a pair.
    assert_equal_to_released(kind, iiw.subset(np.arange(items)), as_rows)
