"""What Polos learned: how layers are mixed, and the head. Read from safetensors, made once of the released file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters.checkpoint_identity import checkpoint_digest
from ...adapters.checkpoints import tensor_shapes
from ...errors import AdapterError, MetricError

FILE = "polos.safetensors"
_SCALAR = "scalar_mix.scalar_parameters."
_GAMMA = "scalar_mix.gamma"
_LINEAR = "ff.0.ff.linear_"
_LEARNED = re.compile(rf"{re.escape(_SCALAR)}\d+|{re.escape(_GAMMA)}|{re.escape(_LINEAR)}\d+\.(?:weight|bias)")
_CONVERT = (
    'The released reprod.ckpt is made into one by: python -c "from capbench.metrics.polos.weights import convert; '
    "convert('reprod.ckpt', 'polos.safetensors')\""
)


@dataclass(frozen=True)
class PolosWeights:
    """The learned numbers, float32.

    Attributes:
        mix: ``[l]`` a number for each layer of the text model, embeddings first; their softmax weighs the layers.
        gamma: Factor of the mixture.
        layers: Weight ``[out, in]`` and bias ``[out]`` of each linear layer of the head.
    """

    mix: np.ndarray
    gamma: float
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]

    def head(self, inputs: np.ndarray) -> np.ndarray:
        """Return ``[n]`` scores (0-1) of inputs ``[n, d]``: tanh after all layers but the last, then a sigmoid."""
        *inner, (weight, bias) = self.layers
        for inner_weight, inner_bias in inner:
            inputs = np.tanh(inputs @ inner_weight.T + inner_bias)
        return 1 / (1 + np.exp(-(inputs @ weight.T + bias)[:, 0].astype(np.float64)))


def require_file(path: Path) -> None:
    """Raise if a file of weights is missing.

    Raises:
        MetricError: The hint says how it is made.
    """
    if path.suffix != ".safetensors" or not path.is_file():
        raise MetricError(f"Polos' weights {path}: there is no such .safetensors file.", _CONVERT)


def file_identity(path: Path) -> str:
    """Return which weights a file holds; ``not loaded`` without a file."""
    try:
        return f"sha256 {checkpoint_digest(path)}"
    except AdapterError:
        return "not loaded"


def load(path: Path) -> PolosWeights:
    """Read the weights of a file.

    Raises:
        MetricError: It is missing, damaged, or holds other tensors.
    """
    from safetensors.numpy import load_file

    require_file(path)
    try:
        tensor_shapes(path)
    except AdapterError as error:
        raise MetricError(error.message, error.hint) from error
    tensors = {name: tensor.astype(np.float32) for name, tensor in load_file(path).items()}
    _require(tensors, path)
    scalars = [tensors[f"{_SCALAR}{number}"].ravel() for number in range(_count(tensors, _SCALAR))]
    numbers = range(1, 1 + sum(name.endswith(".weight") for name in tensors))
    return PolosWeights(
        np.concatenate(scalars),
        float(tensors[_GAMMA].ravel()[0]),
        tuple((tensors[f"{_LINEAR}{n}.weight"], tensors[f"{_LINEAR}{n}.bias"]) for n in numbers),
    )


def convert(checkpoint: str | Path, target: str | Path) -> Path:
    """Write the mixture and the head of a released checkpoint as safetensors; nothing in it is run.

    Args:
        checkpoint: ``reprod.ckpt`` of Polos' release, or a file with its state dict.
        target: The new file.

    Returns:
        The new file.

    Raises:
        MetricError: The checkpoint is missing, cannot be read as tensors alone, or is not Polos'.
    """
    import torch
    from safetensors.torch import save_file

    source, target = Path(checkpoint).expanduser(), Path(target).expanduser()
    try:
        tensor_shapes(source)
    except AdapterError as error:
        raise MetricError(
            error.message,
            "Where you trust the file, load it in an environment that can read it, and save its tensors alone: "
            "torch.save(CHECKPOINT['state_dict'], 'tensors.pt'); then convert that one.",
        ) from error
    content: Any = torch.load(source, map_location="cpu", weights_only=True)
    state: Mapping[str, Any] = content.get("state_dict", content)
    kept = {name: tensor.float().contiguous() for name, tensor in state.items() if _LEARNED.fullmatch(name)}
    _require(kept, source)
    save_file(kept, target)
    return target


def _require(tensors: Mapping[str, Any], path: Path) -> None:
    """Raise unless tensors are a mixture and a head whose layers fit each other.

    Raises:
        MetricError: A tensor is missing, or has another shape.
    """
    linear = len({name[len(_LINEAR) :].partition(".")[0] for name in tensors if name.startswith(_LINEAR)})
    expected = {_GAMMA, *(f"{_SCALAR}{number}" for number in range(_count(tensors, _SCALAR) or 1))}
    expected |= {f"{_LINEAR}{n}.{part}" for n in range(1, 1 + (linear or 1)) for part in ("weight", "bias")}
    if missing := sorted(expected - tensors.keys()):
        raise MetricError(f"Polos' weights {path}: {missing[0]} is missing.", _CONVERT)
    width = None
    for number in range(1, linear + 1):
        weight, bias = (tuple(tensors[f"{_LINEAR}{number}.{part}"].shape) for part in ("weight", "bias"))
        out = weight[0] if number < linear else 1
        if weight != (out, width or weight[-1]) or bias != (out,):
            raise MetricError(
                f"Polos' weights {path}: {_LINEAR}{number} has a weight {weight} and a bias {bias}, which do not match "
                "each other, the layer before or the last layer's one number."
            )
        width = out


def _count(tensors: Mapping[str, Any], prefix: str) -> int:
    return sum(name.startswith(prefix) for name in tensors)
