"""Self-critical sequence training: which captions gain probability, and by how much.

Source: Sarto et al. 2024 (PAC-S++), equation 19, with what its relatives do otherwise (see ``docs/recipes.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import torch

Baseline = Literal["mean", "leave_one_out", "greedy"]
LengthNorm = Literal["none", "tokens", "longest", "batch"]


def advantages(rewards: np.ndarray, baseline: Baseline, greedy: np.ndarray | None = None) -> np.ndarray:
    """Return by how much each caption is better than the baseline of its image; 0 where it has no value.

    ``mean``: the mean reward of the image's captions, the caption's own included. ``leave_one_out``: that of the
    others; of ``l`` captions with a value it is ``l / (l - 1)`` times the former. ``greedy``: the reward of the caption
    that greedy search writes.

    Args:
        rewards: ``[b, l]``; NaN where a caption has no value.
        baseline: Which.
        greedy: ``[b]`` the rewards of greedy captions, for the baseline of that name.

    Raises:
        ValueError: The baseline is ``greedy``, and they are not given.
    """
    import numpy as np

    has_value = np.isfinite(rewards)
    known = np.where(has_value, rewards, 0.0)
    if baseline == "greedy":
        if greedy is None:
            raise ValueError("the baseline 'greedy' takes the rewards of greedy captions")
        found = known - greedy[:, None]
    else:
        count = has_value.sum(1, keepdims=True)
        found = known - known.sum(1, keepdims=True) / np.maximum(count, 1)
        if baseline == "leave_one_out":
            found = found * count / np.maximum(count - 1, 1)
    return np.where(has_value & np.isfinite(found), found, 0.0)


def scst_loss(
    log_probs: torch.Tensor,
    lengths: torch.Tensor,
    advantage: torch.Tensor,
    captions: int,
    norm: LengthNorm,
    longest: int,
    tokens: int,
) -> torch.Tensor:
    """Return the part that some captions have in the loss of a batch; its gradient is that of equation 19.

    ``-(1/n) Σ_i A_i s_i``, with ``s_i`` the sum of the caption's log-probabilities (``none``), their mean
    (``tokens``), or the sum over the most tokens that a caption may have (``longest``); ``batch`` is one mean over all
    tokens of the batch.

    Args:
        log_probs: ``[m, t]``; 0 after the end of a caption.
        lengths: ``[m]`` how many tokens each has.
        advantage: ``[m]``.
        captions: ``n``, of the whole batch.
        norm: Which.
        longest: Tokens that a caption may have.
        tokens: Of all captions of the batch.
    """
    sums = log_probs.sum(1)
    if norm == "batch":
        return -(advantage * sums).sum() / tokens
    if norm == "tokens":
        sums = sums / lengths
    elif norm == "longest":
        sums = sums / longest
    return -(advantage * sums).sum() / captions
