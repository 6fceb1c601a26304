"""A grammar over a closed list of words: what it reads, what it passes over, and CAPTURE on it."""

import json
import random
from pathlib import Path

import pytest
import yaml

from capbench.errors import MetricError
from capbench.metrics import Context, build_metric
from capbench.metrics.capture import wordnet
from capbench.metrics.capture.grammar_parser import SHAPES, Grammar, GrammarParser, united

GRAMMAR = Grammar(
    objects=["dog", "box", "traffic light", "road"],
    attributes=["red", "big", "dark brown"],
    relations={"on": "on", "on top of": "on", "next to": "beside"},
)
CASES = yaml.safe_load(Path(__file__).with_name("grammar.yaml").read_text(encoding="utf-8"))
OFFLINE = {"parser": "grammar", "synonyms": False, "soft": False}


def test_noun_phrase_is_a_noun_with_its_adjectives():
    (graph,) = GRAMMAR.read("There is a big, dark brown and red dog")
    assert graph.objects == ("dog",)
    assert graph.attributes == (("dog", "big"), ("dog", "dark brown"), ("dog", "red"))


def test_plurals_and_capitals_count_as_the_word_itself():
    (graph,) = GRAMMAR.read("TWO RED BOXES next to dogs, traffic lights")
    assert graph.objects == ("box", "dog", "traffic light")
    assert graph.relations == (("box", "beside", "dog"), ("box", "beside", "traffic light"))


@pytest.mark.parametrize(("text", "said"), CASES["adjectives"])
def test_adjectives_belong_to_a_noun(text: str, said: list[str]):
    assert [" ".join(attribute) for graph in GRAMMAR.read(text) for attribute in graph.attributes] == said


@pytest.mark.parametrize(("text", "said"), CASES["relations"])
def test_relations_join_the_nouns_that_they_are_said_of(text: str, said: list[str]):
    assert [" ".join(relation) for graph in GRAMMAR.read(text) for relation in graph.relations] == said


def test_unknown_word_ends_what_was_begun_and_costs_nothing_else():
    (graph,) = GRAMMAR.read("A red cat on a box next to a nice road on a big dog")
    assert graph.objects == ("box", "road", "dog")
    assert graph.attributes == (("dog", "big"),)
    assert graph.relations == (("road", "on", "dog"),)


@pytest.mark.parametrize("text", ["", " ", "...", "-- ?!", "the the the", "on", "red and red", "İß😀 \x00"])
def test_text_without_a_noun_is_an_empty_graph(text: str):
    graph = united(*GRAMMAR.read(text))
    assert (graph.objects, graph.attributes, graph.relations) == ((), (), ())


def test_any_words_can_be_read():
    rng = random.Random(5)  # noqa: S311
    words = ["dog", "boxes", "red", "on", "next to", "to", "is", "are", "and", ",", ".", "which", "cat", "a"]
    read = 0
    for _ in range(1000):
        graph = united(*GRAMMAR.read(" ".join(rng.choices(words, k=30))))
        assert {name for subject, _, other in graph.relations for name in (subject, other)} <= set(graph.objects)
        assert {name for name, _ in graph.attributes} <= set(graph.objects)
        read += len(graph.relations)
    assert read > 100


def test_caption_that_runs_in_circles_has_each_relation_once_a_statement():
    (graph,) = GRAMMAR.read("dog and box " * 2000 + "are on " + "dog and box " * 2000)
    assert len(graph.relations) == 4


def test_graphs_are_finished_and_sentences_without_a_noun_are_counted(make_items):
    text = "A red circle is above the shapes in the background. Nothing is there. A circle is red."
    parsed = GrammarParser().parse([text], Context())[text]
    assert not isinstance(parsed, str)
    assert parsed.nouns is None
    # "background" is one of the released stop words.
    assert parsed.sentences[0].objects == ("background", "circle")
    assert parsed.sentences[0].attributes == (("circle", "red"),)
    scores = build_metric("capture", OFFLINE).score(make_items([text, "No."], [[text], [text]]), Context())
    assert not scores.failures
    assert scores.parts["sentences_without_graph"].tolist() == [2, 2]
    assert scores.values[1] == 0


def test_no_wordnet_is_needed_where_none_is_asked(monkeypatch, make_items, write_graphs):
    def nowhere(folder: str | None = None) -> Path:
        raise MetricError("there is no WordNet")

    monkeypatch.setattr(wordnet, "find", nowhere)
    metric = build_metric("capture", OFFLINE)
    metric.check()
    assert "wordnet" not in metric.fingerprint()
    assert metric.score(make_items(["A circle."], [["A circle."]]), Context()).values[0] > 0
    sentences = write_graphs({"sentence": "A circle.", "objects": ["circle"]})
    for settings in (
        {**OFFLINE, "synonyms": True},
        {**OFFLINE, "parser": "recorded", "parser_model": sentences},
        {**OFFLINE, "parser": "spacy"},
    ):
        with pytest.raises(MetricError, match="there is no WordNet"):
            build_metric("capture", settings).check()


def test_words_may_be_others_and_count_in_the_fingerprint(tmp_path: Path):
    file = tmp_path / "words.json"
    shapes = json.loads(SHAPES.read_text())
    file.write_text(json.dumps(shapes, indent=3))
    usual = build_metric("capture", OFFLINE).fingerprint()
    assert build_metric("capture", {**OFFLINE, "parser_model": str(file)}).fingerprint() == usual
    file.write_text(json.dumps({**shapes, "objects": ["dog"]}))
    assert build_metric("capture", {**OFFLINE, "parser_model": str(file)}).fingerprint() != usual
    parsed = GrammarParser(file).parse(["A red dog, a circle."], Context())["A red dog, a circle."]
    assert not isinstance(parsed, str)
    assert parsed.sentences[0].objects == ("dog",)


@pytest.mark.parametrize(("content", "said"), CASES["faulty lists"])
def test_faulty_list_of_words_is_named(tmp_path: Path, content: str, said: str):
    file = tmp_path / "words.json"
    file.write_text(content)
    with pytest.raises(MetricError, match=rf"words\.json.*{said}"):
        build_metric("capture", {**OFFLINE, "parser_model": str(file)}).check()


def test_missing_list_of_words_is_named(tmp_path: Path):
    with pytest.raises(MetricError, match=r"none\.json"):
        GrammarParser(tmp_path / "none.json").check()
