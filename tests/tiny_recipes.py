"""Parts of recipes that train a tiny encoder, and what tests look at.

A test imports this module (``from tiny_recipes import PEFT``); ``recipe_file`` and ``call`` beside tests of training
make recipes of these parts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from feature_rows import stacked

from capbench.adapters import Encoded
from capbench.recipes.training.contract import Trainer, TrainingCall
from capbench.recipes.training.processes import TrainingProcesses
from capbench.recipes.training.schema import load_recipe

REFUSED = yaml.safe_load((Path(__file__).parent / "recipes/training/refused.yaml").read_text(encoding="utf-8"))
"""What is refused before a training begins, and what is said."""
PEFT = {"kind": "peft", "rank": 2, "alpha": 2, "dropout": 0.2, "targets": ["q_proj", "fc1"], "bias": "lora_only"}
FURTHER = {"batch": 4, "further_images": 0.3, "further_texts": 0.2}
VALIDATION = {
    "reader": "rows.described",
    "arguments": {"scenes": 12},
    "validation": {"reader": "rows.described", "arguments": {"scenes": 5, "split": "validation"}},
}


def gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Return the gradients of what is trained, and forget them."""
    trained = [(name, tensor) for name, tensor in trainer.parameters.items() if tensor.grad is not None]
    grads = {name: tensor.grad.clone() for name, tensor in trained if tensor.grad is not None}
    for _, tensor in trained:
        tensor.grad = None
    return grads


def in_double(trainer: Any) -> Any:
    """Return a trainer of an open_clip encoder, which computes in double precision."""
    trainer.module.double().visual.register_forward_pre_hook(lambda _, inputs: tuple(part.double() for part in inputs))
    return trainer


def call_of(recipe: str, changes: Sequence[str] = ()) -> TrainingCall:
    """Return what a trainer on a processor takes."""
    return TrainingCall(load_recipe(recipe, changes), TrainingProcesses("cpu"))


def unit_vectors(encoded: Iterator[Encoded]) -> torch.Tensor:
    """Return ``[n, d]`` unit vectors of what an encoder gives, in the order of its inputs."""
    return torch.nn.functional.normalize(torch.from_numpy(stacked(encoded)), dim=1)
