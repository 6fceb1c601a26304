"""What METEOR aligned is what its score is made of."""

from __future__ import annotations

import pytest

from capbench.metrics.items import Items
from capbench.metrics.meteor.metric import Meteor, PhraseMatch, explain

CANDIDATE = "A brown dog runs quickly over the grass."
REFERENCES = ["A dog is running across the green lawn .", "The puppies play"]


def test_words_are_aligned_by_the_matcher_that_found_them():
    found = explain(CANDIDATE, REFERENCES)
    assert found[0].candidate == ["a", "brown", "dog", "runs", "quickly", "over", "the", "grass"]
    assert found[0].reference == ["a", "dog", "is", "running", "across", "the", "green", "lawn"]
    assert found[0].aligned[:2] == [PhraseMatch("exact", (0, 1), (0, 1)), PhraseMatch("exact", (2, 3), (1, 2))]
    assert [one.how for one in found[1].aligned] == ["exact", "synonym"]
    assert [one.chunks for one in found] == [3, 2]


def test_the_greatest_value_is_the_score():
    import numpy as np

    from capbench.metrics import Context

    items = Items(["x"], [CANDIDATE], [tuple(REFERENCES)], np.ones(1))
    score = Meteor().score(items, Context()).values[0]
    assert max(one.value for one in explain(CANDIDATE, REFERENCES)) == pytest.approx(score, abs=1e-12)
    assert score == pytest.approx(0.1572254335, abs=1e-9)


def test_a_caption_that_shares_nothing_has_no_alignment():
    (found,) = explain("zebra", ["A plain table ."])
    assert found.aligned == []
    assert found.value == 0.0
