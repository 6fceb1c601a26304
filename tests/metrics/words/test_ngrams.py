from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capbench.metrics import Context, Items, Metric
from capbench.metrics.bleu import Bleu4
from capbench.metrics.cider import Cider
from capbench.metrics.words import ngrams

TEXTS = st.lists(st.sampled_from("abc"), max_size=7).map(" ".join)


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3).map(tuple)), min_size=1, max_size=6))
def test_counts_of_a_chunk_are_those_of_each_text_by_sets_and_ngrams(pairs: list[tuple[str, tuple[str, ...]]]):
    items = Items([""] * len(pairs), [text for text, _ in pairs], [its for _, its in pairs], np.ones(len(pairs)))
    counted = ngrams.ngrams_of(items)
    texts = list(dict.fromkeys([*items.candidates, *(text for its in items.references for text in its)]))
    for order in range(1, 5):
        for chunk in counted.chunks(np.arange(len(items))):
            counts = counted.count(chunk, order)
            places = list(zip(chunk.sets[counts.texts], counts.ngrams, counts.texts, strict=True))
            assert places == sorted(places)
            groups = [place[:2] for place in places]
            assert counts.is_start.tolist() == [at == 0 or groups[at] != groups[at - 1] for at in range(len(groups))]
            assert (chunk.is_candidate.nonzero()[0] == chunk.candidates).all()
            assert chunk.is_candidate.sum() == len(chunk.items)
            grams = Counter(
                (place, *words[at : at + order])
                for place, words in enumerate(texts[number].split() for number in chunk.texts.tolist())
                for at in range(len(words) - order + 1)
            )
            by_text = sorted((gram[0], count) for gram, count in grams.items())
            assert sorted(zip(counts.texts.tolist(), counts.counts.tolist(), strict=True)) == by_text


@pytest.mark.parametrize("a_pass", [4, 1_000])
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7)), max_size=20))
def test_hashes_are_numbered_in_their_order_however_alike_they_are(a_pass: int, halves: list[tuple[int, int]]):
    hashes = np.array([high << 62 | low for high, low in halves], np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "_NGRAMS_PER_PASS", a_pass)
        numbers, distinct = ngrams._numbered(hashes)
    assert distinct.tolist() == sorted(set(hashes.tolist()))
    assert distinct[numbers].tolist() == hashes.tolist()


@pytest.mark.parametrize("metric", [Bleu4(), Cider()])
def test_values_do_not_depend_on_how_items_are_cut_into_chunks(metric: Metric, composed: Items, monkeypatch):
    whole = metric.score(composed, Context()).values
    monkeypatch.setattr(ngrams, "_WORDS_PER_CHUNK", 50)
    monkeypatch.setattr(ngrams, "_NGRAMS_PER_PASS", 50)
    composed.memo.clear()
    np.testing.assert_allclose(metric.score(composed, Context()).values, whole, rtol=1e-12)
