"""The trainers of captioners: rewards, gradients, resuming, and what is said of recipes that cannot do."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_training import untold
from PIL import Image
from safetensors.torch import load_file
from tiny_recipes import REFUSED, VALIDATION, gradients

from capbench.adapters.aliases import resolve_model
from capbench.adapters.captioners.hf import HfCaptioner
from capbench.adapters.contracts import Writing
from capbench.errors import AdapterError, BenchError, TrainingError, UsageError
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import opened, run_recipe
from capbench.recipes.training.history import StepReport
from capbench.recipes.training.loop import Loop
from capbench.recipes.training.scst import advantages

pytestmark = pytest.mark.costly

Make = Callable[..., TrainingCall]
CIDER = {"metric": "cider", "document_frequencies": "images"}


def first_step(trainer: Any) -> tuple[dict[str, float], dict[str, torch.Tensor], Any, list[Any], list[list[int]]]:
    """Return the terms and gradients of the first step, its rows, the inputs of its pieces, and the captions."""
    terms, grads, rows = trainer.backward(0), gradients(trainer), trainer.rows_of(0)
    pieces = [trainer.inputs(piece) for piece, _ in trainer.pieces(rows)]
    return terms, grads, rows, pieces, trainer._written(pieces, trainer._writing, 0)


@pytest.mark.parametrize("objective", [{}, {"candidates": "samples", "length_norm": "tokens"}, {"piece": 3}])
def test_gradient_is_that_of_the_equation_caption_by_caption(scst, both, objective):
    trainer: Any = opened(scst(objective={"reward": both, **objective}))
    terms, grads, rows, _, written = first_step(trainer)
    rewards = trainer._scored(rows, written, 3).total.reshape(4, 3)
    assert terms["reward"] == pytest.approx(rewards.mean())
    assert rewards.std(1).max() > 0
    loss = torch.zeros(())
    for row, captions, better in zip(
        rows, np.array_split(np.array(written, object), 4), advantages(rewards, "mean"), strict=True
    ):
        for ids, advantage in zip(captions, better, strict=True):
            total = trainer.trainable.log_probs(trainer.inputs([row]), [list(ids)]).sum()
            norm = len(ids) if objective.get("length_norm") else 1
            loss = loss - advantage * total / norm / 12
    loss.backward()
    expected = gradients(trainer)
    assert terms["loss"] == pytest.approx(loss.item(), abs=1e-5)
    assert grads.keys() == expected.keys()
    for name, gradient in grads.items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-5, rtol=1e-3)


def test_a_caption_alone_is_held_against_the_greedy_one(scst: Make, both: list[dict[str, Any]]):
    objective = {"reward": both, "captions": 1, "candidates": "samples", "baseline": "greedy", "piece": 3}
    trainer: Any = opened(scst(objective=objective))
    terms, grads, rows, pieces, written = first_step(trainer)
    greedy = [ids for piece in pieces for ids in trainer.trainable.write_captions(piece, Writing(1, False, 8))]
    better = trainer._scored(rows, written, 1).total - trainer._scored(rows, greedy, 1).total
    assert np.abs(better).max() > 0
    log_probs = trainer.trainable.log_probs(trainer.inputs(rows), written)
    loss = -(torch.tensor(better, dtype=torch.float32) * log_probs.sum(1)).sum() / 4
    loss.backward()
    assert terms["loss"] == pytest.approx(loss.item(), abs=1e-5)
    assert terms["tokens"] == sum(map(len, written)) / 4
    assert (terms["unscored"], terms["clip_s"] > 0) == (0, True)
    for name, gradient in gradients(trainer).items():
        torch.testing.assert_close(grads[name], gradient, atol=1e-5, rtol=1e-3)


def test_validation_is_the_mean_reward_of_greedy_captions_that_have_one(scst, both):
    measure = {"metrics": ["length"]}
    trainer: Any = opened(scst(data=VALIDATION, objective={"reward": both, "piece": 2}, measure=measure))
    inputs = [trainer.inputs(piece) for piece, _ in trainer.pieces(trainer.validation)]
    written = [ids for batch in inputs for ids in trainer.trainable.write_captions(batch, Writing(1, False, 8))]
    expected = trainer._scored(trainer.validation, written, 1).total
    # Captions that metrics and rewards are computed of are written once.
    write, calls = trainer.trainable.write_captions, list[object]()
    counted = replace(trainer.trainable, write_captions=lambda *inputs: calls.append(inputs) or write(*inputs))
    trainer.trainable = counted
    values = trainer.validate()
    assert values == {"validation_loss": pytest.approx(-expected.mean()), "length": values["length"]}
    assert len(calls) == len(inputs)
    trainer = opened(scst(data=VALIDATION, objective={"reward": [CIDER, both[1]], "piece": 2}))
    trainer.validation[1:] = [replace(row, captions=()) for row in trainer.validation[1:]]
    known = trainer._scored(trainer.validation[:1], written[:1], 1).total
    assert trainer.validate() == {"validation_loss": pytest.approx(-known[0])}
    trainer.validation[:1] = []
    assert np.isnan(trainer.validate()["validation_loss"])


def test_images_of_rewards_are_encoded_once_and_captions_of_an_image_once_a_step(scst, both, monkeypatch):
    trainer: Any = opened(scst(objective={"reward": both[:1]}))
    rewards, rows = trainer._rewards, trainer.rows.rows
    (encoder,) = rewards._models.values()
    encoded: dict[str, list[int]] = {"images": [], "texts": []}
    for kind, sizes in encoded.items():
        own = getattr(encoder, kind)
        monkeypatch.setattr(
            encoder, kind, lambda batch, own=own, sizes=sizes: (sizes.append(len(batch)), own(batch))[1]
        )
    of = [rows[0], rows[0], rows[1], rows[0]]
    totals = rewards.of(of, ["a red star", "a blue star", "a red star", "a red star"]).total
    assert totals[0] == totals[3] != totals[1]
    assert len({*totals.tolist()}) == 3
    assert encoded == {"images": [2], "texts": [2]}
    again = rewards.of(of[:1], ["a red star"]).total
    assert again[0] == pytest.approx(totals[0])
    assert (encoded["images"], encoded["texts"]) == ([2], [2, 1])
    monkeypatch.setattr("capbench.recipes.training.rewards._MOST_KEPT", 0)
    for _ in range(2):
        rewards.of(rows[2:3], ["a red star"])
    assert encoded["images"] == [2, 1, 1]


@pytest.mark.parametrize("folder", ["captioner", "tiny_llava", "tiny_qwen2_vl", "tiny_vit_gpt2"])
def test_pass_with_gradients_gives_what_the_library_thought_when_it_wrote(folder, request):
    model = HfCaptioner(str(request.getfixturevalue(folder)), device="cpu")
    trainable, asked = model.to_trainable(), "Describe this image in detail."
    # Of other sizes, so that instructions are of other lengths where images become as many tokens as they are large.
    inputs = trainable.inputs([Image.new("RGB", (64, 48), "red"), Image.new("RGB", (90, 90), "blue")], asked)
    output = model.model.generate(
        **inputs, generation_config=model.generation_config(max_new_tokens=6), return_dict_in_generate=True,
        output_scores=True,
    )  # fmt: skip
    thought = model.model.compute_transition_scores(output.sequences, output.scores, normalize_logits=True)
    written = trainable.write_captions(inputs, Writing(1, False, 6))
    log_probs = trainable.log_probs(inputs, [ids for ids in written for _ in range(2)])
    for number, ids in enumerate(written):
        for row in (2 * number, 2 * number + 1):
            torch.testing.assert_close(log_probs[row, : len(ids)], thought[number, : len(ids)], atol=1e-4, rtol=0)
            assert not log_probs[row, len(ids) :].any()
    beams = trainable.write_captions(inputs, Writing(3, False, 6))
    assert len(beams) == 6
    assert len({tuple(ids) for ids in beams[:3]}) == 3


def test_captions_become_tokens_that_answer_the_instruction(captioner: Path, tiny_llava: Path):
    for folder in (captioner, tiny_llava):
        model = HfCaptioner(str(folder), device="cpu")
        trainable = model.to_trainable()
        (ids,) = trainable.tokens(["a small red circle"], "Describe.")
        assert ids[-1] == model.end_ids[0]
        assert trainable.texts([ids])[0].strip() == "a small red circle"
        assert model.processor.tokenizer.bos_token_id not in ids


def test_what_the_frozen_tower_sees_is_kept_and_changes_nothing(scst: Make, monkeypatch: pytest.MonkeyPatch):
    kept, open_tower = opened(scst()), opened(scst(train=["*"]))
    rows = kept.rows_of(0)
    first, again = kept.inputs(rows[:2]), kept.inputs(rows[::-1])
    assert first["pixel_values"].ndim == 3
    assert open_tower.inputs(rows)["pixel_values"].ndim == 4
    torch.testing.assert_close(again["pixel_values"].flip(0)[:2], first["pixel_values"], atol=0, rtol=0)
    pixels = open_tower.inputs(rows[:1])["pixel_values"]
    torch.testing.assert_close(kept.module.encoder.grid(pixels), first["pixel_values"][:1], atol=1e-5, rtol=0)
    monkeypatch.setattr(kept.module.encoder, "grid", None)
    kept.inputs(rows)


def test_lora_over_a_llava_of_this_machine_is_merged_into_it(scst: Make, tiny_llava: Path, tmp_path: Path):
    lora = {"kind": "peft", "rank": 2, "alpha": 4, "targets": ["q_proj", "v_proj"]}
    recipe_call = scst(
        model={"name": "hf", "arguments": {"pretrained": str(tiny_llava)}}, lora=lora, train=["*"],
        stop={"steps": 2, "every": 2},
    )  # fmt: skip
    run_recipe(recipe_call, tmp_path / "out", untold, {})
    before, after = (load_file(place / "model.safetensors") for place in (tiny_llava, tmp_path / "out" / "weights"))
    assert {name.split(".")[-2] for name, value in after.items() if not torch.equal(value, before[name])} == {
        "q_proj", "v_proj"
    }  # fmt: skip
    assert resolve_model(str(tmp_path / "out")).on("cpu").load().to_trainable()


@pytest.mark.parametrize(("keys", "said"), REFUSED["scst"])
def test_recipes_that_cannot_do_are_refused(scst: Make, keys: dict[str, Any], said: str):
    with pytest.raises(BenchError, match=said):
        opened(scst(objective=keys))


@pytest.mark.parametrize("trainer", ["scst", "captioner_xe"])
def test_captions_may_be_as_long_as_there_are_positions(scst: Make, trainer: str):
    with pytest.raises(UsageError, match=r"objective\.tokens: 129 exceeds the 128 positions"):
        opened(scst(trainer, objective={"tokens": 129}))
    assert opened(scst(trainer, objective={"tokens": 128, "batch": 1})).memory()["activations"] > 0


def test_reward_that_needs_references_and_cross_entropy_need_captions(scst: Make, tmp_path: Path):
    Image.new("RGB", (32, 32), "red").save(tmp_path / "a.png")
    lines = [json.dumps({"id": n, "image": "a.png"}) + "\n" for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    data = {"file": "rows.jsonl"}
    with pytest.raises(UsageError, match="needs references, and no row of the data has captions"):
        opened(scst(data=data, objective={"reward": "refclip_s"}))
    with pytest.raises(BenchError, match="no row of the data has captions"):
        opened(scst("captioner_xe", data=data))
    willing: Any = opened(scst(data=data))
    terms = willing.backward(0)
    assert terms["reward"] > 0


def test_models_that_cannot_be_tuned_are_refused(scst: Make, encoder: Path, tmp_path: Path):
    (tmp_path / "captions.jsonl").write_text('{"id": "0", "caption": "a"}\n', encoding="utf-8")
    with pytest.raises(AdapterError, match=r"cannot be trained.*\n?.*captioners of the adapter hf"):
        opened(scst(model={"name": f"captions:{tmp_path / 'captions.jsonl'}"}))
    with pytest.raises(UsageError, match="writes no captions"):
        opened(scst(model={"name": "open_clip", "arguments": {"pretrained": str(encoder)}}, train=["*"]))
    with pytest.raises(UsageError, match="matches no weight"):
        opened(scst(train=["projector.*"]))
    lora = {"kind": "peft", "targets": ["query_key_value"]}
    with pytest.raises(UsageError, match=r"lora: targets \['query_key_value'\]: .*not found.*\n.*ends of their names"):
        opened(scst(train=["*"], lora=lora))


def test_loss_that_is_no_number_stops_with_step_rows_and_the_last_checkpoint(scst: Make, tmp_path: Path):
    recipe_call = scst()
    trainer: Any = opened(recipe_call)
    loop = Loop(trainer, tmp_path, "f")

    def spoil(taken: StepReport) -> None:
        if taken.step == 2:
            with torch.no_grad():
                trainer.parameters["decoder.transformer.wte.weight"].fill_(float("nan"))

    with pytest.raises(TrainingError, match="step 3: the loss is nan; its rows: ") as caught:
        loop.run(spoil)
    assert all(row.id in str(caught.value) for row in trainer.rows_of(2))
    assert "(step 2, loss " in str(caught.value)
