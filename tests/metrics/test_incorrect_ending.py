import numpy as np

from capbench.metrics import Context
from capbench.metrics.incorrect_ending import FUNCTION_WORDS, IncorrectEnding

BROKEN_OFF = ["a man sitting on a", "a dog in front of", "A dog and.", "two cats with the ...", "WITH"]
WHOLE = ["a man on a horse", "people standing around", "one dog chases another", "a man looking up.", "a sign for 'A's"]


def test_caption_that_breaks_off_counts_and_a_whole_one_does_not(make_items):
    items = make_items([*BROKEN_OFF, *WHOLE], [()] * 10)
    assert IncorrectEnding().score(items, Context()).values.tolist() == [1] * 5 + [0] * 5


def test_system_value_is_the_share_of_captions_that_have_words(make_items):
    items = make_items(["a dog on", "a dog", "!"], [()] * 3, [1, 3, 5])
    scores = IncorrectEnding().score(items, Context())
    np.testing.assert_array_equal(scores.values, [1, 0, np.nan])
    assert list(scores.failures) == [2]
    assert IncorrectEnding().corpus(scores, np.array([1, 3, 0])) == 1 / 4


def test_word_lists_are_lower_case_and_in_the_fingerprint():
    assert all(word.isalpha() and word.islower() for word in FUNCTION_WORDS)
    assert IncorrectEnding().fingerprint()["words"] == sorted(FUNCTION_WORDS)
