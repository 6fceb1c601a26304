from capbench.metrics import Context
from capbench.metrics.length import Length


def test_length_is_the_number_of_words_as_written(make_items):
    items = make_items(["A dog.", " two   words\n", "don't (ever) stop!", ""], [()] * 4)
    scores = Length().score(items, Context())
    assert scores.values.tolist() == [2, 2, 3, 0]
    assert not scores.failures
