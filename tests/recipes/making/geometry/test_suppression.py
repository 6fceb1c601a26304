import numpy as np
import pytest

from capbench.recipes.making.stages.phrase_filter import kept_boxes


def plain_kept(boxes, scores, most) -> list[int]:
    kept: list[int] = []
    for one in sorted(range(len(boxes)), key=lambda n: -scores[n]):
        for other in kept:
            (a, b, c, d), (e, f, g, h) = boxes[one], boxes[other]
            shared = max(min(c, g) - max(a, e), 0) * max(min(d, h) - max(b, f), 0)
            union = (c - a) * (d - b) + (g - e) * (h - f) - shared
            if union and shared / union > most:
                break
        else:
            kept.append(one)
    return kept


@pytest.mark.parametrize("seed", range(20))
def test_kept_are_those_of_a_plain_computation(seed: int):
    rng = np.random.default_rng(seed)
    corners = rng.integers(0, 6, (12, 2, 2)).astype(float)
    boxes = np.hstack([corners.min(1), corners.max(1)])
    # Scores tie, boxes touch, some have no area.
    scores = rng.integers(0, 4, 12) / 4
    most = rng.choice([0.1, 0.25, 0.5])

    assert kept_boxes(boxes, scores, most).tolist() == plain_kept(boxes.tolist(), scores.tolist(), most)


def test_overlap_of_exactly_the_limit_stays():
    boxes = np.array([[0, 0, 4, 4], [0, 0, 4, 2]])

    assert kept_boxes(boxes, np.array([0.5, 0.9]), 0.5).tolist() == [1, 0]
    assert kept_boxes(boxes, np.array([0.5, 0.9]), 0.49).tolist() == [1]


def test_no_boxes_are_none():
    assert kept_boxes(np.zeros((0, 4)), np.zeros(0), 0.5).tolist() == []
