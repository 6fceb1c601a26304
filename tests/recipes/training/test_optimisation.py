"""The learning rate at a step, what a step does to weights, and the gradient of self-critical training."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tiny_recipes import REFUSED

from capbench.errors import UsageError
from capbench.recipes.training.optimisation import clamp, clipped_norm, optimiser_of, rate_at, rates_of, take_step
from capbench.recipes.training.schema import Optimiser, RateSchedule
from capbench.recipes.training.scst import LengthNorm, advantages, scst_loss


def test_rate_rises_then_falls_as_it_is_told():
    optimiser = Optimiser(rate=8.0)
    assert [rate_at(n, 10, optimiser, RateSchedule(warm_up=3)) for n in (0, 1, 2, 3, 9)] == [2, 4, 6, 8, 8]
    linear = RateSchedule(decay="linear")
    assert [rate_at(n, 4, optimiser, linear) for n in range(4)] == [8, 6, 4, 2]
    cosine = RateSchedule(decay="cosine", warm_up=2)
    assert [rate_at(n, 6, optimiser, cosine) for n in (2, 4)] == pytest.approx([8, 4])
    held = RateSchedule(warm_up=1, hold=4, decay="linear", until=8, floor=2.0)
    assert [rate_at(n, 20, optimiser, held) for n in (0, 1, 4, 6, 8, 19)] == pytest.approx([4, 8, 8, 5, 2, 2])
    # With nothing left to fall in, it has fallen.
    short = RateSchedule(warm_up=5, decay="linear", until=5)
    assert [rate_at(n, 5, optimiser, short) for n in (5, 6)] == [8, 0]


Weights = torch.nn.Parameter


def stepped(gradients: list[list[float]], rate: float = 0.1, **keys: float | tuple[float, float] | None) -> Weights:
    """Return two weights that began at 1, after a step of each of these gradients."""
    return taken(gradients, rate, **keys)[0]


def taken(gradients: list[list[float]], rate: float = 0.1, **keys: Any) -> tuple[Weights, list[float]]:
    weights, optimiser, norms = Weights(torch.ones(2)), Optimiser(rate=9.0, **keys), list[float]()
    stepper = optimiser_of({"w": weights}, optimiser)
    for gradient in gradients:
        weights.grad = torch.tensor(gradient)
        norms.append(clipped_norm([weights], optimiser))
        take_step(stepper, rate)
    return weights, norms


def moved(weights: Weights) -> list[float]:
    return (weights.detach() - 1).tolist()


def test_steps_follow_the_gradient_of_the_step_alone_once_their_memory_is_none():
    movement = moved(stepped([[1.0, 1.0], [-1.0, 2.0]], betas=(0.0, 0.0)))
    assert movement == pytest.approx([0.0, -0.2], abs=1e-4)
    # With a long memory the first gradient counts in the second step.
    assert moved(stepped([[1.0, 1.0], [-1.0, 1.0]], betas=(0.9, 0.9)))[0] < -0.05


def test_gradients_are_cut_to_their_norm_which_is_told_as_it_was():
    (plain, norm), (cut, same) = taken([[3.0, 4.0]]), taken([[3.0, 4.0]], clip=1e-9)
    assert norm == same == pytest.approx([5.0])
    assert moved(plain)[0] == pytest.approx(-0.1, rel=1e-4)
    # What is left of it is lost beside eps.
    assert abs(moved(cut)[0]) < 0.01
    assert abs(moved(stepped([[3.0, 4.0]], eps=1e6))[0]) < 1e-5


def test_decay_pulls_weights_to_zero_by_its_share_of_the_rate():
    assert moved(stepped([[0.0, 1.0]], weight_decay=0.5)) == pytest.approx([-0.05, -0.15], rel=1e-4)


@pytest.mark.parametrize(("no_decay", "exempt"), [("vectors", "bs"), (["b*"], "b"), ([], "")])
def test_named_parameters_are_not_decayed(no_decay: Any, exempt: str):
    parameters = {"w": Weights(torch.ones(2, 2)), "bias": Weights(torch.ones(2)), "scale": Weights(torch.ones(()))}
    stepper = optimiser_of(parameters, Optimiser(rate=1.0, weight_decay=0.5, no_decay=no_decay))
    for parameter in parameters.values():
        parameter.grad = torch.zeros_like(parameter)
    take_step(stepper, 0.1)
    kept = {name for name, parameter in parameters.items() if parameter.detach().max() == 1}
    assert kept == {name for name in parameters if name[0] in exempt}


def test_parameters_keep_within_their_range():
    parameters = {"logit_scale": Weights(torch.tensor(5.0)), "w": Weights(torch.tensor([-9.0, 9.0]))}
    clamp(parameters, Optimiser(rate=1.0, clamp={"*scale": (0.0, math.log(100)), "w": (-8.0, 10.0)}))
    assert parameters["logit_scale"].item() == pytest.approx(math.log(100))
    assert parameters["w"].tolist() == [-8.0, 9.0]


def test_optimisers_of_torch_take_their_own_arguments():
    weights = {"w": Weights(torch.ones(1))}
    stepper = optimiser_of(weights, Optimiser(rate=1.0, name="SGD", arguments={"momentum": 0.5}))
    for _ in range(2):
        weights["w"].grad = torch.ones(1)
        take_step(stepper, 0.1)
    # The second step moves by the gradient and half of the first.
    assert moved(weights["w"]) == pytest.approx([-0.25])


@pytest.mark.parametrize(("keys", "message"), REFUSED["optimiser"])
def test_optimisers_without_effect_are_refused(keys: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        optimiser_of({"w": Weights(torch.ones(2))}, Optimiser(rate=1.0, **keys))


def test_schedules_of_transformers_are_taken_by_name():
    keys: dict[str, Any] = {"name": "cosine_with_restarts", "arguments": {"num_cycles": 2}, "warm_up": 2}
    rate = rates_of(10, Optimiser(rate=8.0), RateSchedule(**keys))
    # From 0 to the highest, and back there halfway through the rest.
    assert [rate(step) for step in (0, 1, 2, 4, 6, 8)] == pytest.approx([0, 4, 8, 4, 8, 4])
    for name, message in (("cosign", "cosign"), ("reduce_lr_on_plateau", "depends on more than the step")):
        with pytest.raises(UsageError, match=message):
            rates_of(10, Optimiser(rate=8.0), RateSchedule(name=name))


@pytest.mark.parametrize(
    ("kind", "keys", "message"),
    [
        (RateSchedule, {"name": "cosine", "floor": 1.0}, "'floor' does not go with 'name'"),
        (RateSchedule, {"arguments": {"num_cycles": 2}}, "need 'name'"),
        (Optimiser, {"rate": 1.0, "no_decay": "vectors"}, "no effect without 'weight_decay'"),
        (Optimiser, {"rate": 1.0, "clamp": {"w": (2, 1)}}, "exceeds the greatest"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(kind: Any, keys: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        kind(**keys)


# --- the gradient of self-critical training, against calculations by hand

NAN = float("nan")


@pytest.mark.parametrize(
    ("baseline", "factor"),
    # Of two captions the other alone is the baseline of the one: twice the distance from their mean.
    [("mean", 1.0), ("leave_one_out", 2.0)],
)
def test_gradient_on_a_vocabulary_of_two_words_is_that_of_a_calculation_by_hand(baseline, factor: float):
    # One logit: p(word 0) = p = 1 / (1 + exp(-x)) at each place, whatever stood before.
    x = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    log_p, log_q = torch.nn.functional.logsigmoid(x), torch.nn.functional.logsigmoid(-x)
    # "0 0 1" and "1": with rewards 0.9 and 0.2 their mean is 0.55.
    log_probs = torch.stack([torch.stack([log_p, log_p, log_q]), torch.stack([log_q, log_q * 0, log_q * 0])])
    better = advantages(np.array([[0.9, 0.2]]), baseline)
    loss = scst_loss(log_probs, torch.tensor([3, 1]), torch.tensor(better.ravel()), 2, "none", 30, 4)
    loss.backward()
    p = 1 / (1 + math.exp(-0.3))
    # d log p / dx = 1 - p, d log q / dx = -p.
    by_hand = -0.5 * (0.35 * (2 * (1 - p) - p) + -0.35 * -p)
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(factor * by_hand, rel=1e-8)


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
    log_probs = torch.tensor([[-1.0, -2.0], [-0.5, 0.0]]).double()
    loss = scst_loss(log_probs, torch.tensor([2, 1]), torch.tensor([0.5, -0.5]), 2, norm, 10, 3)
    assert loss.item() == pytest.approx(expected, rel=1e-8)


def test_leave_one_out_is_the_mean_times_a_constant_and_captions_without_a_value_have_none():
    rewards = np.array([[1.0, 2.0, 6.0], [1.0, NAN, 3.0], [NAN, NAN, 5.0], [NAN, NAN, NAN]])
    own, others = advantages(rewards, "mean"), advantages(rewards, "leave_one_out")
    np.testing.assert_allclose(own, [[-2, -1, 3], [-1, 0, 1], [0, 0, 0], [0, 0, 0]], rtol=1e-8)
    np.testing.assert_allclose(others[0], own[0] * 3 / 2, rtol=1e-8)
    np.testing.assert_allclose(others[1], own[1] * 2, rtol=1e-8)
    assert not others[2:].any()
    # 6 against the mean of 1 and 2.
    assert others[0, 2] == pytest.approx(6 - 1.5, rel=1e-8)


def test_greedy_caption_is_the_baseline_where_it_has_a_value():
    values = advantages(np.array([[1.0, 2.0], [1.0, 2.0]]), "greedy", np.array([1.5, NAN]))
    np.testing.assert_allclose(values, [[-0.5, 0.5], [0, 0]], rtol=1e-8)
    with pytest.raises(ValueError, match="needs the rewards of greedy captions"):
        advantages(np.array([[1.0, 2.0]]), "greedy")
