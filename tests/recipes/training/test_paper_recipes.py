"""The papers' contrastive recipes as they ship, on tiny checkpoints in the real formats."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from killed_training import last_checkpoint
from safetensors.torch import load_file
from tiny_recipes import unit_vectors
from torch.nn.functional import normalize

from capbench.adapters.aliases import resolve_model
from capbench.errors import DataError
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.contrastive import ContrastiveTrainer
from capbench.recipes.training.execution import dry_run, opened, run_recipe
from capbench.recipes.training.history import read_history
from capbench.recipes.training.processes import TrainingProcesses
from capbench.recipes.training.rows import Rows
from capbench.recipes.training.schema import load_recipe
from capbench.tasks.shapes.describing import detailed_reference, short_references
from capbench.tasks.shapes.drawing import draw
from capbench.tasks.shapes.sampling import sample_scene

pytestmark = pytest.mark.costly

Made = tuple[ContrastiveTrainer, Path]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows with all that the recipes ask of a file."""
    folder = tmp_path_factory.mktemp("data")
    lines = []
    for seed in range(6):
        scene = sample_scene(seed)
        draw(scene, 48).save(folder / f"{seed}.png")
        false = short_references(sample_scene(seed + 50))[0]
        lines.append(
            {
                "image": f"{seed}.png", "captions": short_references(scene),
                "negatives": [f"{false} {caption}" for caption in short_references(scene)],
                "further_images": [f"{seed // 2}.png"], "further_captions": [detailed_reference(scene)],
                "id": str(seed), "similar": [str((seed + 1) % 4)],
            }
        )  # fmt: skip
    for name, part in (("rows", lines[:4]), ("val", lines[4:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return folder


@pytest.fixture
def train(encoder: Path, dci: Path, tmp_path: Path) -> Callable[..., Made]:
    """Return a function that carries a shipped recipe out, and gives its trainer before the end and the result."""

    def carry(name: str, adapter: str, *changes: str) -> Made:
        model = f"model={{name: {adapter}, arguments: {{pretrained: {encoder}}}}}"
        loaded = load_recipe(name, (model, "objective.batch=2", "stop.epochs=null", "stop.steps=2", *changes))
        call = TrainingCall(loaded, TrainingProcesses("cpu"), data={"dci_all_neg": dci})
        shown = dict(dry_run(call, judge=False))
        assert shown["recipe"] == name
        assert shown["steps"].startswith("2 at most")
        assert "activations" in shown["memory"]
        run_recipe(call, tmp_path / name, lambda taken: None, {}, judge=False)
        # Writing used up the model that was trained: another takes up the weights that were kept.
        trainer = opened(call)
        assert isinstance(trainer, ContrastiveTrainer)
        weights = kept(tmp_path / name)
        with torch.no_grad():
            for key, parameter in trainer.parameters.items():
                parameter.copy_(weights[key])
        return trainer, tmp_path / name

    return carry


def kept(folder: Path) -> dict[str, torch.Tensor]:
    """Return the trained weights that a recipe keeps."""
    state, _ = last_checkpoint(folder)
    kept = state["best_step"] if state["best"] is not None else state["step"]
    return load_file(folder / "checkpoints" / f"checkpoint-{kept}" / "model.safetensors")


def rows(data: Path) -> tuple[str, str]:
    return f"data.file={data / 'rows.jsonl'}", f"data.validation.file={data / 'val.jsonl'}"


def inputs(trainer: ContrastiveTrainer) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pixels and tokens of a step."""
    drawn = trainer._drawn(0)
    (pixels,) = trainer._reader.read(drawn.images, [str(n) for n in range(len(drawn.images))]).values()
    return pixels, trainer._text_inputs(drawn.texts)


def assert_alike(trainer: ContrastiveTrainer, folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Assert that the result is the trained model, as its adapter reads it, and return its unit vectors."""
    trainer.module.eval()
    drawn = trainer._drawn(0)
    with torch.no_grad():
        images, texts = (normalize(batch.features, dim=1) for batch in trainer._encode(drawn, 0, drawn.images))
    result = resolve_model(str(folder), "device=cpu").load()
    assert (images - unit_vectors(result.images(drawn.images))).abs().max() < 1e-5
    assert (texts - unit_vectors(result.texts(drawn.texts))).abs().max() < 1e-5
    return images, texts


def released_reader(file: Path, like: torch.nn.Module) -> torch.nn.Module:
    """Return the model that pacscore's code makes of a file.

    It builds CLIP with LoRA of rank 4 and alpha 1, calls ``eval`` while all factors are zero, and only then loads the
    file: attention and patches add ``B A / 4`` to what they hold, a layer of the MLP believes that it has.
    """
    state = torch.load(file, weights_only=True)["state_dict"]
    for name in [name for name in state if name.endswith("lora_A")]:
        up, down = state.pop(f"{name[:-1]}B"), state.pop(name)
        if ".mlp." in name:
            continue
        layer = name.removesuffix("lora_A")
        weight = layer.removesuffix("_") if layer.endswith("_") else f"{layer}weight"
        state[weight] = state[weight] + (up @ down).reshape(state[weight].shape) / 4
    like.load_state_dict(state)
    return like.eval()


def plain(encoder: Path) -> torch.nn.Module:
    return resolve_model("open_clip", {"pretrained": str(encoder)}).to_trainable("cpu").module


def test_pacspp_gives_a_file_that_the_adapter_and_released_code_read_as_the_trained_model(train, encoder, data):
    # At the paper's rate two steps would change next to nothing.
    trainer, folder = train("pacspp", "open_clip", *rows(data), "optimiser.rate=0.01", "stop.every=1")
    assert {"contrastive", "further_images", "further_texts"} <= read_history(folder)[0].keys()
    factors = trainer._factors.factors
    assert all(factor.abs().max() > 0 for name, factor in factors.items() if ".mlp." in name)
    images, texts = assert_alike(trainer, folder)
    released = released_reader(folder / "weights" / "pac.pth", plain(encoder))
    pixels, tokens = inputs(trainer)
    with torch.no_grad():
        assert (normalize(released.encode_image(pixels), dim=1) - images).abs().max() < 1e-5
        assert (normalize(released.encode_text(*tokens.values()), dim=1) - texts).abs().max() < 1e-5


def test_pacspp_of_siglip_trains_attention_mlp_and_patches_of_both_towers(data, tiny_siglip, tmp_path):
    model = f"model={{name: hf_clip, arguments: {{pretrained: {tiny_siglip}}}}}"
    steps = ("objective.batch=2", "stop={steps: 2, every: 1, keep: best}", "optimiser.rate=0.01")
    call = TrainingCall(load_recipe("pacspp_siglip", (model, *steps, *rows(data))), TrainingProcesses("cpu"))
    run_recipe(call, tmp_path / "out", lambda taken: None, {}, judge=False)
    assert {"contrastive", "further_images", "further_texts"} <= read_history(tmp_path / "out")[0].keys()
    resolve_model(str(tmp_path / "out"), "device=cpu").load()
    # The model lies on this machine: the factors are merged into it.
    before, after = (load_file(place / "model.safetensors") for place in (tiny_siglip, tmp_path / "out/weights"))
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    for layer in ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"):
        assert any("text_model" in name and f".{layer}." in name for name in moved), layer
        assert any("vision_model" in name and f".{layer}." in name for name in moved), layer
    assert any("patch_embedding" in name for name in moved)


def test_pacs_2023_changes_the_last_projections_alone(train: Callable[..., Made], encoder: Path, data: Path):
    trainer, folder = train("pacs_2023", "open_clip", *rows(data), "stop.every=1")
    assert_alike(trainer, folder)
    before = plain(encoder).state_dict()
    after = torch.load(folder / "weights" / "pac.pth", weights_only=True)["state_dict"]
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert after.keys() == before.keys()
    assert changed == {"visual.proj", "text_projection"}


@pytest.mark.parametrize("name", ["sdci_pick1", "sdci_pick1_nl0"])
def test_sdci_gives_a_folder_that_transformers_reads(train: Callable[..., Made], name: str):
    from transformers import CLIPModel

    trainer, folder = train(name, "hf_clip", "optimiser.rate=0.01")
    assert ("negatives" in read_history(folder)[0]) == (name == "sdci_pick1")
    lora = trainer.recipe.lora
    assert (lora.rank, lora.alpha, lora.dropout, lora.bias, len(lora.targets)) == (4, 2, 0.2, "lora_only", 8)
    images, texts = assert_alike(trainer, folder)
    read = CLIPModel.from_pretrained(folder / "weights", dtype=torch.float32).eval()
    pixels, tokens = inputs(trainer)
    with torch.no_grad():
        output = read(pixel_values=pixels, **tokens)
    assert (normalize(output.image_embeds, dim=1) - images).abs().max() < 1e-5
    assert (normalize(output.text_embeds[: len(texts)], dim=1) - texts).abs().max() < 1e-5


def test_negclip_changes_all_weights_and_open_clip_reads_them(train, encoder, data):
    changes = ("objective.piece=1", "optimiser.rate=0.001", "optimiser.clamp={logit_scale: [0, 1]}")
    trainer, folder = train("negclip", "open_clip", rows(data)[0], *changes)
    shipped = load_recipe("negclip").recipe.optimiser
    assert (shipped.no_decay, shipped.clamp) == ("vectors", {"logit_scale": (0, math.log(100))})
    assert "negatives" not in read_history(folder)[0]
    # Of two rows and of one like each.
    drawn = trainer._drawn(0)
    assert [row.id for row in drawn.rows[2:]] == [row.similar[0] for row in drawn.rows[:2]]
    assert len(drawn.with_negative) == 4
    # Each step draws a caption of a row, and the negative of that caption.
    pairs = {tuple(trainer._drawing.draw(trainer.rows.rows[:1], step).texts) for step in range(200)}
    row = trainer.rows.rows[0]
    assert pairs == set(zip(row.captions, row.negatives, strict=True)) and len(pairs) == 5
    trainer._settings = trainer._settings.model_copy(update={"each_caption": True})
    alone = {(row.captions, row.negatives) for row in trainer.usable(Rows([row], {})).rows}
    assert alone == {((caption,), (negative,)) for caption, negative in pairs}
    lacking = replace(row, negatives=row.negatives[1:])
    with pytest.raises(DataError, match="has 4 negatives, and not as many for each of 5 captions"):
        trainer.usable(Rows([lacking], {}))
    assert len(trainer.usable(Rows([row, replace(lacking, id="other")], {})).rows) == 5
    read = plain(folder / "weights").state_dict()
    assert read["logit_scale"] <= 1
    before = plain(encoder).state_dict()
    assert {name for name, value in read.items() if torch.equal(value, before[name])} <= {"attn_mask", "logit_scale"}
    for name, parameter in trainer.parameters.items():
        assert torch.equal(read[name], parameter)
