"""What happens between a model's logits and the choice of a token."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


class FiniteLogits:
    """Finds samples whose logits are not finite, and ends them.

    A sample that has ended is no longer looked at: what the model computes from its padding means nothing.

    Args:
        end_ids: Tokens that end a caption.
        rows: Rows of the batch that belong to one sample; they lie side by side.

    Attributes:
        start: Tokens that stood in each row before the first was written.
    """

    def __init__(self, end_ids: Sequence[int], rows: int = 1) -> None:
        self.start = 0
        self._end_ids = list(end_ids)
        self._rows = rows
        self._state: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
        """End tokens, which rows were faulty, and which have ended; on the device, where nothing waits for them."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores ``[rows, vocabulary]``; of a faulty row, the end is all that is left."""
        import torch

        # NaN and infinity alone make the maximum of a row not finite; so does a row of -inf.
        broken = ~torch.isfinite(scores.amax(-1))
        if self._state is None:
            self.start = input_ids.shape[1]
            ends = torch.tensor(self._end_ids, device=scores.device)
            self._state = ends, torch.zeros_like(broken), torch.zeros_like(broken)
        ends, faulty, ended = self._state
        if self._rows == 1 and input_ids.shape[1] > self.start:
            # Rows of a beam search change places; there it is the search that ends.
            ended |= torch.isin(input_ids[:, -1].to(ends.device), ends)
        faulty |= broken & ~ended
        end_only = torch.full_like(scores[:1], -float("inf"))
        end_only[:, ends[:1]] = 0.0
        return torch.where(broken[:, None], end_only, scores)

    def faulty(self) -> list[bool]:
        """Return which samples had logits that are not finite."""
        return [] if self._state is None else self._state[1].view(-1, self._rows).any(-1).tolist()


class SeededChoice:
    """Samples tokens by random numbers of the sample's own, so that other samples change nothing.

    Each token is drawn by inverting the distribution function of its row at one uniform number.

    Args:
        uniforms: ``[rows, steps]`` numbers in [0, 1).
    """

    def __init__(self, uniforms: np.ndarray) -> None:
        import torch

        self._uniforms = torch.from_numpy(uniforms)
        self._step = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores ``[rows, vocabulary]`` in which the drawn token alone is possible."""
        import torch

        cumulative = scores.double().softmax(-1).cumsum(-1)
        self._uniforms = self._uniforms.to(scores.device)
        drawn = self._uniforms[:, self._step, None]
        self._step += 1
        chosen = torch.searchsorted(cumulative, drawn * cumulative[:, -1:], right=True)
        # Rounding may put the last number on the end of the distribution.
        chosen = chosen.clamp(max=scores.shape[-1] - 1)
        return torch.full_like(scores, -float("inf")).scatter(1, chosen, 0.0)


def generator_of(seed: int, *names: str) -> np.random.Generator:
    """Return a generator of random numbers that depends on a seed and on names, on nothing else."""
    digest = hashlib.sha256("\0".join([str(seed), *names]).encode("utf-8", "backslashreplace")).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
