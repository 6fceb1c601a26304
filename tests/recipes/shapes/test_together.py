"""How far few weights are tuned: by their losses' gradients, clipped or not, and by nothing else."""

from __future__ import annotations

import pytest
import torch

from capbench.recipes.shapes.together import optimise, share_of_rate

STEPS = 100


def moved(slopes: list[float], clip: bool = True) -> list[float]:
    """Return where two weights stand that began at 1: the first goes down these slopes in turn, the second none."""
    weights = torch.nn.Parameter(torch.ones(2))
    waiting = iter(slopes)

    def losses() -> dict[str, torch.Tensor]:
        slope = next(waiting)
        return {"half": weights[0] * slope / 2, "rest": weights[0] * slope / 2 + weights[1] * 0}

    optimise([([weights], 0.01)], [losses], len(slopes), tunes=True, clip=clip)
    return weights.tolist()


def test_rate_rises_stays_and_falls():
    shares = [share_of_rate(step, STEPS) for step in range(STEPS)]
    assert shares[:50] == pytest.approx([(step + 1) / 50 for step in range(50)])
    assert shares[50:71] == [1.0] * 21
    assert shares[71:] == pytest.approx([(STEPS - step) / 30 for step in range(71, STEPS)])


def test_weight_goes_down_the_sum_of_losses_at_the_rate_and_others_do_not_decay():
    # Adam goes a whole rate a step where the slope is always the same.
    first, second = moved([0.5] * STEPS)
    assert first == pytest.approx(1 - 0.01 * sum(share_of_rate(step, STEPS) for step in range(STEPS)), rel=1e-4)
    assert second == 1


def test_clipped_slopes_count_alike_and_others_as_they_are():
    steep, even = [1000.0] + [1.0] * 9, [1.0] * 10
    assert moved(steep)[0] == pytest.approx(moved(even)[0], rel=1e-5)
    assert moved(steep, clip=False)[0] != pytest.approx(moved(even)[0], rel=1e-5)
