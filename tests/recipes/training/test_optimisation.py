"""The learning rate at a step, and what a step does to weights."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from capbench.recipes.training.loop import AdamSteps, rate_at
from capbench.recipes.training.schema import Optimiser, RateSchedule


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


def test_rate_that_weights_cannot_hold_is_refused():
    with pytest.raises(ValidationError, match="less than or equal to 100"):
        Optimiser(rate=1e38)


def stepped(gradients: list[list[float]], rate: float = 0.1, **keys: float | tuple[float, float] | None) -> AdamSteps:
    """Return what took a step of each of these gradients, of two weights that began at 1."""
    steps = AdamSteps({"w": torch.nn.Parameter(torch.ones(2))}, Optimiser(rate=9.0, **keys))  # type: ignore[arg-type]
    for one in gradients:
        take(steps, one, rate)
    return steps


def take(steps: AdamSteps, gradient: list[float], rate: float) -> float:
    steps.clear()
    weights = steps._parameters["w"]
    (weights * torch.tensor(gradient)).sum().backward()
    norm = steps.norm()
    steps.take(rate)
    return norm


def moved(steps: AdamSteps) -> list[float]:
    return (steps._parameters["w"].detach() - 1).tolist()


def test_first_step_is_as_long_as_the_rate_of_the_step_whatever_the_gradient():
    assert moved(stepped([[5.0, -0.01]])) == pytest.approx([-0.1, 0.1], rel=1e-4)
    assert moved(stepped([[5.0, -0.01]], rate=0.01)) == pytest.approx([-0.01, 0.01], rel=1e-4)


def test_steps_follow_the_gradient_of_the_step_alone_once_their_memory_is_none():
    found = moved(stepped([[1.0, 1.0], [-1.0, 2.0]], betas=(0.0, 0.0)))
    assert found == pytest.approx([0.0, -0.2], abs=1e-4)
    # With a long memory the first gradient counts in the second step.
    assert moved(stepped([[1.0, 1.0], [-1.0, 1.0]], betas=(0.9, 0.9)))[0] < -0.05


def test_gradients_are_cut_to_their_norm_which_is_told_as_it_was():
    plain, cut = stepped([]), stepped([], clip=1e-9)
    assert [take(one, [3.0, 4.0], 0.1) for one in (plain, cut)] == pytest.approx([5.0, 5.0])
    assert moved(plain)[0] == pytest.approx(-0.1, rel=1e-4)
    # What is left of it is lost beside eps.
    assert abs(moved(cut)[0]) < 0.01
    assert abs(moved(stepped([[3.0, 4.0]], eps=1e6))[0]) < 1e-5


def test_decay_pulls_weights_to_zero_by_its_share_of_the_rate():
    assert moved(stepped([[0.0, 1.0]], weight_decay=0.5)) == pytest.approx([-0.05, -0.15], rel=1e-4)


def test_memory_that_is_taken_up_gives_the_next_step_as_it_would_have_been():
    steps, other = stepped([[1.0, -2.0], [0.5, 1.0]]), stepped([])
    state = steps.state()
    assert sorted(state) == ["w/exp_avg", "w/exp_avg_sq", "w/step"]
    other.restore({name: one.clone() for name, one in state.items()})
    before = moved(steps)
    take(steps, [1.0, 1.0], 0.1)
    take(other, [1.0, 1.0], 0.1)
    changed = [one - old for one, old in zip(moved(steps), before, strict=True)]
    assert moved(other) == pytest.approx(changed, abs=1e-6)
    assert moved(stepped([[1.0, 1.0]])) != pytest.approx(changed, abs=1e-3)
