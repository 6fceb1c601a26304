"""Trains the start captioner of recipes: short captions, stopped early, so that recipes can improve it.

``python -m capbench.recipes.shapes.world.short_captioner --encoder FOLDER --output FOLDER``

It is a small version of PAC-S++'s captioner, on the frozen tower of an encoder, trained by ``shapes_captioner_xe``.
"""

import json
import tempfile
from pathlib import Path

import torch
from transformers import VisionEncoderDecoderModel

from ...training.contract import TrainingCall
from ...training.execution import run_recipe
from ...training.history import StepReport
from ...training.new_captioner import write_new_captioner
from ...training.processes import TrainingProcesses
from ...training.schema import load_recipe
from .together import run

SIZES = {"layers": 2, "width": 80, "heads": 2, "inner": 160, "positions": 48}
_PRINTED = 50


def train(
    encoder: Path,
    output: Path,
    *,
    steps: int = 400,
    batch: int = 32,
    scenes: int = 1500,
    rate: float = 2e-3,
    seed: int = 0,
) -> None:
    """Train the start captioner of recipes in the shapes world.

    Args:
        encoder: Folder of the dual encoder.
        output: The output folder.
        steps: Number of steps, few enough that it still errs.
        batch: Pictures per step.
        scenes: Number of scenes.
        rate: The highest learning rate.
        seed: The random seed.
    """
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as shared:
        start, out = Path(shared) / "start", Path(shared) / "out"
        write_new_captioner(str(encoder), start, seed, **SIZES)
        changes = {
            "model": {"name": "hf", "arguments": {"pretrained": str(start)}},
            "data.arguments.scenes": scenes,
            "objective.batch": batch,
            "optimiser.rate": rate,
            "stop": {"steps": steps, "every": steps},
            "seed": seed,
        }
        loaded = load_recipe("shapes_captioner_xe", [f"{key}={json.dumps(value)}" for key, value in changes.items()])
        run_recipe(TrainingCall(loaded, TrainingProcesses("cpu")), out, _tell, {}, judge=False)
        VisionEncoderDecoderModel.from_pretrained(out / "weights").half().save_pretrained(output)
        for file in (out / "weights").glob("*.json"):
            if not (output / file.name).exists():
                (output / file.name).write_bytes(file.read_bytes())


def _tell(taken: StepReport) -> None:
    if taken.step % _PRINTED == 0:
        print(f"step {taken.step} of {taken.steps}: loss {taken.loss:.3f}", flush=True)


if __name__ == "__main__":
    run(train)
