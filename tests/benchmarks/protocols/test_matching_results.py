"""Results of matching: hits on vectors whose cosines are known, means over categories, rules that see no image."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from capbench.adapters import ImageHandle
from capbench.benchmarks.protocols.matching.documents import MatchEntry, MatchingSettings
from capbench.benchmarks.protocols.matching.image_text_hits import (
    Likeness,
    Ties,
    match_captions,
    match_square,
    prefer_captions,
    table_of,
)
from capbench.benchmarks.protocols.matching.protocol import RULES, CategoryMeans, TextAlone
from capbench.benchmarks.statistics.contract import UndefinedStatistic


def group(*rows: list[list[float]]) -> list[Likeness]:
    """Entries of which image ``i`` has the cosine ``rows[i][j][c]`` with caption ``c`` of entry ``j``."""
    count = len(rows)
    cosines = np.array(rows, dtype=np.float32).reshape(count, count, -1)
    # Image i is the unit vector i, so coordinate i of a text is its cosine with it.
    return [
        Likeness.of_vectors(np.eye(count, dtype=np.float32)[n], cosines[:, n].T.copy(), np.zeros((0, count)))
        for n in range(count)
    ]


def neg(captions: list[float], negatives: list[float], ties: Ties = "wrong") -> float:
    texts = [np.array([[value, 0] for value in row], dtype=np.float32) for row in (captions, negatives)]
    return prefer_captions(Likeness.of_vectors(np.float32([1, 0]), *texts), ties).hit


@pytest.mark.parametrize(
    ("table", "hits"),
    [
        # An image is right when its own caption is the most similar.
        ([[[0.9], [0.1]], [[0.8], [0.2]]], [True, False]),
        # Images look for captions: caption 1 is nearest to image 0, and is found by image 1 none the less.
        ([[[0.9], [0.8]], [[0.1], [0.2]]], [True, True]),
        # Other entries stand with their best caption, the own with its worst.
        ([[[0.9, 0.3], [0.4, 0.0]], [[0.0, 0.0], [0.5, 0.6]]], [False, True]),
        ([[[0.9, 0.5], [0.4, 0.0]], [[0.0, 0.55], [0.5, 0.6]]], [True, False]),
    ],
)
def test_images_find_their_captions(table: list[list[list[float]]], hits: list[bool]):
    assert [match.hit for match in match_captions(table_of(group(*table)))] == hits


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("dimension", [3, 32, 512, 769])
def test_of_equal_captions_the_first_is_found_wherever_they_stand(count: int, dimension: int):
    generator = np.random.default_rng(count * dimension)
    text, image = generator.normal(size=(2, 1, dimension)).astype(np.float32)
    entry = Likeness.of_vectors(image[0], text, text[:0])
    hits = match_captions(table_of([entry] * count))
    assert [hit.hit for hit in hits] == [True] + [False] * (count - 1)
    assert all(hit.own == hit.rival for hit in hits)


def test_cosines_that_decided_are_given_and_an_entry_alone_is_right_without_a_rival():
    first, second = match_captions(table_of(group([[0.75, 0.5], [0.25, 0.375]], [[0.0, 0.125], [0.5, 0.625]])))
    assert (first.own, first.rival) == (0.5, 0.375)
    assert (second.own, second.rival) == (0.5, 0.125)
    (alone,) = match_captions(table_of(group([[-0.9]])))
    assert alone.hit
    assert np.isnan(alone.rival)


def test_worst_caption_must_beat_the_best_negative():
    assert neg([0.9, 0.4], [0.3, 0.1])
    assert not neg([0.9, 0.4], [0.5])
    assert not neg([0.9], [0.1, 0.95])
    assert not neg([0.4], [0.4])


@pytest.mark.parametrize(("ties", "counts"), [("wrong", 0), ("half", 0.5), ("right", 1)])
def test_tie_of_caption_and_negative_counts_as_the_task_says(ties: Ties, counts: float):
    assert neg([0.5], [0.5], ties) == counts
    assert neg([0.5], [0.4, 0.5, 0.1, 0.2], ties) == counts
    assert neg([0.5], [0.4, 0.6], ties) == 0
    assert neg([0.5], [0.4, 0.3], ties) == 1


def square(table: list[list[float]], ties: Ties = "wrong") -> tuple[tuple[float, float, float], np.ndarray]:
    """The square of which image ``i`` has the cosine ``table[i][j]`` with caption ``j``."""
    first, second = np.array(table, dtype=np.float32)
    unit = np.float32([1, 0])

    def entry(own: float, other: float) -> Likeness:
        return Likeness.of_vectors(unit, *(np.array([[value, 0]], dtype=np.float32) for value in (own, other)))

    return match_square(entry(first[0], first[1]), entry(second[1], second[0]), ties)


@pytest.mark.parametrize(
    ("table", "text", "image", "group"),
    [
        ([[0.9, 0.1], [0.2, 0.8]], 1, 1, 1),
        # Each image prefers its caption; caption 1 prefers image 0.
        ([[0.9, 0.7], [0.2, 0.6]], 1, 0, 0),
        # Each caption prefers its image; image 1 prefers caption 0.
        ([[0.9, 0.1], [0.8, 0.6]], 0, 1, 0),
        ([[0.1, 0.9], [0.8, 0.2]], 0, 0, 0),
        ([[0.9, 0.9], [0.2, 0.8]], 0, 0, 0),
        ([[0.9, 0.1], [0.9, 0.95]], 1, 0, 0),
    ],
)
def test_square_is_right_where_images_and_captions_find_each_other(table, text, image, group):
    hits, cosines = square(table)
    assert hits == (text, image, group)
    assert cosines == pytest.approx(np.array(table))


def test_ties_of_a_square_may_count_as_right():
    equal = [[0.5, 0.5], [0.5, 0.5]]
    assert square(equal)[0] == (0, 0, 0)
    assert square(equal, "right")[0] == (1, 1, 1)


# --- means over categories

NAMES = ["a/x", "a/y", "b/z"]
OF_ROW = np.array([0, 0, 0, 0, 1, 2, 2])
CREDIT = np.array([1.0, 0, 0, 0, 1, 1, 0])
ONES = np.ones(7)


def means_of(names: Sequence[str] = NAMES, of_row: np.ndarray = OF_ROW, **settings: Any) -> CategoryMeans:
    return CategoryMeans(names, of_row, MatchingSettings(**settings))


def test_each_category_of_a_level_weighs_the_same():
    # a: (1/4 + 1) / 2 = 5/8; b: 1/2.
    assert means_of().value(CREDIT, ONES) == pytest.approx((5 / 8 + 1 / 2) / 2)


def test_categories_are_named_with_parents_before_their_children():
    means = means_of(["a/x", "b/z", "a/y"], np.array([0, 1, 2]))
    assert means.names(0) == []
    assert means.names(1) == ["a", "b"]
    assert means.names(2) == ["a", "a/x", "a/y", "b", "b/z"]


def test_single_category_is_that_of_all():
    assert means_of(["only"], np.zeros(3, dtype=int)).names(1) == []


def test_mean_of_a_category_is_made_of_its_rows_alone():
    mask, means = means_of().below("a")
    assert mask.tolist() == [True] * 5 + [False] * 2
    assert means.rows == 5
    assert means.value(CREDIT[mask], ONES[mask]) == pytest.approx(5 / 8)
    mask, means = means_of().below("b/z")
    assert means.value(CREDIT[mask], ONES[mask]) == pytest.approx(1 / 2)


def test_category_whose_name_begins_alike_is_another():
    mask, _ = means_of(["a", "ab"], np.array([0, 1])).below("a")
    assert mask.tolist() == [True, False]


def test_categories_with_too_few_rows_are_in_no_mean():
    means = means_of(least_in_category=2)
    assert means.rows == 6
    assert means.names(2) == ["a", "a/x", "b", "b/z"]
    assert means.value(CREDIT, ONES) == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert means_of(least_in_category=2, average_over="entries").value(CREDIT, ONES) == pytest.approx(2 / 6)
    mask, _ = means.below("a")
    assert mask.tolist() == [True] * 4 + [False] * 3
    with pytest.raises(UndefinedStatistic, match="no category has 9 entries"):
        means_of(least_in_category=9).value(CREDIT, ONES)


def test_category_of_which_nothing_is_drawn_is_left_out_of_that_draw():
    weights = np.array([1.0, 1, 1, 1, 0, 1, 1])
    assert means_of().value(CREDIT, weights) == pytest.approx((1 / 4 + 1 / 2) / 2)
    with pytest.raises(UndefinedStatistic, match="no entry is drawn"):
        means_of().value(CREDIT, np.zeros(7))


def test_values_of_categories_are_rounded_before_their_mean_is_made():
    # 1/3 and 2/3 become 0.3 and 0.7; of their parents nothing is rounded.
    means = means_of(["a/x", "a/y", "b"], np.array([0, 0, 0, 1, 1, 1, 2]), round_categories=1)
    credit = np.array([1.0, 0, 0, 1, 1, 0, 1])
    assert means.value(credit, ONES) == pytest.approx((0.5 + 1) / 2)
    mask, below = means.below("a/x")
    assert below.value(credit[mask], ONES[mask]) == pytest.approx(0.3)


@pytest.mark.parametrize("settings", [{}, {"least_in_category": 2}, {"average_over": "entries"}])
def test_influence_of_a_row_is_the_derivative_by_its_weight(settings: dict):
    means = means_of(**settings)
    step = 1e-6
    slopes = [(means.value(CREDIT, ONES + step * np.eye(7)[n]) - means.value(CREDIT, ONES)) / step for n in range(7)]
    assert means.influence(CREDIT) == pytest.approx(slopes, abs=1e-5)


def test_categories_that_are_left_out_are_in_no_mean():
    means = means_of(left_out_categories=["a/x", "b/z"])
    assert means.rows == 1
    assert means.value(CREDIT, ONES) == 1
    assert means_of(left_out_categories=["a"]).rows == 7


# --- what rules reach that see no image


def entries(*choices: tuple[list[str], list[str]], images: str = "") -> list[MatchEntry]:
    """Return an entry for each list of captions and of negatives; ``images`` has a letter for the image of each."""
    return [
        MatchEntry(str(n), str(n), ImageHandle(b""), tuple(own), tuple(others), (images or "abcdefgh")[n])
        for n, (own, others) in enumerate(choices)
    ]


def credits_of(*choices: tuple[list[str], list[str]], images: str = "", ties: str = "wrong") -> list[dict]:
    documents = entries(*choices, images=images)
    alone = TextAlone(documents, ties)  # type: ignore[arg-type]
    return [dict(zip(RULES, alone.credit(document), strict=True)) for document in documents]


def test_chance_is_that_all_own_captions_come_before_all_negatives():
    own = [(["a"], ["b"]), (["a"], ["b", "c", "d", "e"]), (["a", "b"], ["c"])]
    assert [credit["chance"] for credit in credits_of(*own)] == [1 / 2, 1 / 5, 1 / 3]


def test_length_decides_in_both_directions_and_ties_as_the_task_says():
    choices = (["a dog"], ["a small dog"]), (["a red cat"], ["a cat"]), (["one"], ["two"])
    earned = credits_of(*choices)
    assert [credit["shorter"] for credit in earned] == [1, 0, 0]
    assert [credit["longer"] for credit in earned] == [0, 1, 0]
    assert [credits_of(*choices, ties=tie)[2]["shorter"] for tie in ("wrong", "half", "right")] == [0, 0.5, 1]


def test_every_own_caption_must_beat_every_negative():
    (credit,) = credits_of((["a", "ccc"], ["bb"]))
    assert (credit["shorter"], credit["longer"]) == (0, 0)


def test_words_of_other_images_give_the_true_caption_away_and_those_of_the_own_image_tell_nothing():
    choices = [([f"a dog on a {place}"], [f"a dog a on {place}"]) for place in ("bed", "car", "hill")]
    assert [credit["words"] for credit in credits_of(*choices)] == [1, 1, 1]
    assert [credit["words"] for credit in credits_of(*choices, images="aaa")] == [0, 0, 0]
    # An image alone has the others to learn from, and the others have it.
    assert [credit["words"] for credit in credits_of(*choices, images="aab")] == [1, 1, 1]


def test_words_are_judged_by_their_mean_not_by_their_number():
    seen = [(["red"], ["blue"]), (["red"], ["blue"])]
    # "red blue": one good and one bad word, and no pair that is known but at its ends.
    long = (["red"], ["red red red"])
    assert credits_of(*seen, long)[2]["words"] == 1


def test_the_same_words_in_two_orders_that_occur_nowhere_else_tie():
    seen = [(["a b c d e f g"], ["g f a b"]), (["c d e"], ["f g"])]
    credit = credits_of(*seen, (["b d f a c e g"], ["g c f b e a d"]), ties="half")[2]
    assert credit["words"] == 0.5
