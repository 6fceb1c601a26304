from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scored_in_shards import shuffled

from capbench.metrics import MEAN, Aggregate, Context, CorpusMetric, Items, Metric, Scores, add_sums
from capbench.metrics.bleu import Bleu1, Bleu4
from capbench.metrics.chair import ChairI
from capbench.metrics.cider import Cider
from capbench.metrics.gpt4_eval import Gpt4Eval
from capbench.metrics.length import Length
from capbench.metrics.meteor.formula import N_STATISTICS
from capbench.metrics.meteor.metric import Meteor
from capbench.metrics.mid import Mid

SHARDS = (1, 7, 40)


def counts(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 90, size=shape).astype(np.float64)


VALUES = np.random.default_rng(2).normal(size=300) ** 7


def scores_of(kind: type[Aggregate]) -> Scores:
    """Return scores of 300 items, as the metric's ``score`` does; one in ten has no value."""
    failed = np.arange(300) % 10 == 3
    parts = {
        Bleu4: {"correct": counts((300, 4)), "guessed": 90 + counts((300, 4)), **_lengths()},
        ChairI: {"mentions": 90 + counts((300,)), "hallucinated": counts((300,))},
        Meteor: {"statistics": counts((300, N_STATISTICS))},
        Mid: {"information": np.full(300, 1 / 3), "distance": VALUES / 7},
    }.get(kind, {})
    blank = np.nan if kind is Mid else 0.0
    for part in parts.values():
        part[failed] = blank
    return Scores(np.where(failed, np.nan, VALUES), parts)


def _lengths() -> dict[str, np.ndarray]:
    return {"candidate_length": counts((300,)), "reference_length": 5 + counts((300,))}


def take(scores: Scores, which: np.ndarray) -> Scores:
    return Scores(scores.values[which], {name: part[which] for name, part in scores.parts.items()})


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize(
    "metric", [MEAN, Bleu4(), ChairI(), Meteor(), Mid()], ids=lambda one: type(one).__name__
)
def test_corpus_value_is_the_same_to_the_bit_whatever_the_shards(metric: Aggregate, shards: int):
    scores, weights = scores_of(type(metric)), np.random.default_rng(3).integers(1, 9, size=300)
    of_shards = [metric.sums(take(scores, which), weights[which]) for which in shuffled(300, shards)]
    assert {array.dtype for one in of_shards for array in one.values()} == {np.dtype(np.int64)}
    value = metric.value(add_sums(of_shards))
    assert value == metric.corpus(scores, weights)
    # A resample's value, in plain floating point, is the same but for rounding.
    assert metric.pool(weights @ metric.terms(scores)) == pytest.approx(value, rel=1e-12)


def test_mean_is_rounded_once_and_of_items_that_have_a_value():
    scores = Scores(np.array([1e16, 1.0, -1e16, np.nan, 5.0]))
    assert MEAN.corpus(scores, np.array([1, 3, 1, 7, 0])) == 3 / 5
    assert np.isnan(MEAN.corpus(scores, np.array([0, 0, 0, 7, 0])))


def test_mean_of_a_metric_with_a_corpus_value_of_its_own_is_a_mean(make_items: Callable[..., Items]):
    items = make_items(["a dog", "the cat sat"], [["a dog"], ["a bird"]])
    scores = Bleu1().score(items, Context())
    assert MEAN.corpus(scores, items.weights) == scores.values.mean() != Bleu1().corpus(scores, items.weights)


class Median(Metric):
    """A metric whose corpus value is not made of sums."""

    label = "median"
    source = "a package of one's own"

    def score(self, items: Items, context: Context) -> Scores:
        return Scores(np.array([float(len(text)) for text in items.candidates]))

    def corpus(self, scores: Scores, weights: np.ndarray) -> float:
        return float(np.median(scores.values))


def test_metric_says_whether_its_corpus_value_is_made_of_sums():
    assert not Median().has_sums
    assert all(metric.has_sums for metric in (Length(), Bleu4(), ChairI(), Meteor(), Mid()))


class Rank(Metric):
    """A metric that looks at the corpus, and says no more than that."""

    label = "rank"
    source = "a package of one's own"
    corpus_dependent = True

    def score(self, items: Items, context: Context) -> Scores:
        return Scores(np.argsort(np.argsort([len(text) for text in items.candidates])).astype(float))


def test_metric_says_whether_shards_can_be_scored_with_a_state():
    assert not Rank().has_state and Rank().corpus_dependent
    assert not Gpt4Eval().has_state
    assert Cider().has_state and Mid().has_state
    # Its items do not depend on the others.
    assert not Cider(document_frequencies="captions.json").has_state
    assert isinstance(Cider(), CorpusMetric)
