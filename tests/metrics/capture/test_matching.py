"""Matching of elements, by hand."""

from pathlib import Path

import numpy as np
import pytest

from capbench.metrics.capture import wordnet as wordnets
from capbench.metrics.capture.matching import Element, elements, finish, pair, synonym_check
from capbench.metrics.capture.scene_graphs import Graph


@pytest.fixture
def wordnet(wordnet_folder: str) -> wordnets.WordNet:
    return wordnets.load(Path(wordnet_folder))


def words(*names: str) -> list[Element]:
    return [Element((name,)) for name in names]


def test_a_word_inside_of_another_is_a_synonym_as_released_and_not_by_the_papers_rule(wordnet):
    assert synonym_check(wordnet, substring=True)("car", "scarf")
    assert not synonym_check(wordnet, substring=False)("car", "scarf")


def test_words_that_share_a_lemma_are_synonyms_whatever_the_rule(wordnet):
    for substring in (True, False):
        synonyms = synonym_check(wordnet, substring)
        assert synonyms("automobile", "car")
        assert synonyms("cars", "autos")
        assert not synonyms("road", "street")
        assert not synonyms("gizmo", "gadget")
        assert synonyms("gizmo", "gizmo")


def test_equal_elements_are_matched_before_synonyms_and_each_once(wordnet):
    pairing = pair(words("auto", "car"), words("car", "sky"), synonym_check(wordnet, substring=True))
    assert pairing.equal == ((1, 0),)
    assert pairing.synonymous == ()
    assert pairing.left_over() == ([0], [1])


def test_relations_match_only_if_all_three_places_do(wordnet):
    synonyms = synonym_check(wordnet, substring=False)
    mine = [Element(("car", "on", "road")), Element(("dog", "near", "man"))]
    theirs = [Element(("automobile", "on", "route")), Element(("dog", "near", "sky"))]
    pairing = pair(mine, theirs, synonyms)
    assert pairing.synonymous == ((0, 0),)
    assert pairing.left_over() == ([1], [1])


def test_similarities_left_over_are_added_up_as_released_or_averaged_as_in_the_paper():
    pairing = pair(words("dog", "a", "b"), words("dog", "c"), None)
    vectors = {"a": np.array([1.0, 0.0]), "b": np.array([0.6, 0.8]), "c": np.array([0.8, 0.6])}
    # a and c: 0.8; b and c: 0.48 + 0.48 = 0.96
    released = finish(pairing, vectors, "sum")
    assert released.precision == pytest.approx((1 + 0.8 + 0.96) / 3, abs=1e-5)
    assert released.recall == pytest.approx((1 + 0.96) / 2, abs=1e-5)
    mean = finish(pairing, vectors, "mean")
    assert mean.precision == pytest.approx((1 + 0.88) / 3, abs=1e-5)
    assert mean.recall == pytest.approx((1 + 0.96) / 2, abs=1e-5)
    none = finish(pairing, vectors, "off")
    assert (none.precision, none.recall) == (pytest.approx(1 / 3, abs=1e-5), pytest.approx(1 / 2, abs=1e-5))
    assert none.f1 == pytest.approx(2 * (1 / 3) * (1 / 2) / (5 / 6), abs=1e-5)


def test_attribute_of_two_objects_counts_twice_as_released_and_once_in_the_paper():
    graph = Graph(("cat", "dog"), (("cat", "red"), ("dog", "red"), ("dog", "big")))
    assert [element.words[0] for element in elements(graph, "attribute")] == ["red", "red", "big"]
    once = elements(graph, "attribute", repeated_attributes=False)
    assert [(element.words[0], element.owner) for element in once] == [("red", "cat"), ("big", "dog")]
