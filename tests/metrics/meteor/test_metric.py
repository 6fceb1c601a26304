import gzip
import shutil

import numpy as np
import pycocoevalcap.meteor.meteor as released_module
import pytest

from capbench.metrics import Context, Items
from capbench.metrics.java import find_jar
from capbench.metrics.meteor.metric import Meteor, PhraseMatch, explain, meteor
from capbench.metrics.meteor.resources import JAR, PARAPHRASES


@pytest.fixture
def _small_table(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The released jar beside a table of one paraphrase: a process starts in a quarter of a second."""
    package = tmp_path / "pycocoevalcap"
    table = package / PARAPHRASES
    table.parent.mkdir(parents=True)
    with gzip.open(table, "wt", encoding="utf-8") as file:
        file.write("0.5\nman\nguy\n")
    # The jar looks for its table beside itself; a link would lead it to the released one.
    shutil.copy(find_jar(JAR), package / JAR)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def released_beside_small_table(_small_table, monkeypatch, start_released):
    """The METEOR of pycocoevalcap, which starts the jar in its own folder: here, in that of the small table."""
    monkeypatch.setattr(released_module, "__file__", str(find_jar(JAR)))
    return start_released()


def assert_equal_to_released(metric: Meteor, items: Items, released: tuple[float, list[float]]) -> None:
    corpus, values = released
    scores = metric.score(items, Context())
    assert not scores.failures
    np.testing.assert_allclose(scores.values, values, rtol=0, atol=1e-9)
    assert metric.corpus(scores, items.weights) == pytest.approx(corpus, abs=1e-9)


def test_item_and_corpus_values_are_those_of_pycocoevalcap(composed, recorded):
    assert_equal_to_released(Meteor(), composed, recorded.values("composed"))


@pytest.mark.usefixtures("_small_table")
def test_values_are_those_of_pycocoevalcap_with_the_same_small_table(composed: Items, recorded):
    assert_equal_to_released(Meteor(), composed, recorded.values("composed_small_table"))


@pytest.mark.costly
def test_pycocoevalcap_still_returns_what_was_recorded_with_the_small_table(
    composed: Items, recorded, released_beside_small_table, released_values
):
    assert released_values(released_beside_small_table, composed) == recorded.values("composed_small_table")


@pytest.mark.data
def test_values_of_flickr8k_expert_and_of_long_captions_are_those_of_pycocoevalcap(data_items: Items, recorded):
    assert_equal_to_released(Meteor(), data_items, recorded.values("data"))


def test_value_calculated_by_hand():
    # "a cat sat on the mat" against "a cat is on the mat": function words are a, on, the, and is.
    # Exact matches: content cat, mat; function a, on, the; two chunks.
    row = [6, 6, 3, 4, 2, 2, 3, 3, *[0] * 12, 2, 5, 5]
    precision = (0.75 * 2 + 0.25 * 3) / (0.75 * 3 + 0.25 * 3)
    recall = (0.75 * 2 + 0.25 * 3) / (0.75 * 2 + 0.25 * 4)
    mean = precision * recall / (0.85 * precision + 0.15 * recall)
    expected = mean * (1 - 0.6 * (2 / 5) ** 0.2)
    assert meteor(np.array([row], dtype=float))[0] == pytest.approx(expected)
    assert expected == pytest.approx(0.43730220194464914)  # what the jar prints


def test_empty_texts_and_separators_and_a_second_run_that_starts_no_java(make_items, cache, monkeypatch, tmp_path):
    candidates = ["...", "a dog runs", "a dog", "a dog"]
    references = [["a dog"], ["", "a dog runs"], ["a ||| dog"], []]
    scores = Meteor().score(make_items(candidates, references), Context(cache=cache))
    assert scores.failures == {3: "item has no reference"}
    assert np.isnan(scores.values).tolist() == [False, False, False, True]
    assert scores.values[0] == 0
    assert scores.values[1] == pytest.approx(1)
    assert Meteor().corpus(scores, np.array([0, 2, 0, 0])) == pytest.approx(1)

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # where no Java is
    again = Meteor().score(make_items(candidates[::-1], references[::-1]), Context(cache=cache))
    np.testing.assert_array_equal(again.values[::-1], scores.values)


CANDIDATE = "A brown dog runs quickly over the grass."
REFERENCES = ["A dog is running across the green lawn .", "The puppies play"]


def test_words_are_aligned_by_the_matcher_that_found_them():
    explanations = explain(CANDIDATE, REFERENCES)
    assert explanations[0].candidate == ["a", "brown", "dog", "runs", "quickly", "over", "the", "grass"]
    assert explanations[0].reference == ["a", "dog", "is", "running", "across", "the", "green", "lawn"]
    assert explanations[0].aligned[:2] == [PhraseMatch("exact", (0, 1), (0, 1)), PhraseMatch("exact", (2, 3), (1, 2))]
    assert [pair.how for pair in explanations[1].aligned] == ["exact", "synonym"]
    assert [explanation.chunks for explanation in explanations] == [3, 2]
    assert all(pair.value == pair.factors["mean"] * (1 - pair.factors["penalty"]) for pair in explanations)


def test_the_greatest_value_is_the_score():
    items = Items(["x"], [CANDIDATE], [tuple(REFERENCES)], np.ones(1))
    score = Meteor().score(items, Context()).values[0]
    assert max(explanation.value for explanation in explain(CANDIDATE, REFERENCES)) == pytest.approx(score, abs=1e-12)
    assert score == pytest.approx(0.1572254335, abs=1e-9)
