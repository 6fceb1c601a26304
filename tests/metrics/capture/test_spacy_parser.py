"""Rules over dependency parses that are written out here, and a small trained pipeline."""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from capbench.errors import MetricError
from capbench.metrics import Context
from capbench.metrics.capture.scene_graphs import ParsedCaption
from capbench.metrics.capture.spacy_parser import SpacyParser, read_graph

GRAPHS = yaml.safe_load(Path(__file__).with_name("graphs.yaml").read_text(encoding="utf-8"))


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


@pytest.mark.parametrize("case", GRAPHS.values(), ids=GRAPHS)
def test_graph_follows_from_the_dependencies(case: dict[str, str]):
    graph = read_graph(doc(case["text"]))
    assert ", ".join(graph.objects) == case["objects"]
    assert ", ".join(map(": ".join, graph.attributes)) == case["attributes"]
    assert ", ".join(map(": ".join, graph.relations)) == case["relations"]


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
