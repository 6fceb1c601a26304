from __future__ import annotations

import numpy as np
import pytest

from capbench.metrics import Scores


def test_scores_of_shards_follow_one_another():
    whole = Scores.concatenate(
        [
            Scores(np.array([1.0, np.nan]), {"pair": np.ones((2, 2))}, {1: "no reference"}, {0: "turned"}),
            Scores(np.zeros(0), {"pair": np.zeros((0, 2))}),
            Scores(np.array([np.nan, 4.0]), {"pair": np.zeros((2, 2))}, {0: "no caption"}, {1: "cropped"}),
        ]
    )
    np.testing.assert_array_equal(whole.values, [1, np.nan, np.nan, 4])
    assert whole.parts["pair"].tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]
    assert whole.failures == {1: "no reference", 2: "no caption"}
    assert whole.remarks == {0: "turned", 3: "cropped"}


def test_scores_of_different_parts_are_not_put_together():
    with pytest.raises(ValueError, match="have the same parts"):
        Scores.concatenate([Scores(np.ones(1), {"a": np.ones(1)}), Scores(np.ones(1), {"b": np.ones(1)})])
