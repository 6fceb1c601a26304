from __future__ import annotations

import math

import pytest
import torch

from capbench.recipes.training.contrastive import (
    info_nce,
    negatives_bce,
    negatives_pairwise,
    negclip,
    pooled,
    pooled_positives,
)

PAIRS = torch.tensor([[2.0, 0.0], [1.0, 3.0]])


def softplus(value: float) -> float:
    return math.log1p(math.exp(value))


def test_info_nce_is_the_mean_of_both_directions():
    of_images = softplus(0 - 2) + softplus(1 - 3)
    of_texts = softplus(1 - 2) + softplus(0 - 3)
    assert info_nce(PAIRS).item() == pytest.approx((of_images + of_texts) / 4)


def test_bce_judges_each_similarity_by_itself():
    positive, negative = torch.tensor([28.0]), torch.tensor([26.0])
    # At CLIP's usual logits the negative alone counts, though the pair is in order.
    assert negatives_bce(positive, negative).item() == pytest.approx(13.0, abs=1e-4)
    several = negatives_bce(torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0])).item()
    assert several == pytest.approx((softplus(-1) + softplus(0.5) + softplus(2) + softplus(3)) / 4)


def test_pairwise_looks_at_the_difference_alone():
    found = negatives_pairwise(torch.tensor([28.0, 1.0]), torch.tensor([26.0, 4.0])).item()
    assert found == pytest.approx((softplus(-2) + softplus(3)) / 2)


def test_negclip_lets_images_alone_choose_among_false_texts():
    negatives = torch.tensor([[1.0, -1.0], [0.0, 2.5]])
    of_images = [
        -math.log(math.exp(2) / sum(map(math.exp, (2, 0, 1, -1)))),
        -math.log(math.exp(3) / sum(map(math.exp, (1, 3, 0, 2.5)))),
    ]
    of_texts = [softplus(1 - 2), softplus(0 - 3)]
    assert negclip(PAIRS, negatives).item() == pytest.approx((sum(of_images) + sum(of_texts)) / 4)
    assert negclip(PAIRS, negatives[:, :0]).item() == pytest.approx(info_nce(PAIRS).item())


def test_captions_are_pooled_as_the_paper_says_as_the_code_says_and_by_their_mean():
    # [images, rows, captions]
    similarities = torch.tensor([[[3.0, 1.0], [0.0, 2.0]], [[-1.0, 0.5], [4.0, 6.0]]])
    assert pooled(similarities, "average").tolist() == [[2.0, 1.0], [-0.25, 5.0]]
    assert pooled(similarities, "hardest").tolist() == [[1.0, 2.0], [0.5, 4.0]]
    assert pooled(similarities, "hardest_released").tolist() == [[3.0, 2.0], [0.5, 6.0]]
    assert pooled_positives(similarities, "average").tolist() == [2.0, 5.0]
    for pooling in ("hardest", "hardest_released"):
        assert pooled_positives(similarities, pooling).tolist() == [1.0, 4.0]
