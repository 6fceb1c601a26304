import pytest

from capbench.metrics import Context
from capbench.metrics.rouge_l import RougeL, precision_and_recall


def test_value_calculated_by_hand(make_items):
    # "a b c d" against "a c d e f g": common "a c d", P 3/4, R 3/6; against "a x": common "a", P 1/4, R 1/2.
    items = make_items(["a b c d"], [["a c d e f g", "a x"]])
    scores = RougeL().score(items, Context())
    assert scores.parts["precision"].tolist() == [3 / 4]
    assert scores.parts["recall"].tolist() == [1 / 2]
    assert scores.values[0] == pytest.approx((1 + 1.44) * 0.75 * 0.5 / (0.5 + 1.44 * 0.75))


def test_precision_and_recall_may_come_from_different_references():
    assert precision_and_recall("a b c d", ["a b c d e f g h", "a"]) == (1.0, 1.0)


def test_references_of_which_none_has_a_token_are_failures_and_an_empty_candidate_counts_0(make_items):
    items = make_items(["a dog", "?", "a dog", ""], [["...", "-"], ["a dog"], ["...", "a dog"], ["!"]])
    scores = RougeL().score(items, Context())
    assert scores.values[1:3].tolist() == [0, 1]
    assert scores.failures == dict.fromkeys((0, 3), "no reference has a token after tokenisation")
