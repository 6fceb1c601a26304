"""SPICE and soft-SPICE of given graphs: against the released code, by hand, and beside CAPTURE."""

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from tiny_capture import find_minilm, make_nltk_data, make_t5

from capbench.benchmarks.store.store import Store
from capbench.errors import MetricError, UsageError
from capbench.metrics import Context, Metric, Scores, build_metric
from capbench.metrics.capture.factual import FactualParser
from capbench.metrics.golden import golden_items, read_golden
from capbench.metrics.graph_spice import merged
from capbench.tasks.shapes.reader import foils

pytestmark = pytest.mark.usefixtures("minilm_in_memory")
GOLDEN: list[dict[str, Any]] = read_golden("graph_spice")["graphs"]
RELEASED = {"lemmatize": False, "empty": "phrase"}
"""What the released ``Evaluator`` does unless told otherwise."""


@pytest.fixture
def on_graphs(tmp_path) -> Callable[..., Metric]:
    """Return a function that builds a metric on graphs, each the caption that it is of."""

    def build(name: str, graphs: Sequence[str], **settings: Any) -> Metric:
        file = tmp_path / "graphs.jsonl"
        file.write_text("".join(json.dumps({"caption": graph, "graph": graph}) + "\n" for graph in graphs))
        encoder = {"encoder": str(find_minilm())} if name == "soft_spice" else {}
        return build_metric(name, {"parser": "recorded", "parser_model": str(file), **encoder, **RELEASED, **settings})

    return build


def scored(on_graphs: Callable[..., Metric], name: str, candidate: str, *references: str, **settings: Any) -> Scores:
    metric = on_graphs(name, [candidate, *references], **settings)
    return metric.score(golden_items([candidate], [references]), Context())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store in which vectors of phrases stay."""
    with Store(tmp_path_factory.mktemp("store") / "store.sqlite") as opened:
        yield opened


@pytest.mark.parametrize(("name", "number", "settings"), [
    ("factual_spice", "spice", {}), ("factual_spice", "exact", {"synonyms": False}),
    ("factual_spice", "merged", {"compare": "merged"}),
    ("factual_spice", "merged_exact", {"compare": "merged", "synonyms": False}),
    ("factual_spice", "set_match", {"compare": "graphs"}), ("soft_spice", "soft_spice", {}),
    ("soft_spice", "both", {"both_ways": True}),
])  # fmt: skip
def test_given_graphs_score_as_the_released_code_scores_them(on_graphs, store, name, number, settings):
    metric = on_graphs(name, [text for row in GOLDEN for text in (row["candidate"], *row["references"])], **settings)
    metric.check()
    items = golden_items([row["candidate"] for row in GOLDEN], [row["references"] for row in GOLDEN])
    scores = metric.score(items, Context(cache=store))
    assert scores.failures == {}
    assert scores.values == pytest.approx([row[number] for row in GOLDEN], abs=1e-6)


def test_an_attribute_and_an_object_of_the_same_letters_count_once(on_graphs: Callable[..., Metric]):
    # Released code gives 2/3 or 0, by PYTHONHASHSEED: which of both it sees first decides what the letters are.
    scores = scored(on_graphs, "factual_spice", "( traffic , is , light ) , ( traffic light )", "( traffic light )")
    assert scores.values[0] in (0.0, pytest.approx(2 / 3))


def test_synonyms_match_in_every_place_and_each_tuple_once(on_graphs: Callable[..., Metric]):
    # (auto), (auto, red) and (auto, on, road): of the first and the third all words have a set in common with
    # theirs, "red" and "blue" have none. The second of "car" and "automobile" finds none that is free.
    candidate = "( auto , is , red ) , ( auto , on , road )"
    reference = "( car , is , blue ) , ( car , on , route )"
    scores = scored(on_graphs, "factual_spice", candidate, reference)
    assert (scores.parts["precision"][0], scores.parts["recall"][0]) == (3 / 4, 3 / 4)
    both = scored(on_graphs, "factual_spice", "( car ) , ( automobile )", "( auto )")
    assert (both.parts["precision"][0], both.parts["recall"][0]) == (1 / 2, 1)


def test_words_become_lemmas_but_for_the_is_of_attributes(on_graphs, wordnet_folder):
    graphs = ("( dogs , is , brown )", "( dog , is , brown )")
    settings = {"synonyms": False, "wordnet": wordnet_folder}
    assert scored(on_graphs, "factual_spice", *graphs, **settings).values.tolist() == [0.0]
    lemmas = on_graphs("factual_spice", graphs, lemmatize=True, **settings)
    assert lemmas.score(golden_items(graphs[:1], [graphs[1:]]), Context()).values.tolist() == [1.0]
    assert "wordnet" in lemmas.fingerprint()


def test_counts_and_facts_of_other_sizes_stay_in(on_graphs: Callable[..., Metric]):
    same = scored(on_graphs, "factual_spice", "( cat , is , 2 )", "( cat , is , 2 )")
    other = scored(on_graphs, "factual_spice", "( cat , is , 2 )", "( cat , is , 3 )")
    assert (same.values[0], other.values[0]) == (1.0, 0.5)
    assert scored(on_graphs, "factual_spice", "( cat , big )", "( cat , is , big )").values[0] == 1.0


def test_a_relation_is_all_that_stands_between_two_objects(on_graphs: Callable[..., Metric]):
    long = "( dog , sits on , top of , mat )"
    assert scored(on_graphs, "factual_spice", long, "( dog , sits on top of , mat )").values[0] == 1.0
    # Both objects match, the relation does not.
    for other in ("( dog , top of , mat )", "( dog , sits on , mat )"):
        assert scored(on_graphs, "factual_spice", long, other).values[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("empty", "candidate", "reference", "value"), [
    ("nothing", " ", "( dog )", 0.0), ("nothing", "( dog )", " ", 0.0), ("nothing", " ", "", 0.0),
    ("phrase", " ", "", 1.0), ("phrase", "( dog )", "", 0.3),
])  # fmt: skip
def test_caption_that_says_nothing_is_not_parsed_and_scores_0_unless_its_empty_text_is_compared(
    on_graphs: Callable[..., Metric], empty: str, candidate: str, reference: str, value: float
):
    scores = scored(on_graphs, "soft_spice", candidate, reference, empty=empty)
    assert scores.values[0] == pytest.approx(value, abs=0.1 if value == 0.3 else 1e-6)


def test_what_cannot_be_parsed_is_named_and_costs_its_item_alone(on_graphs: Callable[..., Metric]):
    metric = on_graphs("factual_spice", ["( dog )", "dog"])
    items = golden_items(
        ["( dog )", "dog", "( dog )", "( dog )"], [["( dog )"], ["( dog )"], ["( dog )", "( cat )"], []]
    )
    scores = metric.score(items, Context())
    assert scores.values[0] == 1.0
    assert np.isnan(scores.values[1:]).all()
    assert "its recorded graph has no parentheses" in scores.failures[1]
    assert scores.failures[1].startswith("candidate: ")
    assert scores.failures[2].startswith("reference 2: ")
    assert scores.failures[3] == "item has no reference"


@pytest.mark.parametrize("graph", [3, ["( dog )"]])
def test_recorded_graph_that_is_no_text_is_named(tmp_path, graph: Any):
    file = tmp_path / "graphs.jsonl"
    file.write_text(json.dumps({"caption": "a", "graph": graph}))
    metric = build_metric("factual_spice", {"parser": "recorded", "parser_model": str(file), **RELEASED})
    assert "no text" in metric.score(golden_items(["a"], [["a"]]), Context()).failures[0]


def test_capture_and_both_of_these_parse_once(tmp_path, wordnet_folder, cache, monkeypatch):
    monkeypatch.setattr("nltk.data.path", [str(make_nltk_data(tmp_path / "nltk_data"))])
    shared = {"parser_model": str(make_t5(tmp_path / "t5")), "wordnet": wordnet_folder, "device": "cpu"}
    items = golden_items(["A dog runs on grass. A cat sits."], [["A dog runs.", "A man rides a horse."]])
    parsed: list[str] = []
    write = FactualParser._generate

    def counted(self: FactualParser, batch: Sequence[Any]) -> list[str]:
        parsed.extend(entry.sentence for entry in batch)
        return write(self, batch)

    monkeypatch.setattr(FactualParser, "_generate", counted)
    context = Context(cache=cache)
    build_metric("factual_spice", shared).score(items, context)
    assert sorted(parsed) == ["A cat sits.", "A dog runs on grass.", "A dog runs.", "A man rides a horse."]
    build_metric("capture", {**shared, "soft": False}).score(items, context)
    phrases = {"encoder": str(find_minilm()), "lemmatize": False}
    scores = build_metric("soft_spice", {**shared, **phrases}).score(items, context)
    assert len(parsed) == 4
    assert np.isfinite(scores.values).all()


def test_true_captions_of_scenes_stand_above_those_with_a_wrong_shape():
    rows = list(foils(40))
    captions = [text for row in rows for text in row["captions"]]
    items = golden_items(captions, [row["references"] for row in rows for _ in row["captions"]])
    settings = {"parser": "grammar", "encoder": str(find_minilm()), "lemmatize": False}
    values = build_metric("soft_spice", settings).score(items, Context()).values.reshape(-1, 2)
    true = np.array([row["preferred"] for row in rows])
    right = values[np.arange(40), true] > values[np.arange(40), 1 - true]
    assert right.mean() >= 0.95


def test_label_names_what_is_not_released_and_the_fingerprint_what_decides_a_value(on_graphs):
    assert build_metric("factual_spice", {}).label == "SPICE (FACTUAL)"
    assert build_metric("factual_spice", {"compare": "graphs"}).label == "SPICE (FACTUAL) (set match)"
    merged = build_metric("factual_spice", {"compare": "merged", "parser": "grammar"})
    assert merged.label == "SPICE (FACTUAL) (merged, grammar)"
    assert build_metric("soft_spice", {"device": "cpu"}).label == "soft-SPICE"
    both = build_metric("soft_spice", {"both_ways": True, "parser": "grammar", "encoder": "x/other"})
    assert both.label == "soft-SPICE (both ways, grammar, other)"
    fingerprint = on_graphs("soft_spice", ["( dog )"]).fingerprint()
    assert fingerprint["pooling"] == "mean, normalised"
    assert "label" not in fingerprint
    others = [{"empty": "nothing"}, {"both_ways": True}]
    assert all(on_graphs("soft_spice", ["( dog )"], **other).fingerprint() != fingerprint for other in others)
    exact = on_graphs("factual_spice", ["( dog )"], synonyms=False).fingerprint()
    assert exact["synonyms"] is False
    assert on_graphs("factual_spice", ["( dog )"]).fingerprint()["synonyms"] != exact["synonyms"]
    # Merging asks the tables whether synonyms match or not; whole graphs are compared without them.
    assert "compare" not in exact
    merged = [
        on_graphs("factual_spice", ["( dog )"], compare="merged", synonyms=synonyms).fingerprint()
        for synonyms in (False, True)
    ]
    assert merged[0] != merged[1]
    assert all(fingerprint["compare"] == "merged" and "WordNet" in fingerprint["merged"] for fingerprint in merged)
    whole = on_graphs("factual_spice", ["( dog )"], compare="graphs").fingerprint()
    assert (whole["compare"], whole["synonyms"], "merged" in whole) == ("graphs", True, False)


def test_words_are_merged_over_one_that_is_like_both_wherever_they_stand():
    # "a" and "b" have nothing in common, "c" has with both; "q" is in no set, not even one with itself.
    sets = {"a": {1}, "b": {2}, "c": {1, 2}, "r": {5}, "z": {6}}
    names = [(name,) for name in "abcz"]
    said = [(name, "r", "z") for name in "abc"]

    def synonyms(word: str) -> frozenset[int]:
        return frozenset(sets.get(word, ()))

    abc = set("abc")
    assert merged(names, synonyms) == [[abc], [{"z"}]]
    assert merged([*names, *said], synonyms) == [[abc], [{"z"}], [abc, {"r"}, {"z"}]]
    mirrored = [tuple(reversed(words)) for words in said]
    assert merged([*names, *mirrored], synonyms) == [[abc], [{"z"}], [{"z"}, {"r"}, abc]]
    assert merged([("q",), ("q", "r")], synonyms) == [[{"q"}], [{"q"}, {"r"}]]


@pytest.mark.parametrize("compare", ["tuples", "merged", "graphs"])
@pytest.mark.parametrize("graph", [" ", "( )"])
def test_graphs_that_say_nothing_are_not_the_same(on_graphs: Callable[..., Metric], graph: str, compare: str):
    for empty, value in (("nothing", 0), ("phrase", 1)):
        scores = scored(on_graphs, "factual_spice", graph, graph, compare=compare, empty=empty)
        assert scores.values.tolist() == [value]


def test_unknown_setting_is_refused():
    with pytest.raises(UsageError, match="merge"):
        build_metric("factual_spice", {"merge": True})


def test_what_is_missing_is_said_before_anything_is_scored(on_graphs: Callable[..., Metric], tmp_path):
    missing = {"lemmatize": True, "wordnet": str(tmp_path / "none"), "encoder": "no such/encoder"}
    with pytest.raises(MetricError) as raised:
        on_graphs("soft_spice", ["( dog )"], **missing).check()
    assert "WordNet" in str(raised.value)
    assert "encoder" in str(raised.value)
    on_graphs("soft_spice", ["( dog )"], wordnet=str(tmp_path / "none")).check()


def test_synonyms_need_the_jar_and_exact_words_do_not(on_graphs, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for settings in ({}, {"compare": "merged", "synonyms": False}):
        with pytest.raises(MetricError, match=r"meteor-1\.5\.jar is missing"):
            on_graphs("factual_spice", ["( dog )"], **settings).check()
    on_graphs("factual_spice", ["( dog )"], synonyms=False).check()
    on_graphs("factual_spice", ["( dog )"], compare="graphs").check()
