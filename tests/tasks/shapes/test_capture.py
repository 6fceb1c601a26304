"""CAPTURE on the shapes world, with its grammar and nothing from elsewhere."""

import json

import numpy as np
import pytest

from capbench.metrics import Context, Items, build_metric
from capbench.metrics.capture.grammar_parser import SHAPES as LEXICON
from capbench.metrics.capture.grammar_parser import GrammarParser
from capbench.metrics.capture.scene_graphs import Graph
from capbench.tasks.shapes.accounts import SceneAccount, account_of, graph_of
from capbench.tasks.shapes.describing import detailed_reference
from capbench.tasks.shapes.grading import GRADES, detailed_candidates, short_candidates
from capbench.tasks.shapes.sampling import SPLITS, sample_scene
from capbench.tasks.shapes.scene import COLOURS, OPPOSITES, SHAPES, SIZES, TEXTURES

OFFLINE = {"parser": "grammar", "synonyms": False, "soft": False}
TRAIN = [sample_scene(seed) for seed in SPLITS["train"][:120]]
TEST = [sample_scene(seed) for seed in SPLITS["test"][:60]]


def parts(graph: Graph) -> tuple[list, ...]:
    return sorted(set(graph.objects)), sorted(set(graph.attributes)), sorted(set(graph.relations))


def meant(account: SceneAccount) -> tuple[list, ...]:
    graph = graph_of(account)
    pairs = [(name, word) for name, word in graph["attributes"]]
    triples = [(subject, relation, other) for subject, relation, other in graph["relations"]]
    return parts(Graph(tuple(graph["objects"]), tuple(pairs), tuple(triples)))


def read(text: str) -> tuple[list, ...]:
    parsed = GrammarParser().parse([text], Context())[text]
    assert not isinstance(parsed, str)
    assert parsed.without_graph == 0
    return parts(parsed.sentences[0])


def test_words_are_those_of_the_world():
    lexicon = json.loads(LEXICON.read_text())
    assert set(SHAPES) <= set(lexicon["objects"])
    assert {*COLOURS, *SIZES, *TEXTURES} <= set(lexicon["attributes"])
    assert set(lexicon["relations"].values()) == set(OPPOSITES)


def test_graph_of_a_description_is_that_of_its_scene():
    for scene in TRAIN:
        assert read(detailed_reference(scene)) == meant(account_of(scene))


@pytest.mark.parametrize("candidates_of", [detailed_candidates, short_candidates])
def test_graph_of_a_graded_caption_is_that_of_what_it_says(candidates_of):
    for scene in TRAIN[:40]:
        for candidate in candidates_of(scene):
            assert read(candidate.text) == meant(candidate.account)


def test_grades_rank_as_by_graph_f1_but_for_one_wrong_word():
    candidates = [detailed_candidates(scene) for scene in TEST]
    texts = [candidate.text for of in candidates for candidate in of]
    references = [(detailed_reference(scene),) for scene in TEST for _ in GRADES]
    items = Items(list(map(str, range(len(texts)))), texts, references, np.ones(len(texts)))
    scores = build_metric("capture", OFFLINE).score(items, Context())
    assert not scores.failures
    values = scores.values.reshape(-1, len(GRADES))
    assert (values[:, :1] > values[:, 1:]).all()
    value = dict(zip(GRADES, values.mean(axis=0), strict=True))
    assert value["full"] == pytest.approx(1, abs=1e-5)
    assert value["full"] > max(value["wrong_attribute"], value["wrong_relation"])
    assert min(value["wrong_attribute"], value["wrong_relation"]) > value["hallucination"]
    assert value["hallucination"] > value["omission"] > value["shuffled"]
    # CAPTURE asks not whose colour it is, in attributes or in relations, so that a wrong one costs less than in F1.
    f1 = dict(zip(GRADES, np.mean([[candidate.f1 for candidate in of] for of in candidates], axis=0), strict=True))
    assert f1["wrong_attribute"] < f1["wrong_relation"]
    assert value["wrong_attribute"] > value["wrong_relation"]
