"""Rules over dependency parses that are written out here, and a small trained pipeline."""

import sys
from functools import cache
from typing import Any

import pytest

from capbench.errors import MetricError
from capbench.metrics import Context
from capbench.metrics.capture.scene_graphs import ParsedCaption
from capbench.metrics.capture.spacy_parser import SpacyParser, read_graph


@cache
def vocabulary() -> Any:
    """The vocabulary of English, of which the documents share one."""
    return pytest.importorskip("spacy", reason="needs the extra 'spacy'").blank("en").vocab


def doc(text: str):
    """Return a parsed document; a word is written text/lemma/part of speech/dependency/head's number."""
    vocab = vocabulary()
    from spacy.tokens import Doc

    rows = [word.split("/") for word in text.split()]
    words, lemmas, parts, dependencies, heads = (list(column) for column in zip(*rows, strict=True))
    return Doc(
        vocab, words=words, lemmas=lemmas, pos=parts, deps=dependencies,
        heads=[int(head) for head in heads],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "objects", "attributes", "relations"),
    [
        pytest.param(
            "Two/two/NUM/nummod/4 old/old/ADJ/amod/4 red/red/ADJ/amod/4 traffic/traffic/NOUN/compound/4 "
            "lights/light/NOUN/ROOT/4",
            "traffic light", "traffic light: old, traffic light: red", "",
            id="a noun has its adjectives and the nouns before it",
        ),
        pytest.param(
            "dark/dark/ADJ/amod/1 brown/brown/ADJ/amod/4 and/and/CCONJ/cc/1 white/white/ADJ/conj/1 dog/dog/NOUN/ROOT/4",
            "dog", "dog: dark brown, dog: white", "", id="adjectives joined by and count each",
        ),
        pytest.param(
            "The/the/DET/det/1 sky/sky/NOUN/nsubj/2 is/be/AUX/ROOT/2 blue/blue/ADJ/acomp/2",
            "sky", "sky: blue", "", id="an adjective behind a linking verb is an attribute",
        ),
        pytest.param(
            "man/man/NOUN/nsubj/3 and/and/CCONJ/cc/0 dog/dog/NOUN/conj/0 chase/chase/VERB/ROOT/3 "
            "balls/ball/NOUN/dobj/3 on/on/ADP/prep/3 grass/grass/NOUN/pobj/5",
            "man, dog, ball, grass", "",
            "man: chase: ball, man: chase on: grass, dog: chase: ball, dog: chase on: grass",
            id="a verb relates each subject to each object",
        ),
        pytest.param(
            "cup/cup/NOUN/ROOT/0 on/on/ADP/prep/0 top/top/NOUN/pobj/1 of/of/ADP/prep/2 table/table/NOUN/pobj/3",
            "cup, top, table", "", "cup: on: top, top: of: table", id="a preposition between nouns is a relation",
        ),
        pytest.param(
            "street/street/NOUN/ROOT/0 that/that/PRON/nsubjpass/3 is/be/AUX/auxpass/3 "
            "surrounded/surround/VERB/relcl/0 by/by/ADP/agent/3 trees/tree/NOUN/pobj/4",
            "street, tree", "", "street: surround by: tree", id="a noun that a clause hangs on is its subject",
        ),
        pytest.param(
            "dog/dog/NOUN/nsubj/1 runs/run/VERB/ROOT/1 and/and/CCONJ/cc/1 catches/catch/VERB/conj/1 "
            "it/it/PRON/dobj/3 near/near/ADP/prep/3 trees/tree/NOUN/pobj/5",
            "dog, tree", "", "dog: catch near: tree", id="verbs joined share the subject",
        ),
    ],
)  # fmt: skip
def test_graph_follows_from_the_dependencies(text: str, objects: str, attributes: str, relations: str):
    graph = read_graph(doc(text))
    assert ", ".join(graph.objects) == objects
    assert ", ".join(map(": ".join, graph.attributes)) == attributes
    assert ", ".join(map(": ".join, graph.relations)) == relations


def test_pipeline_parses_and_its_graphs_are_kept(tiny_spacy, cache, monkeypatch: pytest.MonkeyPatch):
    text = "A red car stands on the road ."
    parser = SpacyParser(str(tiny_spacy))
    parser.check()
    parsed = parser.parse([text, text], Context(cache=cache))[text]
    assert isinstance(parsed, ParsedCaption)
    (graph,) = parsed.sentences
    assert graph.objects == ("car", "road")
    assert graph.attributes == (("car", "red"),)
    assert graph.relations == (("car", "stand on", "road"),)
    assert parsed.nouns is not None
    assert set(parsed.nouns) == {"car", "road"}
    monkeypatch.setattr("capbench.metrics.capture.spacy_parser.read_graph", None)
    assert parser.parse([text], Context(cache=cache))[text] == parsed


def test_missing_pipeline_is_told_with_the_command_that_gets_it():
    with pytest.raises(MetricError, match=r"en_none_sm.*\n.*python -m spacy download en_none_sm"):
        SpacyParser("en_none_sm").check()


def test_pipeline_without_a_parser_is_told(tmp_path):
    spacy = pytest.importorskip("spacy", reason="needs the extra 'spacy'")
    spacy.blank("en").to_disk(tmp_path)
    with pytest.raises(MetricError, match="has no parser and no tagger and no lemmatizer"):
        SpacyParser(str(tmp_path)).check()


def test_missing_spacy_is_told_with_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MetricError, match=r"spaCy, which is not installed.*\n.*capbench\[spacy\]"):
        SpacyParser("en_other").check()
