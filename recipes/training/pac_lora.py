"""LoRA as PAC-S++ has it: in attention, MLP and patches of both towers of a CLIP."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch.nn import init
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations

from ...adapters.encoders.pac import lora_shapes, weight_of_factor
from ...errors import UsageError


class _Factors(torch.nn.Module):
    def __init__(self, down: torch.nn.Parameter, up: torch.nn.Parameter, scaling: float) -> None:
        super().__init__()
        self.down, self.up = down, up
        self._scaling = scaling

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + (self.up @ self.down).view(weight.shape) * self._scaling


class PacLora:
    """The factors of a module, added to its weights whenever these are used.

    One pair for attention's three inputs together, one each for its output, the MLP's layers and the patches. All
    start with B at zero but the first, whose A and B are both Xavier-uniform: the model is another before its first
    step. Scaled by ``alpha / rank``.
    Source: models/custom_loralib/layers.py of pacscore; the PAC-S++ paper, section 3.3.

    Args:
        module: A CLIP by OpenAI's names; its own weights are frozen already.
        rank: Of the factors.
        alpha: See above.

    Raises:
        UsageError: The module has none of these weights.
    """

    def __init__(self, module: torch.nn.Module, rank: int, alpha: float) -> None:
        self._module = module
        self.plain: Mapping[str, torch.Tensor] = dict(module.state_dict())
        shapes = lora_shapes({name: tuple(value.shape) for name, value in self.plain.items()}, rank)
        if not any(name.startswith("visual.") and "in_proj" in name for name in shapes):
            raise UsageError(
                f"lora: kind 'pac' matches no weight of {type(module).__name__}.",
                "It goes with CLIPs of vision transformers by OpenAI's names, as the adapters open_clip and pac load "
                "them; kind 'peft' goes with others.",
            )
        self.factors: dict[str, torch.nn.Parameter] = {}
        device = self.plain["visual.conv1.weight"].device
        for name in [name for name in shapes if name.endswith("lora_A")]:
            down, up = (torch.empty(shapes[one]) for one in (name, f"{name[:-1]}B"))
            _start(down, up, is_input=name.endswith("in_proj_weight_lora_A"))
            for one, value in ((name, down), (f"{name[:-1]}B", up)):
                self.factors[one] = torch.nn.Parameter(value.to(device))
        self._places = add_factors(module, self.factors, alpha / rank)

    def merge(self) -> None:
        """Add the factors to the weights for good."""
        for part, weight in self._places:
            remove_parametrizations(part, weight, leave_parametrized=True)


def add_factors(
    module: torch.nn.Module, factors: Mapping[str, torch.nn.Parameter], scaling: float
) -> list[tuple[torch.nn.Module, str]]:
    """Add pairs of factors to a module's weights whenever these are used.

    Args:
        module: A CLIP by OpenAI's names.
        factors: By the names of PAC-S++.
        scaling: Of their product.

    Returns:
        The part and the weight in it of each pair.
    """
    places: list[tuple[torch.nn.Module, str]] = []
    for name in [name for name in factors if name.endswith("lora_A")]:
        layer, _, weight = weight_of_factor(name).rpartition(".")
        part = module.get_submodule(layer)
        register_parametrization(part, weight, _Factors(factors[name], factors[f"{name[:-1]}B"], scaling))
        places.append((part, weight))
    return places


def _start(down: torch.Tensor, up: torch.Tensor, *, is_input: bool) -> None:
    if is_input:
        init.xavier_uniform_(down)
        init.xavier_uniform_(up)
    else:
        init.kaiming_uniform_(down, a=math.sqrt(5))
        init.zeros_(up)
