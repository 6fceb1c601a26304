"""The gradient of self-critical training against calculations by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from capbench.recipes.training.scst import LengthNorm, advantages, scst_loss

NAN = float("nan")


@pytest.mark.parametrize(
    ("baseline", "factor"),
    # Of two captions the other alone is the baseline of the one: twice the distance from their mean.
    [("mean", 1.0), ("leave_one_out", 2.0)],
)
def test_gradient_on_a_vocabulary_of_two_words_is_that_of_a_calculation_by_hand(baseline, factor: float):
    # One logit: p(word 0) = p = 1 / (1 + exp(-x)) at each place, whatever stood before.
    x = torch.tensor(0.3, requires_grad=True)
    log_p, log_q = torch.nn.functional.logsigmoid(x), torch.nn.functional.logsigmoid(-x)
    # "0 0 1" and "1": with rewards 0.9 and 0.2 their mean is 0.55.
    log_probs = torch.stack([torch.stack([log_p, log_p, log_q]), torch.stack([log_q, log_q * 0, log_q * 0])])
    better = advantages(np.array([[0.9, 0.2]]), baseline)
    loss = scst_loss(
        log_probs, torch.tensor([3, 1]), torch.tensor(better.ravel(), dtype=torch.float32), 2, "none", 30, 4
    )
    loss.backward()
    p = 1 / (1 + math.exp(-0.3))
    # d log p / dx = 1 - p, d log q / dx = -p.
    by_hand = -0.5 * (0.35 * (2 * (1 - p) - p) + -0.35 * -p)
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(factor * by_hand, abs=1e-6)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("none", -(0.5 * -3.0 + -0.5 * -0.5) / 2),
        ("tokens", -(0.5 * -1.5 + -0.5 * -0.5) / 2),
        ("longest", -(0.5 * -3.0 + -0.5 * -0.5) / 10 / 2),
        ("batch", -(0.5 * -3.0 + -0.5 * -0.5) / 3),
    ],
)
def test_log_probabilities_are_divided_as_told(norm: LengthNorm, expected: float):
    log_probs = torch.tensor([[-1.0, -2.0], [-0.5, 0.0]])
    found = scst_loss(log_probs, torch.tensor([2, 1]), torch.tensor([0.5, -0.5]), 2, norm, 10, 3)
    assert found.item() == pytest.approx(expected)


def test_leave_one_out_is_the_mean_times_a_constant_and_captions_without_a_value_have_none():
    rewards = np.array([[1.0, 2.0, 6.0], [1.0, NAN, 3.0], [NAN, NAN, 5.0], [NAN, NAN, NAN]])
    own, others = advantages(rewards, "mean"), advantages(rewards, "leave_one_out")
    np.testing.assert_allclose(own, [[-2, -1, 3], [-1, 0, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(others[0], own[0] * 3 / 2)
    np.testing.assert_allclose(others[1], own[1] * 2)
    assert not others[2:].any()
    # 6 against the mean of 1 and 2.
    assert others[0, 2] == pytest.approx(6 - 1.5)


def test_greedy_caption_is_the_baseline_where_it_has_a_value():
    found = advantages(np.array([[1.0, 2.0], [1.0, 2.0]]), "greedy", np.array([1.5, NAN]))
    np.testing.assert_allclose(found, [[-0.5, 0.5], [0, 0]])
    with pytest.raises(ValueError, match="takes the rewards of greedy captions"):
        advantages(np.array([[1.0, 2.0]]), "greedy")
