"""From a recipe to a model that tasks have judged: files, schema, sources, the command."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from killed_training import last_checkpoint
from tiny_recipes import REFUSED, call_of

import capbench
from capbench.cli.main import main
from capbench.errors import UsageError
from capbench.recipes.shapes.rows import described
from capbench.recipes.training.contract import TrainingCall, trainers
from capbench.recipes.training.contrastive import ContrastiveSettings, ContrastiveTrainer
from capbench.recipes.training.execution import opened, require_room
from capbench.recipes.training.schema import list_recipes, load_recipe

JUDGE = [{"task": "shapes_foil", "metrics": ["clip_s", "pac_s"], "limit": 8}]


def test_recipe_becomes_a_model_with_a_card_that_tasks_judged(recipe_file, tmp_path, capsys):
    file = recipe_file(
        lora={"kind": "pac"}, result="pac", objective={"batch": 4, "further_images": 0.1}, judge=JUDGE,
        description="A tiny one.", choices={"optimiser.rate": "some rate", "data, seed": "another seed"},
    )  # fmt: skip
    out = tmp_path / "out"
    assert main(["train", str(file), "--output", str(out), "--device", "cpu", "--set", "seed=7"]) == 0
    printed = capsys.readouterr()
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card in printed.out
    choices = ("`optimiser.rate`: some rate", "`data, seed`: `--set seed=7`")
    for part in ("A tiny one.", "bench train", "Seed 7", "12 images", *choices, "4 in "):
        assert part in card
    assert "step 4 of 4: loss " in printed.err
    (score,) = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    assert (score["task"], score["metric"], score["n"]) == ("shapes_foil", "clip_s → pac_s", 8)
    (of_hub,) = ModelCard(card).data.eval_results
    assert (of_hub.dataset_type, of_hub.metric_value) == ("shapes_foil", score["after"]["value"])
    assert f"| shapes_foil | clip_s → pac_s | accuracy | {score['before']['value']:.3f} [" in card
    run = capbench.evaluate(
        str(out), ["shapes_foil"], metrics=["pac_s"], limit=8, model_args={"device": "cpu"}, output_path=None
    )
    assert float(run.to_pandas().value.iloc[0]) == score["after"]["value"]
    assert "<svg" in (out / "loss.svg").read_text(encoding="utf-8")
    assert last_checkpoint(out)[0]["step"] == 4
    assert not list(out.glob(".draft*"))


def test_settings_of_tables_that_a_papers_recipe_names_are_settings_of_it():
    commands = [
        shlex.split(line.lstrip("# "), comments=True)
        for recipe, file in list_recipes().items()
        if not recipe.startswith("shapes")
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("#") and " --set " in line
    ]
    assert len(commands) > 8
    for command in commands:
        settings = [value for key, value in pairwise(command) if key == "--set"]
        named = command[command.index("train") + 1]
        assert load_recipe(named, tuple(settings)).recipe != load_recipe(named).recipe, command


def test_dry_run_counts_and_writes_nothing(recipe_file, tmp_path, capsys):
    rows = []
    for row in described(12):
        image = tmp_path / f"{row['id']}.png"
        image.write_bytes(row["image"].read_bytes())
        rows.append({"id": row["id"], "image": image.name, "captions": row["captions"]})
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    file = recipe_file(lora={"kind": "pac"}, stop={"epochs": 2.0}, data={"file": "rows.jsonl"})
    before = sorted(tmp_path.rglob("*"))
    assert main(["train", str(file), "--dry_run", "--device", "cpu"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in str(path)] == before
    assert (shown["rows"], shown["images"], shown["captions"]) == ("12", "12", "60")
    assert shown["steps"].startswith("6 at most; 3 per epoch")
    trainer = opened(call_of(str(file)))
    numbers = sum(parameter.numel() for parameter in trainer.parameters.values())
    # A block of each tower: 4 (d + 3d) + 4 (2d) + 2 x 4 (5d), d = 64, and the patches' two factors.
    assert numbers == 2 * (4 * 4 + 4 * 2 + 2 * 4 * 5) * 64 + 4 * 12 * (3 * 12 + 64 * 12)
    assert shown["trained"].startswith(f"{numbers:,} of ")
    assert f"gradients {4 * numbers / 1e6:,.1f} MB" in shown["memory"]
    activations = float(shown["memory"].rpartition("activations ")[2].split()[0])
    # At least the inputs of each of the MLP's layers, of 65 patches of 4 pictures.
    assert activations * 1e6 > 4 * 65 * (64 + 256) * 4


def test_training_that_does_not_fit_a_gpu_is_refused_with_what_needs_less():
    require_room(10**9, 10**9)
    with pytest.raises(UsageError, match=r"needs 2.5 GB on each GPU, which has 1.0 GB.\n.*lora.*objective.fsdp=true"):
        require_room(25 * 10**8, 10**9)


@pytest.mark.parametrize(("typed", "said"), REFUSED["typed"].items())
def test_what_is_wrong_with_a_call_is_said(typed, said, capsys):
    assert main(["train", *typed.split()]) == 2
    assert said in capsys.readouterr().err


def test_faults_of_a_recipe_are_named_with_their_lines(recipe_file: Callable[..., Path]):
    file = recipe_file()
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("rate: 0.001", "rate: 0.001\n  wieght_decay: 0.1"), encoding="utf-8")
    line = file.read_text(encoding="utf-8").splitlines().index("  wieght_decay: 0.1") + 1
    with pytest.raises(UsageError, match=rf"tiny.yaml:{line}: .*'wieght_decay'. Did you mean 'weight_decay'"):
        load_recipe(str(file))
    with pytest.raises(UsageError, match="one of 'steps' and 'epochs'"):
        load_recipe(str(recipe_file(stop={})))
    with pytest.raises(UsageError, match="one of 'file', 'task' and 'reader'"):
        load_recipe(str(recipe_file(data={"file": "a", "task": "b"})))
    with pytest.raises(UsageError, match="kind 'pac' and alpha 1"):
        load_recipe(str(recipe_file(lora={"kind": "pac", "alpha": 2}, result="pac")))


def test_trainer_of_a_plug_in_reads_its_own_settings_by_a_recipe_that_includes_one_that_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Settings(ContrastiveSettings):
        margin: float

    monkeypatch.setitem(trainers._entries, "mine", type("Mine", (ContrastiveTrainer,), {"Settings": Settings}))
    file = tmp_path / "mine.yaml"
    file.write_text("include: shapes_pacspp\ntrainer: mine\nobjective: {batch: 4, margin: 0.5}\n", encoding="utf-8")
    trainer: Any = opened(call_of(str(file)))
    assert trainer._settings.margin == 0.5
    # What it does not set is that of the recipe that ships.
    assert trainer.recipe.stop == load_recipe("shapes_pacspp").recipe.stop
    file.write_text(file.read_text(encoding="utf-8").replace(", margin: 0.5", ""), encoding="utf-8")
    with pytest.raises(UsageError, match=r"mine.yaml:3: key 'objective.margin' is missing"):
        opened(call_of(str(file)))


def test_settings_of_the_papers_are_those_that_they_print():
    pacspp, pacs = load_recipe("pacspp").recipe, load_recipe("pacs_2023").recipe
    assert (pacspp.objective["further_images"], pacspp.objective["further_texts"]) == (0.1, 0.001)
    assert (pacs.objective["further_images"], pacs.objective["further_texts"]) == (0.05, 0.1)
    assert (pacspp.optimiser.rate, pacspp.objective["batch"], pacspp.stop.patience) == (1e-4, 256, 1500)
    assert (pacs.lora, pacs.train) == (None, ["visual.proj", "text_projection"])
    sdci, without = load_recipe("sdci_pick1").recipe, load_recipe("sdci_pick1_nl0").recipe
    assert (sdci.optimiser.rate, sdci.objective["negatives"], sdci.stop.epochs) == (5e-5, "bce", 10)
    assert without.objective["negatives"] == "none"
    assert without.lora == sdci.lora


def test_rows_come_from_a_task_with_entries(call: Callable[..., TrainingCall], dci: Path):
    source = {"task": "dci_all_neg", "arguments": {"split": "test"}}
    plain = call(data=source, objective={"batch": 4, "negatives": "bce"})
    trainer: Any = opened(replace(plain, data={"dci_all_neg": dci}))
    counts = trainer.rows.counts()
    assert (counts["rows"], counts["images"], counts["negatives"]) == (25, 5, 25)
    assert trainer.rows.rows[1].image.box is not None
    assert trainer.rows.rows[1].id == "sa_1|m-7-sc"
    assert {row.group for row in trainer.rows.rows} == {f"sa_{n}" for n in range(1, 6)}
    assert trainer.rows.left_out
    assert trainer.backward(0)["negatives"] > 0


def test_rows_come_from_a_task_with_references(call: Callable[..., TrainingCall]):
    trainer = opened(call(data={"task": "shapes_detailcaps", "arguments": {"scenes": 6}}))
    assert trainer.rows.counts()["captions"] == 6
    with pytest.raises(UsageError, match="matches 3 tasks"):
        opened(call(data={"task": "shapes_vatex"}))


def test_rows_that_cannot_be_used_are_left_out_by_name_and_unknown_keys_are_errors(call, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"later")
    lines = [{"id": n, "image": "a.jpg", "captions": ["x"], "box": [0, 0, 4, 4]} for n in range(4)]
    bad = [
        {"id": 0, "image": "a.jpg", "captions": ["twice"]},
        {"id": 5, "image": "a.jpg", "captions": []},
        {"id": 6, "image": "a.jpg", "captions": ["x"], "box": [4, 4, 0]},
        {"id": 7, "image": "a.jpg", "captions": "no list"},
        {"id": 8, "captions": ["x"]},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *bad]) + "{broken\n", encoding="utf-8")
    trainer = opened(call(data={"file": "rows.jsonl"}))
    assert [row.id for row in trainer.rows.rows] == ["0", "1", "2", "3"]
    assert trainer.rows.rows[0].image.box == (0, 0, 4, 4)
    assert len(trainer.rows.left_out) == 6
    file.write_text(json.dumps({**lines[0], "caption": "x"}) + "\n", encoding="utf-8")
    with pytest.raises(capbench.errors.BenchError, match=r"unknown key .caption.\. Did you mean .captions."):
        opened(call(data={"file": "rows.jsonl"}))
