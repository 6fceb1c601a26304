import numpy as np

from capbench.metrics import Context
from capbench.metrics.rep import Rep1, Rep2, Rep3, Rep4
from capbench.metrics.words.ptb import tokenize_candidates, tokenize_items


def test_ngram_that_occurs_k_times_counts_k_minus_1(make_items):
    # a cat and a cat and a dog: a x3, cat x2, and x2; "a cat" x2, "cat and" x2, "and a" x2;
    # "a cat and" x2, "cat and a" x2; "a cat and a" x2.
    items = make_items(["A cat and a cat, and a dog."], [()])
    values = [metric().score(items, Context()).values[0] for metric in (Rep1, Rep2, Rep3, Rep4)]
    assert values == [4, 3, 2, 1]


def test_caption_shorter_than_n_repeats_nothing_and_one_without_words_has_no_value(make_items):
    scores = Rep4().score(make_items(["dog dog dog", "dog dog dog dog dog", "..."], [()] * 3), Context())
    np.testing.assert_array_equal(scores.values, [0, 1, np.nan])
    assert scores.failures == {2: "candidate has no token after tokenisation"}


def test_system_value_is_the_mean_per_caption(make_items):
    items = make_items(["a a a", "a dog"], [()] * 2, [1, 3])
    assert Rep1().corpus(Rep1().score(items, Context()), items.weights) == 2 / 4
    assert not any(metric.higher_is_better for metric in (Rep1, Rep2, Rep3, Rep4))


def test_candidates_are_tokenised_once_for_all_metrics(make_items):
    items = make_items(["a dog runs"], [("a dog",)])
    assert tokenize_candidates(items)[0] is tokenize_candidates(items)[0]
    items = make_items(["a dog runs"], [("a dog",)])
    assert tokenize_items(items).candidates is tokenize_candidates(items)[0]
