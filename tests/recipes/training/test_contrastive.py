"""The contrastive trainer: its loss and gradients, what it refuses, and what it writes."""

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiny_recipes
import torch
from open_clip import CLIP
from tiny_recipes import FURTHER, PEFT, REFUSED, VALIDATION, in_double, unit_vectors

from capbench.adapters.aliases import resolve_model
from capbench.errors import AdapterError, BenchError, UsageError
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.contrastive import (
    ContrastiveTrainer,
    info_nce,
    negatives_bce,
    negatives_pairwise,
    negclip,
    pooled,
    pooled_positives,
)
from capbench.recipes.training.execution import _write_result, opened, run_recipe
from capbench.recipes.training.history import read_history
from capbench.recipes.training.pac_lora import PacLora
from capbench.recipes.training.processes import TrainingProcesses
from capbench.recipes.training.schema import load_recipe

PAIRS = torch.tensor([[2.0, 0.0], [1.0, 3.0]]).double()
exactly = partial(pytest.approx, rel=1e-8, abs=1e-8)


def softplus(value: float) -> float:
    return math.log1p(math.exp(value))


def test_info_nce_is_the_mean_of_both_directions():
    of_images = softplus(0 - 2) + softplus(1 - 3)
    of_texts = softplus(1 - 2) + softplus(0 - 3)
    assert info_nce(PAIRS).item() == exactly((of_images + of_texts) / 4)


def test_bce_judges_each_similarity_by_itself():
    positive, negative = torch.tensor([28.0]).double(), torch.tensor([26.0]).double()
    # At CLIP's usual logits the negative alone counts, though the pair is in order.
    assert negatives_bce(positive, negative).item() == exactly((softplus(-28) + softplus(26)) / 2)
    several = negatives_bce(torch.tensor([1.0, -2.0]).double(), torch.tensor([0.5, 3.0]).double()).item()
    assert several == exactly((softplus(-1) + softplus(0.5) + softplus(2) + softplus(3)) / 4)


def test_pairwise_looks_at_the_difference_alone():
    loss = negatives_pairwise(torch.tensor([28.0, 1.0]).double(), torch.tensor([26.0, 4.0]).double()).item()
    assert loss == exactly((softplus(-2) + softplus(3)) / 2)


def test_negclip_lets_images_alone_choose_among_false_texts():
    negatives = torch.tensor([[1.0, -1.0], [0.0, 2.5]]).double()
    of_images = [
        -math.log(math.exp(2) / sum(map(math.exp, (2, 0, 1, -1)))),
        -math.log(math.exp(3) / sum(map(math.exp, (1, 3, 0, 2.5)))),
    ]
    of_texts = [softplus(1 - 2), softplus(0 - 3)]
    assert negclip(PAIRS, negatives).item() == exactly((sum(of_images) + sum(of_texts)) / 4)
    assert negclip(PAIRS, negatives[:, :0]).item() == exactly(info_nce(PAIRS).item())


def test_captions_are_pooled_as_the_paper_says_as_the_code_says_and_by_their_mean():
    # [images, rows, captions]
    similarities = torch.tensor([[[3.0, 1.0], [0.0, 2.0]], [[-1.0, 0.5], [4.0, 6.0]]])
    assert pooled(similarities, "average").tolist() == [[2.0, 1.0], [-0.25, 5.0]]
    assert pooled(similarities, "hardest").tolist() == [[1.0, 2.0], [0.5, 4.0]]
    assert pooled(similarities, "hardest_released").tolist() == [[3.0, 2.0], [0.5, 6.0]]
    assert pooled_positives(similarities, "average").tolist() == [2.0, 5.0]
    for pooling in ("hardest", "hardest_released"):
        assert pooled_positives(similarities, pooling).tolist() == [1.0, 4.0]


Make = Callable[..., TrainingCall]


def gradients(trainer: ContrastiveTrainer) -> dict[str, torch.Tensor]:
    trainer.backward(0)
    return tiny_recipes.gradients(trainer)


def compared_with_adapter(trainer: ContrastiveTrainer) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """Return the first step's unit vectors, which are those of the adapter, and what was drawn."""
    drawn = trainer._drawn(0)
    images, texts = (torch.nn.functional.normalize(vectors, dim=1) for vectors in features(trainer))
    model = resolve_model("open_clip", trainer.recipe.model.arguments | {"device": "cpu"}).load()
    for ours, read in ((images, model.images(drawn.images)), (texts, model.texts(drawn.texts))):
        torch.testing.assert_close(ours.float(), unit_vectors(read), rtol=0, atol=1e-5)
    return images, texts, drawn


def test_loss_is_the_papers_sum_over_features_of_the_adapter(call: Make):
    trainer = in_double(opened(call(objective=FURTHER)))
    parts = trainer.backward(0)
    images, texts, drawn = compared_with_adapter(trainer)
    scale = trainer.module.logit_scale.exp()
    expected = [
        info_nce(scale * images[:4] @ texts[:4].T),
        info_nce(scale * images[4:] @ texts[:4].T),
        info_nce(scale * images[:4] @ texts[4:].T),
    ]
    assert len(drawn.images) == len(drawn.texts) == 8
    assert [parts[part] for part in ("contrastive", "further_images", "further_texts")] == exactly(
        [term.item() for term in expected]
    )
    assert parts["loss"] == exactly((expected[0] + 0.3 * expected[1] + 0.2 * expected[2]).item())
    # Random crops are other images.
    cropped = in_double(opened(call(objective={**FURTHER, "crop": [0.1, 0.2]})))
    assert cropped.backward(0)["loss"] != exactly(parts["loss"])


def test_negatives_have_their_weight_and_alpha_its_own(call: Make):
    objective = {"batch": 4, "negatives": "bce", "negatives_weight": 9, "contrastive": 0.5, "sampler": "by_image"}
    trainer = in_double(opened(call("crops", objective=objective)))
    parts = trainer.backward(0)
    assert parts["loss"] == exactly(0.5 * parts["contrastive"] + 9 * parts["negatives"])
    images, texts, _ = compared_with_adapter(trainer)
    logits = trainer.module.logit_scale.exp() * images @ texts.T
    expected = negatives_bce(logits[:, :4].diagonal(), logits[:, 4:].diagonal())
    assert parts["negatives"] == exactly(expected.item())
    # Among the captions that an image is held against negatives are NegCLIP's alone.
    assert parts["contrastive"] == exactly(info_nce(logits[:, :4]).item())
    among = in_double(opened(call("crops", objective={"batch": 4, "negatives": "negclip", "sampler": "by_image"})))
    parts = among.backward(0)
    assert parts == {"loss": parts["contrastive"], "contrastive": parts["contrastive"]}
    assert parts["loss"] == exactly(negclip(logits[:, :4], logits[:, 4:]).item())


@pytest.mark.parametrize("lora", ["none", {"kind": "pac"}])
def test_gradients_of_pieces_are_those_of_the_whole_batch(call: Make, lora):
    whole, pieces = (
        gradients(in_double(opened(call(objective={**FURTHER, "piece": piece}, lora=lora)))) for piece in (None, 3)
    )
    assert whole.keys() == pieces.keys() != set()
    for name, gradient in whole.items():
        torch.testing.assert_close(pieces[name], gradient, rtol=1e-8, atol=1e-8)


def alike(first: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """Return the cosine of all gradients together."""
    flat = [torch.cat([grads[name].flatten() for name in first]) for grads in (first, other)]
    return torch.nn.functional.cosine_similarity(flat[0], flat[1], dim=0).item()


LOWER = [
    "cpu",
    pytest.param(
        "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
    ),
]


@pytest.mark.parametrize("device", LOWER)
@pytest.mark.parametrize("precision", [pytest.param("bf16", marks=pytest.mark.costly), "fp16"])
def test_towers_may_compute_in_lower_precision_and_gradients_stay_single(recipe_file, precision, device):
    def made(**keys) -> ContrastiveTrainer:
        return opened(TrainingCall(load_recipe(str(recipe_file(**keys))), TrainingProcesses(device)))

    exact, lower = made(objective=FURTHER), made(objective=FURTHER, precision=precision)
    loss, other = exact.backward(0)["loss"], lower.backward(0)["loss"]
    assert loss != other == pytest.approx(loss, rel=0.05)
    assert {parameter.grad.dtype for parameter in lower.parameters.values()} == {torch.float32}
    grads = [{name: parameter.grad for name, parameter in trainer.parameters.items()} for trainer in (exact, lower)]
    assert alike(*grads) > 0.99


@pytest.mark.parametrize("piece", [pytest.param(None, marks=pytest.mark.costly), 3])
def test_half_precision_keeps_gradients_that_are_too_small_or_too_large_for_it(call: Make, piece):
    # The smallest number of half precision is 6e-8.
    small = {"batch": 4, "piece": piece, "contrastive": 1e-7}
    trainers = [opened(call(objective=small, precision=precision)) for precision in ("fp32", "fp16")]
    exact, half = map(gradients, trainers)
    assert alike(exact, half) > 0.99
    name = "visual.transformer.resblocks.0.mlp.c_fc.weight"
    assert half[name].norm().item() == pytest.approx(exact[name].norm().item(), rel=0.05)
    trainers = [opened(call(objective={"batch": 4, "piece": piece}, precision=kind)) for kind in ("fp32", "fp16")]
    for trainer in trainers:
        for norm, projection in (
            (trainer.module.visual.ln_post, trainer.module.visual.proj),
            (trainer.module.ln_final, trainer.module.text_projection),
        ):
            norm.weight.data /= 1000
            projection.data *= 30_000
    exact, half = map(gradients, trainers)
    assert all(torch.isfinite(tensor).all() for tensor in half.values())
    assert alike(exact, half) > 0.99


def test_temperature_may_be_given_in_place_of_the_models(call: Make):
    trainer = in_double(opened(call(objective={"batch": 4, "temperature": 0.5})))
    loss = trainer.backward(0)["contrastive"]
    images, texts = (torch.nn.functional.normalize(vectors, dim=1) for vectors in features(trainer))
    assert loss == exactly(info_nce(images @ texts.T / 0.5).item())
    assert trainer.module.logit_scale.grad is None


def test_model_in_lower_precision_is_not_lent(encoder: Path):
    spec = resolve_model("open_clip", {"pretrained": str(encoder), "dtype": "bf16"})
    with pytest.raises(AdapterError, match="a model in bf16 cannot be trained"):
        spec.to_trainable("cpu")


def train(trainer: ContrastiveTrainer) -> None:
    """Take two steps: a factor that starts at zero keeps the other one from moving in the first."""
    trainer.module.train()
    optimiser = torch.optim.SGD(trainer.parameters.values(), lr=0.1)
    for step in range(2):
        trainer.backward(step)
        optimiser.step()


def features(trainer: ContrastiveTrainer) -> tuple[torch.Tensor, torch.Tensor]:
    trainer.module.eval()
    with torch.no_grad():
        images, texts = trainer._encode(trainer._drawn(0), 0, trainer._drawn(0).images)
    return images.features, texts.features


@pytest.mark.parametrize(
    ("adapter", "keys"),
    [
        ("open_clip", {"lora": {"kind": "pac"}, "result": "pac"}),
        pytest.param("open_clip", {"lora": {"kind": "pac", "rank": 2}}, marks=pytest.mark.costly),
        pytest.param(
            "open_clip", {"train": ["visual.proj", "text_projection"], "result": "pac"}, marks=pytest.mark.costly
        ),
        ("open_clip", {}),
        ("hf_clip", {"lora": PEFT}),
        pytest.param("hf_clip", {"train": ["*projection*"]}, marks=pytest.mark.costly),
    ],
)
def test_result_is_the_trained_model(call: Make, tmp_path: Path, adapter: str, keys: dict):
    trainer = opened(call(adapter=adapter, **keys))
    before = features(trainer)
    train(trainer)
    expected, drawn = features(trainer), trainer._drawn(0)
    folder = tmp_path / "result"
    folder.mkdir()
    _write_result(trainer, folder)
    result = resolve_model(str(folder), "device=cpu").load()
    for ours, read, old in zip(expected, (result.images(drawn.images), result.texts(drawn.texts)), before, strict=True):
        normal, start = (torch.nn.functional.normalize(vectors, dim=1) for vectors in (ours, old))
        assert (normal - unit_vectors(read)).abs().max() < 1e-5
        assert (normal - start).abs().max() > 1e-4
    assert result.family == ("pac" if "result" in keys else "clip")


def test_factors_of_pac_start_as_released(call: Make):
    trainer = opened(call(lora={"kind": "pac"}, result="pac"))
    factors = {name: factor.detach() for name, factor in trainer._factors.factors.items()}
    kinds = {name.rpartition("lora_")[0].rpartition("resblocks.0.")[2] for name in factors}
    assert kinds == {"attn.in_proj_weight_", "attn.out_proj.", "mlp.c_fc.", "mlp.c_proj.", "visual.conv1."}
    for name, factor in factors.items():
        starts_at_zero = name.endswith("lora_B") and "in_proj" not in name
        assert (factor.abs().max() == 0) == starts_at_zero
    down = factors["visual.transformer.resblocks.0.attn.in_proj_weight_lora_A"]
    assert down.abs().max() == pytest.approx(math.sqrt(6 / (4 + 64)), rel=0.05)
    down = factors["visual.transformer.resblocks.0.mlp.c_proj.lora_A"]
    assert down.abs().max() == pytest.approx(1 / math.sqrt(256), rel=0.05)
    assert tuple(factors["visual.conv1.lora_A"].shape) == (4 * 12, 3 * 12)


def test_factors_of_pac_go_with_no_resnet():
    # Its stem and its texts have weights by the same names.
    towers: dict[str, Any] = {
        "vision_cfg": {"layers": [1, 1, 1, 1], "width": 8, "image_size": 32},
        "text_cfg": {"context_length": 4, "vocab_size": 9, "width": 8, "heads": 1, "layers": 1},
    }
    model = CLIP(8, **towers)
    assert any("in_proj" in name for name in model.state_dict())
    with pytest.raises(UsageError, match="kind 'pac' matches no weight of CLIP"):
        PacLora(model, 4, 1)


@pytest.mark.parametrize(("keys", "said"), REFUSED["contrastive"])
def test_what_cannot_be_trained_is_refused_before_it_begins(call: Make, keys: dict, said: str):
    with pytest.raises(UsageError) as caught:
        opened(call(**keys))
    assert re.search(said, caught.value.in_one_line)


def test_model_whose_module_cannot_be_lent_is_refused(call: Make):
    with pytest.raises(AdapterError, match=r"iiw-p5b.* cannot be trained"):
        opened(call(model={"name": "iiw-p5b"}))


def test_image_that_cannot_be_read_is_named_with_its_row(call: Make, recipe_file, tmp_path: Path):
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    rows = "\n".join(f'{{"id": "r{n}", "image": "broken.jpg", "captions": ["a red star"]}}' for n in range(4))
    (tmp_path / "rows.jsonl").write_text(rows + '\n{"id": "r9", "image": "gone.jpg", "captions": ["b"]}\n')
    trainer = opened(call(data={"file": "rows.jsonl"}))
    assert trainer.rows.left_out.keys() == {"r9"}
    with pytest.raises(BenchError, match=r"row r[0-3]: .*broken.jpg"):
        trainer.backward(0)


WILD = {"rate": 100, "weight_decay": 1e30}


def test_loss_that_is_no_number_stops_with_step_rows_and_checkpoint(call: Make, tmp_path: Path):
    # The first step goes well; its decay has thrown the weights out of all bounds.
    wild = call(optimiser=WILD, stop={"steps": 9, "every": 1})
    with pytest.raises(BenchError) as caught:
        run_recipe(wild, tmp_path / "out", lambda taken: None, {})
    assert "step 2: " in caught.value.message
    assert all(row.id in caught.value.message for row in opened(wild).rows_of(1))
    (line,) = read_history(tmp_path / "out")
    assert (
        f"The last checkpoint is {tmp_path / 'out' / 'checkpoints' / 'checkpoint-1'} (step 1, loss {line['loss']:.4g})."
        in caught.value.hint
    )
    # Weights that are watched do not become a checkpoint.
    watched = call(optimiser=WILD, stop={"steps": 9, "every": 1}, data=VALIDATION)
    with pytest.raises(BenchError, match="step 1: the validation loss is nan") as caught:
        run_recipe(watched, tmp_path / "watched", lambda taken: None, {})
    assert "There is no earlier checkpoint" in caught.value.hint
    # Cosines times infinity.
    endless = call(objective={"batch": 4, "temperature": 1e-40})
    with pytest.raises(BenchError) as caught:
        run_recipe(endless, tmp_path / "none", lambda taken: None, {})
    assert "step 1: the loss is nan; its rows: " in caught.value.message
    assert "There is no earlier checkpoint" in caught.value.hint
