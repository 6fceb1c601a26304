"""Recipes of captioners from beginning to end: the dry run, a kill, and those of the paper on tiny checkpoints."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from killed_training import assert_alike, last_checkpoint, train_until_killed, untold
from safetensors.torch import load_file
from tiny_recipes import call_of
from warm_python import run_python

from capbench.adapters.aliases import resolve_model
from capbench.adapters.contracts import CaptionRequest
from capbench.adapters.images.handles import ImageHandle
from capbench.errors import UsageError
from capbench.recipes.shapes.rows import described
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import dry_run, opened, run_recipe
from capbench.recipes.training.history import read_history
from capbench.recipes.training.processes import TrainingProcesses
from capbench.recipes.training.publishing import files_for_hub
from capbench.recipes.training.schema import JudgeTask, LoadedRecipe, load_recipe

pytestmark = pytest.mark.costly

Make = Callable[..., TrainingCall]


@pytest.mark.parametrize("trainer", ["scst", "captioner_xe"])
def test_dry_run_says_what_a_step_would_hold_and_takes_none(scst: Make, trainer: str):
    call, in_pieces = scst(trainer), scst(trainer, objective={"piece": 2})
    shown, of_pieces = dict(dry_run(call)), dict(dry_run(in_pieces))
    assert shown["steps"] == "4 at most; 3 per epoch"
    assert (shown["rows"], shown["judged by"]) == ("12", "no task")
    assert ("GPU-hours" in shown, shown["each GPU needs"]) == (trainer == "captioner_xe", "0.0 GB")
    tuner = opened(call)
    numbers = sum(parameter.numel() for parameter in tuner.parameters.values())
    assert shown["trained"].startswith(f"{numbers:,} of ")
    assert f"gradients {4 * numbers / 1e6:,.1f} MB" in shown["memory"]
    memory, half = tuner.memory()["activations"], opened(in_pieces).memory()["activations"]
    assert f"activations {memory / 1e6:,.1f} MB" in shown["memory"]
    assert f"activations {half / 1e6:,.1f} MB" in of_pieces["memory"]
    assert 0.4 * memory < half < 0.65 * memory
    # The logarithms of the probabilities of all words: at least a token and the end of each caption.
    vocabulary = tuner.module.config.decoder.vocab_size
    assert memory > 4 * (3 if trainer == "scst" else 1) * 2 * vocabulary * 4
    assert all(parameter.grad is None for parameter in tuner.parameters.values())


def test_dry_run_says_what_tasks_cannot_judge(scst: Make):
    call = scst(judge=[{"task": "shapes_captions", "metrics": ["clip_s"], "limit": 4}])
    with pytest.raises(UsageError, match="'clip_s' needs a model that encodes"):
        dry_run(call)


def test_model_that_another_recipe_makes_is_named_with_the_call_that_makes_it(coco, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = call_of("scst_pacspp", (f"data.file={coco}", "objective.batch=2"))
    with pytest.raises(UsageError, match=r"'bench train captioner_xe --output captioner_xe'"):
        dry_run(call)
    (tmp_path / "captioner_xe").mkdir()
    with pytest.raises(UsageError, match="unknown model 'captioner_xe'"):
        dry_run(call)


def test_validation_leaves_nothing_out_whatever_the_step_before_did(scst: Make):
    source = {"reader": "rows.described", "arguments": {"scenes": 4}}
    tuner: Any = opened(scst(data={**source, "validation": source}, objective={"dropout": True}))
    assert any(isinstance(module, torch.nn.Dropout) and module.p > 0 for module in tuner.module.modules())
    losses = []
    for _ in range(2):
        tuner.module.train()
        losses.append(tuner.validate())
        assert not tuner.module.training
    assert losses[0] == losses[1]


@pytest.mark.usefixtures("one_thread")
def test_training_that_is_killed_ends_with_the_weights_of_one_that_is_not(scst: Make, both, tmp_path: Path):
    objective = {"candidates": "samples", "dropout": True, "reward": both}
    call = scst(objective=objective, stop={"steps": 3, "every": 2})
    run_recipe(call, tmp_path / "undisturbed", untold, {})
    expected = load_file(tmp_path / "undisturbed" / "weights" / "model.safetensors")
    folder = tmp_path / "killed"
    train_until_killed(call, folder, 3)
    assert last_checkpoint(folder)[0]["step"] == 2
    run_recipe(call, folder, untold, {})
    assert_alike(folder, tmp_path / "undisturbed", "model.safetensors")
    start = load_file(Path(call.loaded.recipe.model.arguments["pretrained"]) / "model.safetensors")
    moved = {name.split(".")[1] for name, tensor in expected.items() if not torch.equal(tensor, start[name])}
    assert moved == {"encoder", "vis_enc_to_enc_proj", "transformer"}


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pictures with captions, as the paper's recipes read COCO's."""
    folder = tmp_path_factory.mktemp("coco")
    lines = []
    for row in described(6):
        (folder / f"{row['id']}.jpg").write_bytes(row["image"].read_bytes())
        lines.append(json.dumps({"image": f"{row['id']}.jpg", "captions": list(row["captions"])}))
    file = folder / "train.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


LORA = ("lora={kind: peft, rank: 2, targets: [q_proj, v_proj]}", 'train=["*"]')


@pytest.mark.parametrize(
    ("recipe", "model", "changes"),
    [
        ("captioner_xe", "captioner", ("objective.batch=4",)),
        ("scst_cider", "captioner", ("objective.batch=2",)),
        ("scst_clip_s", "captioner", ("objective.batch=2", "objective.reward.encoder=shapes-clip")),
        ("scst_refclip_s", "captioner", ("objective.batch=2", "objective.reward.encoder=shapes-clip")),
        ("scst_pacspp", "captioner", ("objective.batch=2", "objective.reward.encoder=shapes-pac")),
        ("scst_refpacspp", "captioner", ("objective.batch=2", "objective.reward.encoder=shapes-pac")),
        ("captioner_xe", "tiny_llava", ("objective.batch=2", *LORA)),
    ],
)
def test_recipes_of_the_paper_are_carried_out_on_tiny_checkpoints_in_the_real_formats(
    recipe: str, model: str, changes: tuple[str, ...], coco: Path, tmp_path: Path, request: pytest.FixtureRequest
):
    folder = request.getfixturevalue(model)
    of_model = f"model={{name: hf, arguments: {{pretrained: {folder}}}}}"
    loaded = load_recipe(
        recipe, (f"data.file={coco}", of_model, "stop={steps: 2, every: 1}", "objective.tokens=12", *changes)
    )
    shipped = load_recipe(recipe).recipe
    assert loaded.recipe.optimiser == shipped.optimiser
    call = TrainingCall(loaded, TrainingProcesses("cpu"))
    shown = dict(dry_run(call, judge=False))
    assert (shown["recipe"], shown["rows"], shown["judged by"]) == (recipe, "6", "no task")
    assert shown["steps"].startswith("2 at most")
    run_recipe(call, tmp_path / "out", untold, {}, judge=False)
    lines = read_history(tmp_path / "out")
    assert [line["step"] for line in lines] == [1, 2]
    if recipe.startswith("scst"):
        _, tensors = last_checkpoint(tmp_path / "out")
        assert any(name.startswith("exp_avg") for name in tensors)
        assert shipped.objective["reward"]["metric"] in lines[0]
        assert lines[0]["rate"] == shipped.optimiser.rate


def test_trained_folders_hold_no_path_and_transformers_alone_writes_their_captions(
    scst: Make, coco: Path, tiny_llava: Path, tiny_vit_gpt2: Path, tmp_path: Path
):
    picture, prompt = next(coco.parent.glob("*.jpg")), "Describe this image."
    judge = [{"task": "shapes_captions", "metrics": ["length"], "limit": 2, "generation_kwargs": {"max_new_tokens": 4}}]

    def tuned(name: str, folder: Path, **keys: Any) -> TrainingCall:
        model = {"name": "hf", "arguments": {"pretrained": str(folder)}}
        return scst(name, model=model, train=["*"], data={"file": str(coco)}, stop={"steps": 2}, **keys)

    calls = {
        "grid": scst("captioner_xe", data={"file": str(coco)}, stop={"steps": 8}),
        "vit": tuned("scst", tiny_vit_gpt2),
        "llava": tuned("captioner_xe", tiny_llava, objective={"prompt": prompt}, judge=judge, lora={
            "kind": "peft", "rank": 2, "targets": ["q_proj", "v_proj"],
        }),
    }  # fmt: skip
    asked, expected = [], []
    for name, call in calls.items():
        run_recipe(call, tmp_path / name, untold, {"resamples": 0}, judge=bool(call.loaded.recipe.judge))
        shown = prompt if name == "llava" else None
        moved = (tmp_path / name).rename(tmp_path / f"moved {name}")
        shutil.rmtree(moved / "checkpoints", ignore_errors=True)
        for path in (file for file in moved.rglob("*") if file.is_file()):
            assert str(tmp_path.parent).encode() not in path.read_bytes(), path
        repository = tmp_path / f"{name} on the hub"
        for place, content in files_for_hub(moved).items():
            (repository / place).parent.mkdir(parents=True, exist_ok=True)
            (repository / place).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
        request = CaptionRequest("0", "x", shown or "", {"max_new_tokens": 8}, pixels=ImageHandle(picture))
        (written,) = resolve_model(str(repository)).on("cpu").load().stream([request])
        expected.append(written.captions[0].text)
        asked.append([str(repository), str(picture), shown])
        assert "- **Loads with**: transformers" in (moved / "README.md").read_text(encoding="utf-8")
    alone = Path(__file__).parents[2] / "plain_transformers.py"
    plain = run_python(alone, folder=tmp_path, environment=os.environ, said=json.dumps(asked))
    assert [json.loads(line) for line in plain.stdout.splitlines()] == expected
    assert len(set(filter(None, expected))) >= 2


def test_tuned_captioner_has_a_card_that_says_what_the_reward_paid_for(scst: Make, tmp_path: Path):
    plain = scst(model={"name": "shapes-captioner"}, stop={"steps": 2, "every": 2}, probe="checklist_shapes")
    judge = [JudgeTask(task="shapes_captions", metrics=["length", "rep_1"])]
    recipe = plain.loaded.recipe.model_copy(update={"judge": judge})
    call = replace(plain, loaded=LoadedRecipe(recipe, plain.loaded.parsed, plain.loaded.changed))
    trained = run_recipe(call, tmp_path / "out", untold, {"resamples": 0, "limit": 4})
    length, rep = trained.scores
    assert (length["rewarded"], rep["rewarded"]) == (["length"], [])
    assert length["difference"]["value"] == pytest.approx(length["after"]["value"] - length["before"]["value"])
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "| change |" in card
    assert "| sentence repeated: falls | 0.000 |" in card
    noticed = json.loads((tmp_path / "out" / "noticed.json").read_text(encoding="utf-8"))
    assert {row["metric"] for row in noticed} == {"length"}
