"""The FACTUAL parser on a small T5, against what FactualSceneGraph makes of it."""

import pytest
from full_memory import FULL_MEMORY, fill_cpu, fits

from capbench.errors import MetricError
from capbench.metrics import Context, contract
from capbench.metrics.capture import factual
from capbench.metrics.capture.factual import FactualParser, InputLimit
from capbench.metrics.capture.scene_graphs import Graph, read_graph
from capbench.metrics.golden import read_golden
from capbench.metrics.vectors.checkpoints import Checkpoint

GOLDEN = read_golden("capture")["factual"]


def parser(t5: str, limit: InputLimit = "0.5.0") -> FactualParser:
    return FactualParser(Checkpoint("the parser", "parser_model", t5), limit, device="cpu")


@pytest.mark.parametrize("limit", ["0.5.0", "0.7"])
def test_graphs_are_those_of_factual_scene_graph(t5: str, limit: InputLimit):
    golden = GOLDEN[limit]
    parsed = parser(t5, limit).graphs([case["sentences"] for case in golden], Context())
    for graphs, case in zip(parsed, golden, strict=True):
        for graph, released in zip(graphs, case["graphs"], strict=True):
            if graph is None:
                # There it is an object, which no caption has as a noun.
                assert released["objects"] == [""]
                continue
            assert list(graph.objects) == released["objects"]
            assert sorted(map(list, graph.attributes)) == released["attributes"]
            assert sorted(map(list, graph.relations)) == released["relations"]


def test_the_two_input_limits_give_other_graphs_somewhere():
    assert GOLDEN["0.5.0"] != GOLDEN["0.7"]


def test_second_run_loads_no_model_and_the_limits_share_what_is_equal(t5, cache, monkeypatch):
    sentences = [case["sentences"] for case in GOLDEN["0.5.0"]]
    context = Context(cache=cache)
    first = parser(t5).graphs(sentences, context)
    monkeypatch.setattr(FactualParser, "_load", lambda self: pytest.fail("the model was loaded"))
    assert parser(t5).graphs(sentences, context) == first
    monkeypatch.undo()
    before = len(cache.values)
    parser(t5, "0.7").graphs(sentences, context)
    unique = {sentence for its in sentences for sentence in its}
    assert 0 < len(cache.values) - before < len(unique)


@pytest.mark.parametrize("fill_memory", FULL_MEMORY.values(), ids=FULL_MEMORY)
def test_full_memory_halves_the_batch_and_changes_nothing(t5, cache, monkeypatch, fill_memory):
    from transformers import T5ForConditionalGeneration

    monkeypatch.setattr(contract, "_KEEP_SECONDS", 0.0)
    sentences = [case["sentences"] for case in GOLDEN["0.5.0"][:4]]
    count = len({sentence for its in sentences for sentence in its})
    whole = parser(t5).graphs(sentences, Context())
    monkeypatch.setattr(factual, "_BATCH_ON_CPU", 5)
    sizes = fits(monkeypatch, T5ForConditionalGeneration, "generate", 3, fill_memory)
    assert parser(t5).graphs(sentences, Context(cache=cache)) == whole
    assert count > 5
    # Found out once; what comes after keeps to it, and each batch is kept when it is done.
    assert sizes == [5, *[2] * (count // 2), *([1] if count % 2 else [])]
    assert cache.batches == [count, *sizes[1:]]


def test_sentence_that_fits_by_no_means_is_an_error_that_names_the_parser(t5, monkeypatch):
    from transformers import T5ForConditionalGeneration

    monkeypatch.setattr(T5ForConditionalGeneration, "generate", lambda *arguments, **settings: fill_cpu())
    with pytest.raises(MetricError, match="a single input does not fit into the device's memory"):
        parser(t5).graphs([["A dog runs."]], Context())


def test_fact_forms():
    assert read_graph("( dog , is , brown ) , ( dog , on , grass ) , ( dog , is , 2 )") == Graph(
        ("dog", "grass"), (("dog", "brown"),), (("dog", "on", "grass"),)
    )
    assert read_graph("( dog )") == Graph(("dog",))
    assert read_graph("( dog ) , ( cat , is , big )") == Graph(("cat",), (("cat", "big"),))
    # One that was cut off at the end is dropped.
    assert read_graph("( dog , is , brown ) , ( dog , on , gr") == Graph(("dog",), (("dog", "brown"),))


def test_folder_without_a_checkpoint_is_told(nltk_data: str, tmp_path):
    empty = FactualParser(Checkpoint("CAPTURE's parser", "parser_model", str(tmp_path)))
    with pytest.raises(MetricError, match=r"has no config\.json"):
        empty.check()
    with pytest.raises(MetricError, match="CAPTURE's parser"):
        empty.graphs([["A dog."]], Context())
