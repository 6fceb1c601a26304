import numpy as np
import pytest

from capbench.metrics import Context
from capbench.metrics.bleu import Bleu1, Bleu2, Bleu4


def test_value_calculated_by_hand(make_items):
    # Candidate "the the the cat" (4 words, bigrams the-the twice, the-cat once).
    # "the" occurs at most twice in one reference: 2 + 1 of 4 unigrams. the-cat and the-the: no, yes once.
    # Reference lengths 6 and 3 against 4: 3 is closest, so no penalty.
    items = make_items(["the the the cat"], [["the man saw the cat there", "the the dog"]])
    scores = Bleu2().score(items, Context())
    assert scores.parts["correct"].tolist() == [[3, 2]]
    assert scores.parts["guessed"].tolist() == [[4, 3]]
    assert scores.parts["reference_length"].tolist() == [3]
    assert scores.values[0] == pytest.approx(np.sqrt(3 / 4 * 2 / 3))


def test_shorter_of_two_equally_close_references_sets_the_length(make_items):
    items = make_items(["a b c"], [["a b c d", "x y"]])  # lengths 4 and 2, both one away from 3
    scores = Bleu1().score(items, Context())
    assert scores.parts["reference_length"].tolist() == [2]
    assert scores.values[0] == pytest.approx(1)


def test_short_candidate_pays_the_brevity_penalty(make_items):
    scores = Bleu1().score(make_items(["a dog"], [["a dog runs far"]]), Context())
    assert scores.values[0] == pytest.approx(np.exp(1 - 4 / 2))


def test_candidate_without_a_match_scores_next_to_nothing(make_items):
    scores = Bleu1().score(make_items(["a dog"], [["the cats"]]), Context())
    assert 0 < scores.values[0] < 1e-15


def test_empty_texts_count_as_candidates_and_as_references(make_items):
    items = make_items(["...", "a dog", "a dog"], [["a dog"], ["!!!", "a dog"], []])
    scores = Bleu4().score(items, Context())
    assert scores.failures == {2: "item has no reference"}
    assert np.isnan(scores.values).tolist() == [False, False, True]
    assert scores.values[0] == 0
    assert Bleu1().corpus(Bleu1().score(items, Context()), np.array([0, 1, 0])) == pytest.approx(1)
    # The empty one adds its reference's two words: 2 words against 4.
    assert Bleu1().corpus(Bleu1().score(items, Context()), np.array([1, 1, 0])) == pytest.approx(np.exp(-1))
