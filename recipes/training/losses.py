"""Contrastive losses, as functions of similarities.

Similarities are cosines times the model's scale, ``[b, n, m]``: image ``i`` with the ``m``-th caption of row ``j``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Pooling = Literal["average", "hardest", "hardest_released"]
NegativesLoss = Literal["none", "bce", "negclip", "pairwise"]


def info_nce(pairs: torch.Tensor) -> torch.Tensor:
    """Return the mean of the cross entropies of both directions; the right partner is on the diagonal.

    Source: CLIP (Radford et al. 2021, figure 3); PAC-S++ equations 1 and 2.

    Args:
        pairs: ``[b, b]``.
    """
    import torch
    from torch.nn.functional import cross_entropy

    own = torch.arange(len(pairs), device=pairs.device)
    return (cross_entropy(pairs, own) + cross_entropy(pairs.T, own)) / 2


def pooled(similarities: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Return one similarity of each image with each row's captions.

    ``average`` is their mean, as DCI's code has it unless told otherwise. ``hardest`` is what DCI's paper says: of an
    image's own captions the least similar, of others' the most similar. ``hardest_released`` is what its code makes
    of that: the most similar throughout, since it pools before it looks for its own (loss.py, ``clip_loss``).

    Args:
        similarities: ``[b, n, m]``.
        pooling: How.

    Returns:
        ``[b, n]``.
    """
    import torch

    if pooling == "average":
        return similarities.mean(2)
    most = similarities.amax(2)
    if pooling == "hardest_released":
        return most
    own = torch.eye(*most.shape, dtype=torch.bool, device=most.device)
    return torch.where(own, similarities.amin(2), most)


def pooled_positives(similarities: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Return the similarity of each image with its own captions, for losses of negatives.

    Here DCI's code takes the least similar where it takes the hardest, as its paper says.

    Args:
        similarities: ``[b, b, m]``.
        pooling: How.

    Returns:
        ``[b]``.
    """
    return pooled(similarities, "average" if pooling == "average" else "hardest").diagonal()


def negatives_bce(positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """Return the binary cross entropy of similarities that should be 1 and 0, as numbers on their own.

    Source: DCI, loss.py, ``negatives_loss_pairwise``: it pulls similarities to either side of 0, and ranks no pairs.

    Args:
        positive: ``[b]``.
        negative: ``[b]``.
    """
    from torch.nn.functional import softplus

    return (softplus(-positive) + softplus(negative)).mean() / 2


def negatives_pairwise(positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of choosing the true text of the two.

    Args:
        positive: ``[b]``.
        negative: ``[b]``.
    """
    from torch.nn.functional import softplus

    return softplus(negative - positive).mean()


def negclip(pairs: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
    """Return InfoNCE in which images choose among false texts too.

    Source: NegCLIP (Yuksekgonul et al. 2023), src/open_clip/loss.py: images choose among true and false texts of all
    rows, true texts among images; the mean of both.

    Args:
        pairs: ``[b, b]``: images with true texts.
        negatives: ``[b, n]``: images with false texts.
    """
    import torch
    from torch.nn.functional import cross_entropy

    own = torch.arange(len(pairs), device=pairs.device)
    of_images = cross_entropy(torch.cat([pairs, negatives], dim=1), own)
    return (of_images + cross_entropy(pairs.T, own)) / 2
