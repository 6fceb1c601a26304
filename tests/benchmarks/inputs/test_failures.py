"""What became of samples that could not be used."""

from __future__ import annotations

import pytest

from capbench.benchmarks.inputs.failures import Failure, Stage, outcome, summarise


@pytest.mark.parametrize(
    ("stage", "said"),
    [("data", "left out"), ("image", "left out"), ("rating", "left out"), ("model", "failed"), ("metric", "failed")],
)
def test_what_may_succeed_when_asked_again_failed_and_the_rest_is_left_out(stage: Stage, said: str):
    (summary,) = summarise([Failure("a", stage, "is not there")])
    assert outcome(summary) == said
