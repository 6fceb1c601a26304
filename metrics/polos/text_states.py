"""Texts through RoBERTa, every layer of it, and the mixture of layers by which Polos makes a vector of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adapters.batch_size import BatchSize
from ...adapters.devices import find_device
from ...adapters.encoders.clip_tokens import reserved_positions
from ...errors import MetricError
from ..vectors.checkpoints import Checkpoint
from ..vectors.padded_batches import batches_that_fit

if TYPE_CHECKING:
    import torch

_EPSILON = 1e-12
_TOKENS_A_BATCH = 4096


@dataclass(frozen=True)
class TextState:
    """What the mixture needs of a text: ``l`` layers, embeddings first.

    Attributes:
        first: ``[l, d]`` float32 the states of the first token.
        sums: ``[l]`` float64 the sum of the states of all tokens.
        squares: ``[l]`` the sum of their squares.
        numbers: How many numbers these are sums of.
    """

    first: np.ndarray
    sums: np.ndarray
    squares: np.ndarray
    numbers: int


def mixed(states: Sequence[TextState], mix: np.ndarray, gamma: float) -> np.ndarray:
    """Return ``[b, d]`` float32 vectors of texts that are normalised together.

    Each layer is brought to mean 0 and variance 1 by one mean and one variance over all numbers of all texts, so that
    the vector of a text depends on those beside it; the layers are added, weighed by the softmax of ``mix``.

    Args:
        states: Of the texts of a batch.
        mix: ``[l]`` as of ``PolosWeights``.
        gamma: The same.
    """
    numbers = sum(one.numbers for one in states)
    means = np.sum([one.sums for one in states], axis=0) / numbers
    variances = np.sum([one.squares for one in states], axis=0) / numbers - means**2
    shares = np.exp(mix.astype(np.float64) - mix.max())
    shares /= shares.sum()
    scales = shares / np.sqrt(variances + _EPSILON)
    first = np.stack([one.first for one in states]).astype(np.float64)
    return (gamma * np.einsum("bld,l->bd", first - means[:, None], scales)).astype(np.float32)


@dataclass(frozen=True)
class TextModel:
    """RoBERTa with its tokenizer.

    Attributes:
        what: What it is, in messages.
        model: Gives ``hidden_states``.
        tokenizer: Turns texts into token ids.
        device: Where the model is.
        longest: Tokens that a text may have, start and end included.
        batch: Tokens at once.
    """

    what: str
    model: Any
    tokenizer: Any
    device: torch.device
    longest: int
    batch: BatchSize = field(default_factory=lambda: BatchSize(_TOKENS_A_BATCH))

    @classmethod
    def load(cls, checkpoint: Checkpoint, device: str | None, layers: int) -> TextModel:
        """Load it.

        Args:
            checkpoint: Where it is.
            device: Such as ``cpu``; None for a GPU where there is one.
            layers: How many the mixture is of, embeddings included.

        Raises:
            MetricError: It cannot be loaded, or has another number of layers.
        """
        import torch

        config = checkpoint.load("AutoConfig")
        if config.num_hidden_layers + 1 != layers:
            raise MetricError(
                f"{checkpoint.what} '{checkpoint.name}' has {config.num_hidden_layers} layers; the weights mix "
                f"{layers - 1} and the embeddings.",
                "Polos was trained with princeton-nlp/sup-simcse-roberta-base.",
            )
        found = find_device(device, MetricError)
        tokenizer = checkpoint.load("AutoTokenizer")
        model = checkpoint.load("AutoModel", config=config, dtype=torch.float32).eval().to(found)
        longest = config.max_position_embeddings - reserved_positions(model)
        return cls(checkpoint.what, model, tokenizer, found, longest)

    def states(self, texts: Sequence[str]) -> Iterator[tuple[int, TextState | str]]:
        """Yield the number of each text with its state, or with the reason why it has none, longest first."""
        import torch

        if not texts:
            return
        ids: list[list[int]] = self.tokenizer(list(texts), verbose=False)["input_ids"]
        usable = [number for number, one in enumerate(ids) if len(one) <= self.longest]
        for number, one in enumerate(ids):
            if len(one) > self.longest:
                yield number, f"has {len(one)} tokens, and the text model takes {self.longest}"

        def run(batch: Sequence[int]) -> list[np.ndarray]:
            with torch.inference_mode():
                made = self.model(
                    input_ids=torch.tensor([ids[number] for number in batch], device=self.device),
                    output_hidden_states=True,
                )
                states = torch.stack(made.hidden_states, dim=1)
                exact = states.double()
                return [
                    one.cpu().numpy()
                    for one in (states[:, :, 0], exact.sum(dim=(2, 3)), exact.square().sum(dim=(2, 3)))
                ]

        # Texts of one length go together: padding would move states in their last bits.
        by_length: dict[int, list[int]] = {}
        for number in sorted(usable, key=lambda number: len(ids[number]), reverse=True):
            by_length.setdefault(len(ids[number]), []).append(number)
        for length, alike in by_length.items():
            for batch, (first, sums, squares) in batches_that_fit(
                self.what, self.batch, alike, run, lambda number: len(ids[number])
            ):
                width = first.shape[-1]
                for row, number in enumerate(batch):
                    yield number, TextState(first[row], sums[row], squares[row], length * width)
