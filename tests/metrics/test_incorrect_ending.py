from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from capbench.metrics import Context, Items
from capbench.metrics.incorrect_ending import CONJUNCTIONS, DETERMINERS, PREPOSITIONS, IncorrectEnding


@pytest.mark.parametrize(
    "caption", ["a man sitting on a", "a dog in front of", "A dog and.", "two cats with the ...", "WITH"]
)
def test_caption_that_breaks_off_counts(caption: str, make_items: Callable[..., Items]):
    assert IncorrectEnding().score(make_items([caption], [()]), Context()).values.tolist() == [1]


@pytest.mark.parametrize(
    "caption",
    ["a man on a horse", "people standing around", "one dog chases another", "a man looking up.", "a sign for 'A's"],
)
def test_whole_caption_does_not_count(caption: str, make_items: Callable[..., Items]):
    assert IncorrectEnding().score(make_items([caption], [()]), Context()).values.tolist() == [0]


def test_system_value_is_the_share_of_captions_that_have_words(make_items: Callable[..., Items]):
    items = make_items(["a dog on", "a dog", "!"], [()] * 3, [1, 3, 5])
    scores = IncorrectEnding().score(items, Context())
    np.testing.assert_array_equal(scores.values, [1, 0, np.nan])
    assert list(scores.failures) == [2]
    assert IncorrectEnding().corpus(scores, np.array([1, 3, 0])) == 1 / 4


def test_word_lists_are_lower_case_and_in_the_fingerprint():
    words = PREPOSITIONS | CONJUNCTIONS | DETERMINERS
    assert all(word.isalpha() and word.islower() for word in words)
    assert IncorrectEnding().fingerprint()["words"] == sorted(words)
