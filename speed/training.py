"""What a step of the contrastive trainer costs beside the bare forward and backward of the same batch.

``python speed/training.py`` prints core-seconds of either, and their ratio. The bare step is what one writes by hand:
inputs, both towers, InfoNCE, backward, AdamW.
"""

import argparse
import time
from collections.abc import Callable

import torch

from capbench.adapters.aliases import resolve_model
from capbench.recipes.training.contract import TrainingCall
from capbench.recipes.training.execution import opened
from capbench.recipes.training.optimisation import clipped_norm, optimiser_of, take_step
from capbench.recipes.training.processes import TrainingProcesses
from capbench.recipes.training.schema import load_recipe


def main() -> None:
    """Measure both, in turn, so that what else the machine does falls on both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="shapes-clip")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    changes = [
        f"model.name={options.model}", f"objective={{batch: {options.batch}}}", "lora=none", "result=own",
        f"data.arguments.scenes={2 * options.batch}", "data.validation=null", "stop={steps: 1}",
    ]  # fmt: skip
    loaded = load_recipe("shapes_pacspp", changes)
    trainer = opened(TrainingCall(loaded, TrainingProcesses("cpu")))
    optimiser = loaded.recipe.optimiser
    own = optimiser_of(trainer.parameters, optimiser)

    def ours(step: int) -> None:
        own.zero_grad()
        trainer.backward(step)
        clipped_norm(trainer.parameters.values(), optimiser)
        take_step(own, 1e-6)

    trainable = resolve_model(options.model).to_trainable("cpu")
    trainable.module.requires_grad_(True)
    adam = torch.optim.AdamW(trainable.module.parameters(), lr=1e-6)

    def bare(step: int) -> None:
        drawn = trainer._drawn(step)
        read = [trainable.transform.read(one) for one in drawn.images]
        inputs, _ = trainable.transform.collate(read)
        adam.zero_grad()
        images = torch.nn.functional.normalize(trainable.encode_images(inputs), dim=1)
        texts = torch.nn.functional.normalize(trainable.encode_texts(trainable.text_inputs(drawn.texts)), dim=1)
        pairs = trainable.module.logit_scale.exp() * images @ texts.T
        partners = torch.arange(len(pairs))
        loss = torch.stack([torch.nn.functional.cross_entropy(side, partners) for side in (pairs, pairs.T)]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable.module.parameters(), float("inf"))
        adam.step()

    spent = {"trainer": 0.0, "bare": 0.0}
    for step in range(options.steps + 1):
        for name, take in (("trainer", ours), ("bare", bare)):
            cost = _cost(take, step)
            # The first step warms both up.
            spent[name] += cost if step else 0.0
    for name, seconds in spent.items():
        print(f"{name:8} {seconds / options.steps:.3f} core-seconds a step of {options.batch}")
    print(f"ratio {spent['trainer'] / spent['bare']:.3f}")


def _cost(take: Callable[[int], None], step: int) -> float:
    began = time.process_time()
    take(step)
    return time.process_time() - began


if __name__ == "__main__":
    main()
