"""LoRA of PAC-S++: in attention, MLP and patch embedding of both towers of a CLIP."""

import math
from collections.abc import Mapping

import torch
from torch.nn import init
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations

from ...adapters.encoders.open_clip import weight_of_factor
from ...adapters.encoders.pac import lora_shapes
from ...errors import UsageError


class _Factors(torch.nn.Module):
    def __init__(self, down: torch.nn.Parameter, up: torch.nn.Parameter, scaling: float) -> None:
        super().__init__()
        self.down, self.up = down, up
        self._scaling = scaling

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + (self.up @ self.down).view(weight.shape) * self._scaling


class PacLora:
    """The factors of a module, added to its weights on each use.

    One pair for attention's three inputs together, one each for its output, the MLP's layers and the patches. B starts
    at zero, except in the first pair, whose A and B are Xavier-uniform: this changes the model before the first step.
    Scaled by ``alpha / rank``.
    Source: models/custom_loralib/layers.py of pacscore; the PAC-S++ paper, section 3.3.

    Args:
        module: A CLIP with OpenAI's names; its weights are frozen already.
        rank: Rank of the factors.
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
                "It needs a vision transformer CLIP with OpenAI's names (adapters open_clip and pac); use kind 'peft'.",
            )
        self.factors: dict[str, torch.nn.Parameter] = {}
        device = self.plain["visual.conv1.weight"].device
        for name in [name for name in shapes if name.endswith("lora_A")]:
            down, up = (torch.empty(shapes[factor]) for factor in (name, f"{name[:-1]}B"))
            _start(down, up, is_input=name.endswith("in_proj_weight_lora_A"))
            for key, value in ((name, down), (f"{name[:-1]}B", up)):
                self.factors[key] = torch.nn.Parameter(value.to(device))
        self._places = add_factors(module, self.factors, alpha / rank)

    def merge(self) -> None:
        """Merge the factors into the weights."""
        for part, weight in self._places:
            remove_parametrizations(part, weight, leave_parametrized=True)


def add_factors(
    module: torch.nn.Module, factors: Mapping[str, torch.nn.Parameter], scaling: float
) -> list[tuple[torch.nn.Module, str]]:
    """Add pairs of factors to a module's weights on each use.

    Args:
        module: A CLIP with OpenAI's names.
        factors: By the names of PAC-S++.
        scaling: Scale of their product.

    Returns:
        The submodule and the name of the weight of each pair.
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
