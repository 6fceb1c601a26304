"""BERTScore on a real checkpoint (all-MiniLM-L6-v2 of a test-only package) and on small ones made here."""

import shutil

import numpy as np
import pytest
from full_memory import FULL_MEMORY, fits
from tiny_llm import make_tiny_roberta

from capbench.errors import MetricError
from capbench.metrics import Context
from capbench.metrics.bertscore import BertScore
from capbench.metrics.golden import read_golden

GOLDEN = read_golden("bertscore")


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("roberta")
    make_tiny_roberta(folder, vocabulary=300, layers=3, width=16, positions=22)
    return str(folder)


def assert_golden(scores, golden: list[list[float]]) -> None:
    ours = np.stack([scores.parts["precision"], scores.parts["recall"], scores.parts["f1"]], axis=1)
    np.testing.assert_allclose(ours, golden, rtol=0, atol=1e-5)


def test_composed_captions_give_the_values_of_bert_score(minilm: str, make_items):
    candidates, references = zip(*GOLDEN["composed"]["items"][::4], strict=True)
    scores = BertScore(model=minilm, num_layers=5).score(make_items(candidates, references), Context())
    assert_golden(scores, GOLDEN["composed"]["values"][::4])
    assert not scores.failures
    np.testing.assert_array_equal(scores.values, scores.parts["f1"])


@pytest.mark.data
def test_long_captions_and_five_references_give_the_values_of_bert_score(minilm, iiw, flickr8k_expert, make_items):
    both = make_items(
        [*iiw.candidates[:4], *flickr8k_expert.candidates[:12]], [*iiw.references[:4], *flickr8k_expert.references[:12]]
    )
    scores = BertScore(model=minilm, num_layers=5).score(both, Context())
    assert_golden(scores, GOLDEN["iiw"][:4] + GOLDEN["flickr8k_expert"][:12])


def test_values_do_not_depend_on_neighbours_pieces_or_batches(minilm, composed, make_items, monkeypatch):
    which = range(10)
    items = make_items([composed.candidates[n] for n in which], [composed.references[n] for n in which])
    metric = BertScore(model=minilm, num_layers=5)
    together = metric.score(items, Context())
    monkeypatch.setattr("capbench.metrics.bertscore._TOKENS_A_PIECE", 120)
    monkeypatch.setattr("capbench.metrics.bertscore._TOKENS_A_BATCH", 60)
    apart = metric.score(items, Context())
    for part, values in together.parts.items():
        np.testing.assert_allclose(apart.parts[part], values, atol=1e-6)


@pytest.mark.parametrize("fill_memory", FULL_MEMORY.values(), ids=FULL_MEMORY)
def test_full_memory_halves_the_batch_and_changes_nothing(roberta, make_items, monkeypatch, fill_memory):
    from transformers import RobertaModel

    texts = [f"{'the dog runs ' * (n % 4 + 1)}{n}" for n in range(20)]
    items = make_items(texts, [[texts[-n], "a dog"] for n in range(20)])
    metric = BertScore(model=roberta, num_layers=2)
    whole = metric.score(items, Context())
    sizes = fits(monkeypatch, RobertaModel, "forward", 60, fill_memory, lambda *_, input_ids, **more: input_ids.numel())
    halved = metric.score(items, Context())
    for part, values in whole.parts.items():
        np.testing.assert_allclose(halved.parts[part], values, atol=1e-6)
    # The first counts layers. That the tokens of a batch are too many is found out once, and then kept to.
    first, *tokens = sizes
    assert first < 60
    too_many = [size for size in tokens if size > 60]
    assert len(too_many) > 1
    assert tokens[: len(too_many)] == too_many


def test_matching_that_does_not_fit_is_halved_too(roberta, make_items, monkeypatch):
    import torch

    items = make_items(["a dog", "dogs run", "the dog runs"], [["the dog"], ["a dog runs"], ["dogs"]])
    metric = BertScore(model=roberta, num_layers=2)
    whole = metric.score(items, Context())
    sizes = fits(monkeypatch, torch, "bmm", 1)
    np.testing.assert_allclose(metric.score(items, Context()).values, whole.values, atol=1e-6)
    assert sizes == [3, 1, 1, 1]


def test_text_that_fits_by_no_means_is_an_error_that_names_the_encoder(roberta, make_items, monkeypatch):
    from transformers import RobertaModel

    fits(monkeypatch, RobertaModel, "forward", 0, size=lambda *_, **inputs: "output_hidden_states" not in inputs)
    with pytest.raises(MetricError, match=r"BERTScore's encoder: a single input does not fit.*\n.*'device'"):
        BertScore(model=roberta, num_layers=2).score(make_items(["a dog"], [["a cat"]]), Context())


def test_device_that_is_not_there_is_named(roberta: str, make_items):
    metric = BertScore(model=roberta, num_layers=2, device="tpu")
    with pytest.raises(MetricError, match="device=tpu: Expected one of cpu"):
        metric.score(make_items(["a dog"], [["a cat"]]), Context())


def test_value_is_the_part_that_was_asked_for_and_all_are_kept(minilm, make_items, cache, monkeypatch):
    items = make_items(["a dog runs", "a cat"], [["a dog"], ["two cats", "the cat sleeps"]])
    first = BertScore(model=minilm, num_layers=5).score(items, Context(cache=cache))
    monkeypatch.setattr(
        "capbench.metrics.bertscore._Encoder", lambda *_: pytest.fail("the encoder was loaded for what is known")
    )
    for of in ("precision", "recall"):
        again = BertScore(model=minilm, num_layers=5, of=of).score(items, Context(cache=cache))
        np.testing.assert_array_equal(again.values, first.parts[of])


def test_candidate_without_a_token_and_empty_reference_score_0(minilm: str, make_items):
    items = make_items([" ", "a dog", "a dog"], [["a dog"], [" "], []])
    scores = BertScore(model=minilm, num_layers=5).score(items, Context())
    np.testing.assert_array_equal(scores.values, [0, 0, np.nan])
    assert scores.failures == {2: "item has no reference"}


def test_value_calculated_step_by_step_with_a_space_before_the_first_word(roberta, make_items):
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(roberta), AutoModel.from_pretrained(roberta).eval()

    def vectors(text: str) -> torch.Tensor:
        ids = torch.tensor([tokenizer(f" {text}")["input_ids"]])  # RoBERTa knows " dog", not "dog", as a word
        states = model(ids, output_hidden_states=True).hidden_states[2][0]
        return states / states.norm(dim=1, keepdim=True)

    with torch.no_grad():
        similarity = vectors("dog runs") @ vectors("the dog").T
    # Special tokens at both ends may be matched with, and weigh nothing.
    precision = similarity.max(dim=1).values[1:-1].mean().item()
    recall = similarity.max(dim=0).values[1:-1].mean().item()
    scores = BertScore(model=roberta, num_layers=2).score(make_items(["dog runs"], [["the dog"]]), Context())
    assert scores.parts["precision"][0] == pytest.approx(precision, abs=1e-6)
    assert scores.parts["recall"][0] == pytest.approx(recall, abs=1e-6)
    assert scores.values[0] == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-6)


def test_text_beyond_the_encoder_s_positions_is_cut_off(roberta: str, make_items):
    # 22 positions, of which RoBERTa leaves two unused; two tokens are special.
    items = make_items(["dog " * 18, "dog " * 18], [["dog " * 18], ["dog " * 300]])
    scores = BertScore(model=roberta, num_layers=3).score(items, Context())
    np.testing.assert_allclose(scores.values, 1, atol=1e-6)


def test_default_is_layer_17_of_roberta_large():
    assert BertScore().num_layers == 17


def test_folder_without_weights_and_layer_that_is_not_there_are_errors(roberta, tmp_path, make_items):
    with pytest.raises(MetricError, match="has 3 layers; num_layers is 4"):
        BertScore(model=roberta, num_layers=4).check()
    shutil.copytree(roberta, tmp_path, ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True)
    with pytest.raises(MetricError, match=r"model\.safetensors"):
        BertScore(model=str(tmp_path), num_layers=2).score(make_items(["a dog"], [["a dog"]]), Context())


def test_architecture_that_is_no_plain_encoder_is_an_error(roberta, tmp_path, make_items):
    from transformers import BartConfig, BartModel

    shutil.copytree(roberta, tmp_path, ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True)
    config = BartConfig(
        vocab_size=300, d_model=16, encoder_layers=3, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=24,
    )  # fmt: skip
    BartModel(config).save_pretrained(tmp_path)
    with pytest.raises(MetricError, match="is not a plain encoder: BartModel"):
        BertScore(model=str(tmp_path), num_layers=2).score(make_items(["a dog"], [["a dog"]]), Context())


def test_fingerprint_follows_the_weights_and_not_their_place(roberta: str, tmp_path):
    shutil.copytree(roberta, tmp_path, dirs_exist_ok=True)
    first = BertScore(model=roberta, num_layers=2).fingerprint()
    assert BertScore(model=str(tmp_path), num_layers=2, device="cpu").fingerprint() == first
    assert BertScore(model=roberta, num_layers=3).fingerprint() != first
    weights = tmp_path / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert BertScore(model=str(tmp_path), num_layers=2).fingerprint() != first
