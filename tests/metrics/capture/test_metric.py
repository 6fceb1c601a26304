"""CAPTURE as a metric: against the released code, by hand, and where something is wrong or missing."""

import gc
import json
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import pytest

from capbench.errors import MetricError
from capbench.metrics import Context, build_metric
from capbench.metrics.capture.metric import Capture
from capbench.metrics.capture.phrases import PhraseEncoder
from capbench.metrics.golden import read_golden
from capbench.metrics.vectors.checkpoints import Checkpoint

pytestmark = pytest.mark.usefixtures("minilm_in_memory")
GOLDEN = read_golden("capture")["pairs"]
PARTS = [f"{kind}_{name}" for kind in ("object", "attribute", "relation") for name in ("precision", "recall", "f1")]

RED_CAR = {
    "caption": "A red car stands on a road.",
    "objects": ["car", "road"],
    "attributes": {"car": ["red"]},
    "relations": [["car", "on", "road"]],
}
AUTO = {
    "caption": "A big automobile drives down the street.",
    "objects": ["automobile", "street"],
    "attributes": [["automobile", "big"]],
    "relations": [["automobile", "down", "street"]],
}
ROUTE = {
    "caption": "A ruddy auto on a route.",
    "objects": ["auto", "route"],
    "attributes": [["auto", "ruddy"]],
    "relations": [["auto", "on", "route"]],
}


def test_given_graphs_score_as_the_released_code_scores_them(princeton, minilm, write_graphs, make_items):
    rows, candidates, references = [], [], []
    for number, pair in enumerate(GOLDEN):
        for side in ("candidate", "reference"):
            objects, attributes, relations = pair[side]
            rows.append({"caption": f"{side} {number}", "objects": objects, "attributes": dict(attributes)})
            rows[-1]["relations"] = relations
        candidates.append(f"candidate {number}")
        references.append([f"reference {number}"])
    metric = Capture(parser="recorded", parser_model=write_graphs(*rows), encoder=minilm, wordnet=str(princeton))
    scores = metric.score(make_items(candidates, references), Context())
    ours = np.stack([scores.values, *(scores.parts[name] for name in PARTS)], axis=1)
    np.testing.assert_allclose(ours, [pair["values"] for pair in GOLDEN], rtol=0, atol=1e-5)


def test_weights_are_those_of_objects_attributes_and_relations(capture, write_graphs, make_items):
    file = write_graphs(RED_CAR, AUTO)
    items = make_items([AUTO["caption"]], [[RED_CAR["caption"]]])
    hard = capture(file, soft=False).score(items, Context())
    # The car matches, the road and the rest do not: object F1 1/2.
    assert [hard.parts[f"{kind}_f1"][0] for kind in ("object", "attribute", "relation")] == [
        pytest.approx(value, abs=1e-5) for value in (0.5, 0, 0)
    ]
    assert hard.values[0] == pytest.approx(5 * 0.5 / 12, abs=1e-5)
    assert capture(file, soft=False, gamma=0).score(items, Context()).values[0] == pytest.approx(0.25, abs=1e-5)


def test_several_references_give_the_mean(capture, write_graphs, make_items):
    metric = capture(write_graphs(RED_CAR, AUTO, ROUTE))
    texts = [case["caption"] for case in (RED_CAR, AUTO, ROUTE)]
    both = metric.score(make_items([texts[0]], [texts[1:]]), Context())
    single = metric.score(make_items([texts[0]] * 2, [[texts[1]], [texts[2]]]), Context())
    assert both.values[0] == pytest.approx(single.values.mean(), abs=1e-7)
    for name, part in both.parts.items():
        if name != "sentences_without_graph":
            assert part[0] == pytest.approx(single.parts[name].mean(), abs=1e-7)
    explained = metric.explain(texts[0], texts[1:])
    assert [explanation.value for explanation in explained] == pytest.approx(single.values.tolist(), abs=1e-7)


SENTENCES = [
    {"sentence": "Buildings stand near the sky.", "objects": ["building", "sky"]},
    {"sentence": "A potted plant and traffic lights.", "objects": ["potted plant", "traffic lights"]},
    {"sentence": "The scene shows the lights.", "objects": ["scene", "lights", "Scene"],
     "attributes": [["scene", "big"], ["lights", "made of glass"], ["lights", "bluer"]]},
    {"sentence": "The dog.", "relations": [["dog", "near", "sky"], ["dog", "near", "unicorn"]]},
]  # fmt: skip


def graph_of(metric: Capture, caption: str):
    return metric.explain(caption, [caption])[0].candidate


def test_noun_that_is_only_capitalised_loses_its_object(capture, write_graphs):
    graph = graph_of(capture(write_graphs(*SENTENCES)), "Buildings stand near the sky.")
    assert graph.objects == ("sky",)
    assert graph.left_out == (("building", "not a noun of the caption"),)


def test_plural_objects_of_several_words_and_those_with_an_adjective_vanish(capture, write_graphs):
    graph = graph_of(capture(write_graphs(*SENTENCES)), "A potted plant and traffic lights.")
    # "traffic lights" keeps its plural, the caption's noun "lights" becomes "light"; "potted" is no noun.
    assert graph.objects == ()
    assert [name for name, _ in graph.left_out] == ["potted plant", "traffic lights"]


def test_stop_words_take_objects_alone_and_case_matters(capture, write_graphs):
    file = write_graphs(*SENTENCES)
    graph = graph_of(capture(file), "The scene shows the lights.")
    assert graph.objects == ("light",)
    assert graph.attributes == (("scene", "big"), ("light", "blue"))
    assert ("scene", "stop word") in graph.left_out
    # Not "scene", and not one of the nouns as it is written.
    assert ("Scene", "not a noun of the caption") in graph.left_out
    assert "scene" in graph_of(capture(file, stop_words=False), "The scene shows the lights.").objects


def test_relation_counts_if_both_ends_are_nouns_of_the_caption(capture, write_graphs):
    caption = "The sky is blue. The dog."
    rows = [*SENTENCES, {"sentence": "The sky is blue.", "objects": ["sky"], "attributes": [["sky", "blue"]]}]
    graph = graph_of(capture(write_graphs(*rows)), caption)
    assert graph.relations == (("dog", "near", "sky"),)
    assert graph.objects == ("dog", "sky")


def test_released_stop_words_are_317_and_three_are_capitalised(capture, write_graphs):
    words = capture(write_graphs(RED_CAR))._stop_list
    assert len(words) == 317
    assert sorted(word for word in words if word != word.lower()) == ["Atmosphäre", "Moment", "Nature"]


def test_caption_without_a_graph_is_a_failure_of_its_item_alone(capture, write_graphs, make_items):
    metric = capture(write_graphs(RED_CAR, AUTO, "{not json\n"))
    a, b = RED_CAR["caption"], AUTO["caption"]
    scores = metric.score(make_items([a, "Unknown.", a, a], [[b], [b], [b, "Other."], []]), Context())
    assert np.isfinite(scores.values).tolist() == [True, False, False, False]
    assert scores.failures[1].startswith("candidate: the parser gave no graph: graphs.jsonl has no row of this")
    assert "1 of its rows cannot be used, such as graphs.jsonl:3" in scores.failures[1]
    assert scores.failures[2].startswith("reference 2: the parser gave no graph")
    assert scores.failures[3] == "item has no reference"


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"objects": "car"}, "objects"),
        ({"objects": [1]}, "objects"),
        ({"attributes": {"car": "red"}}, "attributes"),
        ({"attributes": [["car"]]}, "attributes"),
        ({"relations": [["car", "on"]]}, "relations"),
        ({"relations": "car on road"}, "relations"),
    ],
)
def test_recorded_graph_of_another_form_is_named(capture, write_graphs, make_items, fields, part):
    metric = capture(write_graphs(RED_CAR, {"caption": "Bad.", **fields}))
    scores = metric.score(make_items(["Bad.", RED_CAR["caption"]], [[RED_CAR["caption"]]] * 2), Context())
    assert list(scores.failures) == [0]
    assert f"its recorded {part}" in scores.failures[0]
    assert scores.values[1] == pytest.approx(1, abs=1e-5)


def test_sentences_of_which_the_parser_writes_no_graph_are_counted(t5, nltk_data, wordnet_folder, minilm, make_items):
    metric = Capture(parser_model=t5, encoder=minilm, wordnet=wordnet_folder, device="cpu")
    metric.check()
    texts = ["A big dog runs. The man sits near the tree.", "Two dogs run over the grass. The sky is blue."]
    scores = metric.score(make_items(texts, [[texts[1]], [texts[0]]]), Context())
    assert (scores.parts["sentences_without_graph"] >= 0).all()
    assert all("the parser gave no graph" in reason for reason in scores.failures.values())
    assert np.isfinite(scores.values).sum() == 2 - len(scores.failures)


def test_second_run_encodes_nothing_and_changes_nothing(capture, write_graphs, make_items, cache, monkeypatch):
    file = write_graphs(RED_CAR, AUTO)
    items = make_items([AUTO["caption"]], [[RED_CAR["caption"]]])
    context = Context(cache=cache)
    first = capture(file).score(items, context)
    monkeypatch.setattr(PhraseEncoder, "_encode", lambda self, phrases: pytest.fail("encoded again"))
    np.testing.assert_array_equal(capture(file).score(items, context).values, first.values)


def test_pieces_change_nothing(capture, write_graphs, make_items, monkeypatch: pytest.MonkeyPatch):
    texts = [case["caption"] for case in (RED_CAR, AUTO, ROUTE)]
    items = make_items(texts, [texts[1:], texts[:1], texts])
    metric = capture(write_graphs(RED_CAR, AUTO, ROUTE))
    whole = metric.score(items, Context())
    monkeypatch.setattr("capbench.metrics.capture.metric._ITEMS_A_PIECE", 1)
    np.testing.assert_allclose(metric.score(items, Context()).values, whole.values, atol=1e-6)


def test_vectors_are_those_of_sentence_transformers(minilm: str):
    transformers = pytest.importorskip("sentence_transformers")

    phrases = ["car", "a very big red car on the road near the sea", "", "x" * 3000, "Straße"]
    ours = PhraseEncoder(Checkpoint("encoder", "encoder", minilm), "cpu").vectors(phrases, Context())
    theirs = transformers.SentenceTransformer(minilm, device="cpu").encode(phrases)
    for phrase, vector in zip(phrases, theirs, strict=True):
        np.testing.assert_allclose(ours[phrase], vector, atol=1e-6)


def test_metrics_share_an_encoder_for_as_long_as_one_of_them_holds_it(minilm: str):
    from transformers import AutoModel

    def encoder() -> PhraseEncoder:
        return PhraseEncoder(Checkpoint("encoder", "encoder", minilm), "cpu")

    loaded: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        load = AutoModel.from_pretrained
        patch.setattr(AutoModel, "from_pretrained", lambda name, **more: (loaded.append(name), load(name, **more))[1])
        patch.setattr("capbench.metrics.capture.phrases._IN_USE", WeakValueDictionary())
        first, second = encoder(), encoder()
        for metric in (first, second):
            metric.vectors(["a dog"], Context())
        assert loaded == [minilm]
        del first, second, metric
        gc.collect()
        encoder().vectors(["a dog"], Context())
        assert loaded == [minilm, minilm]


def test_encoder_that_pools_in_another_way_is_refused(minilm: str, tmp_path: Path):

    for file in Path(minilm).iterdir():
        if file.is_file():
            (tmp_path / file.name).symlink_to(file)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": false}')
    encoder = PhraseEncoder(Checkpoint("CAPTURE's text encoder", "encoder", str(tmp_path)), "cpu")
    with pytest.raises(MetricError, match="does not average token vectors"):
        encoder.vectors(["a"], Context())


def test_settings_change_the_fingerprint_and_places_do_not(capture, write_graphs, minilm: str):
    file = write_graphs(RED_CAR)
    base = capture(file).fingerprint()
    for settings in (
        {"substring": False}, {"synonyms": False}, {"soft": "mean"}, {"soft": False}, {"stop_words": False},
        {"gamma": 0}, {"repeated_attributes": False},
    ):  # fmt: skip
        assert capture(file, **settings).fingerprint() != base
    assert capture(file, device="cpu").fingerprint() == base
    assert minilm not in json.dumps(base)


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({}, "CAPTURE"),
        ({"of": "attribute_precision", "parser": "grammar"}, "CAPTURE-Precision (attributes, grammar)"),
        ({"parser_model": "models/other-t5"}, "CAPTURE (other-t5)"),
        (
            {"parser": "spacy", "parser_model": "models/en_core_web_md", "encoder": "hub/all-MiniLM-L6-v2"},
            "CAPTURE (spaCy en_core_web_md, all-MiniLM-L6-v2)",
        ),
        ({"encoder": "hub/all-MiniLM-L6-v2", "soft": False}, "CAPTURE"),
    ],
)
def test_label_names_the_number_and_the_parser_and_encoder_that_are_not_the_released_ones(settings, label: str):
    assert build_metric("capture", settings).label == label


def test_missing_parts_are_told_before_work_starts(capture, write_graphs, tmp_path: Path):
    file = write_graphs(RED_CAR)
    capture(file).check()
    for settings, said in (
        ({"wordnet": str(tmp_path)}, "WordNet is not in"),
        ({"encoder": str(tmp_path)}, r"has no config\.json"),
        ({"parser_model": str(tmp_path / "none.jsonl")}, "there is no such file"),
    ):
        with pytest.raises(MetricError, match=said):
            capture(file, **settings).check()


def test_file_without_graphs_is_told(capture, write_graphs):
    with pytest.raises(MetricError, match="no row has 'caption' or 'sentence'"):
        capture(write_graphs({"text": "A car."})).check()


@pytest.mark.parametrize("of", ["precision", "recall", *PARTS])
def test_any_of_the_numbers_may_be_the_value(capture, write_graphs, make_items, of: str):
    file = write_graphs(RED_CAR, AUTO, ROUTE)
    texts = [case["caption"] for case in (RED_CAR, AUTO, ROUTE)]
    items = make_items(texts[:2], [texts[1:], texts[2:]])
    whole, part = capture(file), capture(file, of=of)
    scores = part.score(items, Context())
    alone = part.score(make_items(texts[:2], [texts[1:], texts[2:]]), Context())
    expected = whole.score(make_items(texts[:2], [texts[1:], texts[2:]]), Context())
    np.testing.assert_array_equal(scores.values, expected.parts[of])
    np.testing.assert_array_equal(alone.values, scores.values)
    # The captions are parsed and matched once for all numbers.
    assert whole.score(items, Context()).parts is scores.parts
    assert part.fingerprint() == {**whole.fingerprint(), "of": of}
    assert whole.fingerprint() == capture(file, of="f1").fingerprint()


def test_other_settings_are_not_taken_for_the_same_numbers(capture, write_graphs, make_items):
    file = write_graphs(RED_CAR, AUTO)
    items = make_items([AUTO["caption"]], [[RED_CAR["caption"]]])
    soft, hard = capture(file, of="recall"), capture(file, of="recall", soft=False)
    assert soft.score(items, Context()).values[0] > hard.score(items, Context()).values[0]
