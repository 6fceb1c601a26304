"""A tiny encoder of the shapes world with random weights, and recipes that train it in a moment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_recipes import call_of

from capbench.recipes.shapes.world.clip import TowerSizes, build, train_tokenizer, write_encoder
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.new_captioner import write_new_captioner
from capbench.tasks.shapes.describing import short_references
from capbench.tasks.shapes.sampling import sample_scene

OPEN_TO_TRAINING = ["encoder.encoder.*", "encoder.vis_enc_to_enc_proj.*", "decoder.*"]
"""All of PAC-S++'s captioner but the frozen tower."""


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that open_clip and transformers read."""
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = train_tokenizer([text for n in range(20) for text in short_references(sample_scene(n))], 60)
    sizes = TowerSizes(width=64, layers=1, text_layers=1, dimension=32)
    write_encoder(build(len(tokenizer), 0, sizes).state_dict(), tokenizer, folder, sizes)
    return folder


@pytest.fixture
def recipe_file(encoder: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a recipe whose keys are given, and returns the file."""

    def write(rows: str = "described", adapter: str = "open_clip", **keys: Any) -> Path:
        values = {
            "recipe": "tiny",
            "data": {"reader": f"rows.{rows}", "arguments": {"scenes": 12}},
            "model": {"name": adapter, "arguments": {"pretrained": str(encoder)}},
            "objective": {"batch": 4},
            "lora": "none",
            "optimiser": {"rate": 1e-3},
            "stop": {"steps": 4, "every": 2},
        } | keys
        text = yaml.safe_dump(values).replace("reader: rows.", "reader: !function rows.")
        (tmp_path / "rows.py").write_text(f"from capbench.recipes.shapes.rows import {rows}\n", encoding="utf-8")
        file = tmp_path / "tiny.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


@pytest.fixture
def call(recipe_file: Callable[..., Path]) -> Callable[..., TrainingCall]:
    """Return a function that gives what a trainer takes."""

    def make(*args: Any, **keys: Any) -> TrainingCall:
        return call_of(str(recipe_file(*args, **keys)))

    return make


@pytest.fixture(scope="session")
def captioner(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PAC-S++'s captioner, tiny and with random weights."""
    folder = tmp_path_factory.mktemp("captioner")
    write_new_captioner(str(encoder), folder, layers=1, width=32, heads=2, inner=32)
    return folder


@pytest.fixture(scope="session")
def both(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A reward that tells captions of random words apart."""
    folder = tmp_path_factory.mktemp("clip")
    text = f"adapter: open_clip\npretrained: {encoder}\n"
    (folder / "model.yaml").write_text(text, encoding="utf-8")
    return [{"metric": "clip_s", "encoder": str(folder), "weight": 10.0}, {"metric": "length", "weight": -0.5}]


@pytest.fixture
def scst(call: Callable[..., TrainingCall], captioner: Path) -> Callable[..., TrainingCall]:
    """Return a function that gives what a trainer of a captioner takes."""

    def make(trainer: str = "scst", **keys: Any) -> TrainingCall:
        objective = {"reward": {"metric": "length"}, "captions": 3} if trainer == "scst" else {}
        objective |= {"batch": 4, "tokens": 8} | keys.pop("objective", {})
        model = {"name": "hf", "arguments": {"pretrained": str(captioner)}}
        defaults = {"model": model, "train": OPEN_TO_TRAINING, "optimiser": {"rate": 1e-2}}
        return call(trainer=trainer, objective=objective, **(defaults | keys))

    return make
