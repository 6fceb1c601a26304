from __future__ import annotations

from collections.abc import Callable

from capbench.metrics import Context, Items
from capbench.metrics.length import Length


def test_length_is_the_number_of_words_as_written(make_items: Callable[..., Items]):
    items = make_items(["A dog.", " two   words\n", "don't (ever) stop!", ""], [()] * 4)
    scores = Length().score(items, Context())
    assert scores.values.tolist() == [2, 2, 3, 0]
    assert not scores.failures
