"""CAPTURE on the shapes world, with its grammar and nothing from elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

import capbench
from capbench.metrics import Context, Items, Metric, build_metric
from capbench.metrics.capture.grammar_parser import SHAPES as LEXICON
from capbench.metrics.capture.grammar_parser import GrammarParser
from capbench.metrics.capture.scene_graphs import Graph
from capbench.tasks.shapes.accounts import SceneAccount, account_of, graph_of
from capbench.tasks.shapes.describing import detailed_reference, short_references
from capbench.tasks.shapes.grading import GRADES, Graded, detailed_candidates, short_candidates
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


@pytest.fixture(scope="module")
def candidates() -> list[list[Graded]]:
    return [detailed_candidates(scene) for scene in TEST]


def of_grades(metric: Metric, candidates: list[list[Graded]]) -> np.ndarray:
    """Return the score of each candidate ``[scenes, grades]`` against the scene's full description."""
    texts = [one.text for of in candidates for one in of]
    references = [(detailed_reference(scene),) for scene in TEST for _ in GRADES]
    items = Items(list(map(str, range(len(texts)))), texts, references, np.ones(len(texts)))
    scores = metric.score(items, Context())
    assert not scores.failures
    return scores.values.reshape(-1, len(GRADES))


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
        for one in candidates_of(scene):
            assert read(one.text) == meant(one.account)


def test_short_references_say_nothing_that_the_scene_does_not_hold():
    related = 0
    for scene in TRAIN:
        names = {thing.shape for thing in scene.things} | set(meant(account_of(scene))[0])
        for text in short_references(scene):
            objects, attributes, relations = read(text)
            assert set(objects) <= names
            assert set(attributes) <= set(meant(account_of(scene))[1])
            related += len(relations)
    assert related > len(TRAIN)


def test_grades_rank_as_by_graph_f1_but_for_one_wrong_word(candidates: list[list[Graded]]):
    mean = of_grades(build_metric("capture", OFFLINE), candidates).mean(axis=0)
    value = dict(zip(GRADES, mean, strict=True))
    assert value["full"] == pytest.approx(1, abs=1e-5)
    assert value["full"] > max(value["wrong_attribute"], value["wrong_relation"])
    assert min(value["wrong_attribute"], value["wrong_relation"]) > value["hallucination"]
    assert value["hallucination"] > value["omission"] > value["shuffled"]
    # CAPTURE asks not whose colour it is, in attributes or in relations, so that a wrong one costs less than in F1.
    f1 = dict(zip(GRADES, np.mean([[one.f1 for one in of] for of in candidates], axis=0), strict=True))
    assert f1["wrong_attribute"] < f1["wrong_relation"]
    assert value["wrong_attribute"] > value["wrong_relation"]


def test_full_caption_is_the_best_of_every_scene(candidates: list[list[Graded]]):
    scores = of_grades(build_metric("capture", OFFLINE), candidates)
    assert (scores[:, :1] > scores[:, 1:]).all()


def test_graphs_of_the_generator_score_as_those_of_the_grammar(candidates: list[list[Graded]], tmp_path):
    file = tmp_path / "graphs.jsonl"
    graded = [one for of in candidates for one in of]
    file.write_text("".join(json.dumps({"caption": one.text, **graph_of(one.account)}) + "\n" for one in graded))
    recorded = build_metric("capture", {**OFFLINE, "parser": "recorded", "parser_model": str(file)})
    ours = of_grades(build_metric("capture", OFFLINE), candidates)
    np.testing.assert_allclose(of_grades(recorded, candidates), ours, rtol=0, atol=1e-12)


def test_capture_agrees_with_the_raters_better_than_words_do():
    done = capbench.evaluate(None, "shapes_detailcaps_agreement", metrics=["capture", "bleu_2", "length"], resamples=0)
    value = {(one.metric, one.statistic): one.value or 0 for one in done.tasks[0].results}
    assert not done.tasks[0].record.failures
    assert value["capture", "kendall_b"] > 0.6
    assert value["capture", "kendall_b"] > value["bleu_2", "kendall_b"]
    assert value["capture", "pearson"] > value["bleu_2", "pearson"] + 0.05
    assert value["length", "kendall_b"] < 0.2


def test_captions_of_a_file_are_scored(tmp_path):
    captions = [
        {"id": str(scene.seed), "caption": "No words of this world." if scene.seed == 0 else detailed_reference(scene)}
        for scene in TEST[:5]
    ]
    file = tmp_path / "captions.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in captions))
    done = capbench.evaluate(f"captions:{file}", "shapes_detailcaps", metrics="capture", limit=5, resamples=0)
    assert done.tasks[0].results[0].value == pytest.approx(4 / 5, abs=1e-5)
    assert not done.tasks[0].record.failures
