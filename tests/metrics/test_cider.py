from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from pycocoevalcap.cider.cider import Cider as ReleasedCider

from capbench.errors import MetricError
from capbench.metrics import Context, Items
from capbench.metrics.cider import Cider
from capbench.metrics.ptb import tokenize_items


def assert_equal_to_released(items: Items, as_rows: Callable) -> None:
    context, metric = Context(), Cider()
    (references, candidates), item_of_row = as_rows(items, tokenize_items(items))
    mean, values = ReleasedCider().compute_score(references, candidates)
    scores = metric.score(items, context)
    assert not scores.failures
    np.testing.assert_allclose(scores.values[item_of_row], values, rtol=0, atol=1e-9)
    assert metric.corpus(scores, items.weights) == pytest.approx(mean, abs=1e-9)


def by_definition(items: Items, variant: str) -> list[float]:
    """Vedantam et al. 2015, equations 1 to 4, word for word, with dictionaries."""
    tokenized = tokenize_items(items)
    sets = [tokenized.reference_sets[one] for one in items.reference_sets[1]]

    def grams(text: str, n: int) -> Counter:
        words = text.split()
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    values = []
    for candidate, references in zip(tokenized.candidates, sets, strict=True):
        total = 0.0
        for n in (1, 2, 3, 4):
            held = [
                (set().union(*(grams(text, n) for text in texts)), w)
                for texts, w in zip(sets, items.weights, strict=True)
            ]

            def vector(text: str, n: int = n, held: list = held) -> dict:
                rows = sum(weight for _, weight in held)
                return {
                    gram: count
                    * np.log(rows / max(1, sum(weight for grams, weight in held if gram in grams)))
                    for gram, count in grams(text, n).items()
                }

            ours = vector(candidate)
            for reference in references:
                theirs = vector(reference)
                norms = np.sqrt(sum(x * x for x in ours.values()) * sum(x * x for x in theirs.values()))
                pairs = [(ours[gram], theirs[gram]) for gram in ours.keys() & theirs.keys()]
                if variant == "d":
                    pairs = [(min(a, b), b) for a, b in pairs]
                cosine = sum(a * b for a, b in pairs) / norms if norms else 0.0
                if variant == "d":
                    delta = max(len(candidate.split()) - 1, 0) - max(len(reference.split()) - 1, 0)
                    cosine *= np.exp(-(delta**2) / (2 * 6**2))
                total += 10 * cosine / len(references) / 4
        values.append(total)
    return values


def test_values_are_those_of_pycocoevalcap_on_repeated_rows(composed: Items, as_rows: Callable):
    assert_equal_to_released(composed, as_rows)


@pytest.mark.data
def test_values_of_flickr8k_expert_are_those_of_pycocoevalcap(flickr8k_expert: Items, as_rows: Callable):
    assert_equal_to_released(flickr8k_expert, as_rows)


@pytest.mark.data
def test_values_of_long_captions_are_those_of_pycocoevalcap(iiw: Items, as_rows: Callable):
    assert_equal_to_released(iiw, as_rows)


@pytest.mark.parametrize("variant", ["d", "plain"])
def test_values_follow_the_definition(make_items: Callable[..., Items], variant):
    items = make_items(
        ["a dog runs runs fast", "the cat sat on the mat", "a bird", "a dog runs"],
        [
            ["a dog runs", "one dog is running fast today"],
            ["the cat sat on a mat", "the the cat"],
            ["a man rides", "a bird flies"],
            ["a dog runs", "one dog is running fast today"],
        ],
        [3, 1, 2, 1],
    )
    values = Cider(variant=variant).score(items, Context()).values
    np.testing.assert_allclose(values, by_definition(items, variant), rtol=1e-12)


def test_value_calculated_by_hand(make_items: Callable[..., Items]):
    # Two rows, so a word of one image weighs log 2 and a word of both nothing. Candidate "x y y", reference
    # "x y". CIDEr-D: unigrams (1, 2) clipped to (1, 1) against (1, 1): 2 / sqrt(5 * 2). Bigrams xy, yy
    # against xy: 1 / sqrt(2). Length differs by one bigram: exp(-1/72). No longer n-grams.
    items = make_items(["x y y", "z"], [["x y"], ["z"]])
    scores = Cider().score(items, Context())
    expected = 10 * np.array([2 / np.sqrt(10), 1 / np.sqrt(2), 0, 0]) * np.exp(-1 / 72)
    np.testing.assert_allclose(scores.parts["per_order"][0], expected)
    assert scores.values[0] == pytest.approx(expected.mean())
    # Plain: unigrams (1, 2) against (1, 1): 3 / sqrt(10), and no penalty.
    plain = Cider(variant="plain").score(items, Context())
    np.testing.assert_allclose(plain.parts["per_order"][0], [30 / np.sqrt(10), 10 / np.sqrt(2), 0, 0])


def test_weights_are_repetitions(composed: Items, repeated: Callable[[Items], Items]):
    again = Cider().score(repeated(composed), Context()).values
    once = Cider().score(composed, Context()).values
    np.testing.assert_allclose(np.repeat(once, composed.weights), again, rtol=1e-12)


def test_order_of_references_does_not_matter(composed: Items, make_items: Callable[..., Items]):
    turned = make_items(composed.candidates, [texts[::-1] for texts in composed.references], composed.weights)
    np.testing.assert_allclose(
        Cider().score(composed, Context()).values, Cider().score(turned, Context()).values, rtol=1e-12
    )


@pytest.mark.parametrize("variant", ["d", "plain"])
def test_values_lie_between_zero_and_ten(composed: Items, variant):
    values = Cider(variant=variant).score(composed, Context()).values
    assert (values >= 0).all() and (values <= 10 + 1e-9).all()


def test_references_of_a_single_image_are_an_error(make_items: Callable[..., Items]):
    items = make_items(["a dog", "a cat"], [["a dog runs"]] * 2, [3, 1])
    with pytest.raises(MetricError, match="single image every weight is 0"):
        Cider().score(items, Context())


def test_unknown_variant_is_an_error():
    with pytest.raises(ValueError, match="unknown variant 'r'"):
        Cider(variant="r")  # type: ignore[arg-type]


def test_empty_candidate_is_a_failure_and_its_references_still_count(make_items: Callable[..., Items]):
    references = [["a dog runs"], ["a cat"], ["a dog sits"]]
    scores = Cider().score(make_items(["a dog runs", "!", "a dog"], references), Context())
    assert scores.failures == {1: "candidate has no token after PTB tokenisation"}
    assert np.isnan(scores.values[1])
    other = Cider().score(make_items(["a dog runs", "a cat", "a dog"], references), Context())
    np.testing.assert_array_equal(scores.values[[0, 2]], other.values[[0, 2]])


def test_values_do_not_depend_on_how_items_are_cut_into_chunks(
    composed: Items, monkeypatch: pytest.MonkeyPatch
):
    whole = Cider().score(composed, Context()).values
    monkeypatch.setattr("capbench.metrics.ngrams._WORDS_PER_CHUNK", 50)
    monkeypatch.setattr("capbench.metrics.ngrams._NGRAMS_PER_PASS", 50)
    composed.memo.pop("ngrams")
    np.testing.assert_allclose(Cider().score(composed, Context()).values, whole, rtol=1e-12)
