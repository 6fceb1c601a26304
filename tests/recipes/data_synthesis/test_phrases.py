from functools import partial

import numpy as np
import pytest

from capbench.adapters import Detections
from capbench.metrics.capture.scene_graphs import Graph
from capbench.recipes.data_synthesis.stages.phrase_filter import (
    bare_phrases,
    caption_without,
    named_phrases,
    phrase_scores,
)

of_local, of_sentence = (partial(caption_without, whole_words=local) for local in (True, False))


def test_best_box_of_a_phrase_counts_per_phrase():
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [50, 50, 60, 60]])
    detections = Detections(boxes, np.array([[0.9, 0.8, 0.1], [0.2, 0.7, 0.3], [0.005, 0.004, 0.008]]))

    assert phrase_scores(detections, "per_phrase").tolist() == [0.9, 0.8, 0.3]
    # The second box goes, as the first overlaps it; the first counts for its best phrase, the third is below 0.01.
    assert phrase_scores(detections, "released").tolist() == [0.9, 0, 0]
    assert phrase_scores(detections, "released", threshold=0.008).tolist() == [0.9, 0, 0]
    assert phrase_scores(detections, "released", threshold=0.007).tolist() == [0.9, 0, 0.008]
    # Apart, the second box is the second phrase's.
    apart = Detections(boxes + np.array([[0], [20], [0]]), detections.scores)
    assert phrase_scores(apart).tolist() == [0.9, 0.7, 0]
    # The better of its boxes counts for a phrase, and of equal scores the first wins the box.
    two = Detections(np.array([[0, 0, 1, 1], [5, 5, 6, 6]]), np.array([[0.3, 0.3], [0.6, 0.1]]))
    assert phrase_scores(two).tolist() == [0.6, 0]


@pytest.mark.parametrize("scoring", ["released", "per_phrase"])
def test_without_boxes_every_phrase_has_zero_and_a_box_without_area_counts(scoring):
    assert phrase_scores(Detections(np.zeros((0, 4)), np.zeros((0, 2))), scoring).tolist() == [0, 0]
    assert phrase_scores(Detections(np.zeros((0, 4)), np.zeros((0, 0))), scoring).tolist() == []
    flat = Detections(np.array([[3, 3, 3, 3], [3, 3, 3, 3]]), np.array([[0.5, 0.1], [0.1, 0.4]]))
    assert phrase_scores(flat, scoring).tolist() == [0.5, 0.4]


def test_phrases_of_local_captions_are_objects_without_attributes():
    graph = Graph(("dog", "park", "tree"), (("dog", "brown"),))

    assert bare_phrases(graph, "a brown dog in a park") == ["park"]
    assert named_phrases(graph, "a brown dog in a park") == ["brown dog", "park"]


def test_phrases_of_sentences_are_pairs_in_either_order_then_objects():
    graph = Graph(
        ("dog", "sky", "cat", "park"), (("sky", "blue"), ("dog", "brown"), ("dog", "large"), ("cat", "black"))
    )
    text = "a large brown dog under a sky blue as a park"

    # Of the cat nothing is written; the dog is found with its colour.
    assert named_phrases(graph, text) == ["brown dog", "sky blue", "park"]
    assert named_phrases(graph, "a dog that is brown") == ["dog"]
    assert named_phrases(Graph(), text) == []


def test_local_caption_loses_the_words_that_hold_a_phrase_and_a_sentence_the_letters_alone():
    text = "a carpet of cars, a car."

    local = of_local(text, ["car"], np.zeros(1))
    assert local.text == "a  of , a ."
    assert local.removed[0].texts == ("carpet", "cars", "car")
    overall = of_sentence(text, ["car"], np.zeros(1))
    assert overall.text == "a pet of s, a ."
    assert overall.removed[0].texts == ("car", "car", "car")


@pytest.mark.parametrize("phrase", ["c++ (book)", "a.b", "[dog", "50%*", "\\d", "^$|"])
def test_phrase_with_the_characters_of_regular_expressions_is_itself(phrase: str):
    text = f"A dog 50x a1b and {phrase} here"

    for without in (of_local, of_sentence):
        assert without(text, [phrase], np.zeros(1)).text == "A dog 50x a1b and  here"


def test_what_was_removed_is_told_with_its_score_and_reason():
    done = of_local(
        "a red moon, a moon, a star", ["star", "red moon", "moon", "red"], np.array([0.01, 0.0, 0.00995, 0.5, 0.7])
    )

    assert done.text == "a , a , a star"
    assert done.kept == (("star", 0.01), ("red", 0.5))
    first, second = done.removed
    assert (first.phrase, first.score, first.reason, first.texts) == ("red moon", 0, "is in no box", ("red moon",))
    assert (second.phrase, second.reason) == ("moon", "scores 0.00995, below 0.01")
    assert second.texts == ("moon",)
