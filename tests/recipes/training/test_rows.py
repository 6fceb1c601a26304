"""Which rows a step has, and which of their texts and images."""

from collections import Counter
from itertools import pairwise

import pytest

from capbench.adapters import ImageHandle
from capbench.recipes.training.rows import Batches, BatchSampler, TrainingRow

GROUPS = [f"image {n % 7}" for n in range(45)]


def row(n: int, **more: tuple) -> TrainingRow:
    captions = tuple(f"caption {n}.{at}" for at in range(6))
    return TrainingRow(f"row {n}", ImageHandle(b"%d" % n), f"image {n}", captions, **more)


def drawing(**changes: object) -> BatchSampler:
    settings = {
        "captions": 1, "pick": "random", "negatives": False, "further_images": False, "further_texts": False,
        "prompt": "", "seed": 0,
    }  # fmt: skip
    return BatchSampler(**settings | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("sampler", ["random", "by_image"])
def test_an_epoch_has_each_row_at_most_once_and_whole_batches_alone(sampler):
    batches = Batches(GROUPS, 8, sampler, seed=3)
    assert batches.in_an_epoch == 5
    epochs = [[batches.rows(epoch * 5 + n) for n in range(5)] for epoch in range(2)]
    for epoch in epochs:
        assert {len(batch) for batch in epoch} == {8}
        assert max(Counter(at for batch in epoch for at in batch).values()) == 1
    assert epochs[0] != epochs[1]
    # In whatever order steps are asked for, and by whom.
    assert Batches(GROUPS, 8, sampler, seed=3).rows(7) == epochs[1][2]
    assert Batches(GROUPS, 8, sampler, seed=4).rows(7) != epochs[1][2]


def test_by_image_keeps_the_rows_of_an_image_together_in_a_new_order_of_images_and_rows():
    batches = Batches(GROUPS, 9, "by_image", seed=0)
    orders = [[at for n in range(5) for at in batches.rows(5 * epoch + n)] for epoch in range(2)]
    for order in orders:
        groups = [GROUPS[at] for at in order]
        assert sum(group != other for group, other in pairwise(groups)) == 6
    firsts = [list(dict.fromkeys(GROUPS[at] for at in order)) for order in orders]
    assert firsts[0] != firsts[1]
    within = [[at for at in order if GROUPS[at] == "image 0"] for order in orders]
    assert within[0] != within[1]


def test_each_look_draws_other_captions_and_the_same_step_the_same():
    rows = [row(n) for n in range(8)]
    looks = [tuple(drawing(captions=2).draw(rows, step).texts) for step in (0, 1, 0)]
    assert looks[0] == looks[2] != looks[1]
    for number, text in enumerate(looks[0]):
        assert text.startswith(f"caption {number // 2}.")
    assert all(look != other for look, other in zip(looks[0][::2], looks[0][1::2], strict=True))
    first = drawing(captions=2, pick="first", prompt="A photo depicts ").draw(rows[:1], 5)
    assert first.texts == ["A photo depicts caption 0.0", "A photo depicts caption 0.1"]


def test_negatives_do_not_change_and_what_a_row_has_not_is_left_out():
    negatives = tuple(f"false {n}" for n in range(9))
    rows = [
        row(0, negatives=negatives),
        row(1),
        row(2, further_captions=("a", "b"), further_images=(ImageHandle(b"x"),)),
    ]
    full = drawing(negatives=True, further_images=True, further_texts=True)
    looks = [full.draw(rows, step) for step in range(6)]
    assert len({look.texts[3] for look in looks}) == 1
    assert looks[0].texts[3] in negatives
    assert {look.texts[4] for look in looks} == {"a", "b"}
    assert (looks[0].with_negative, looks[0].with_image, looks[0].with_text) == ([0], [2], [2])
    assert [image.source for image in looks[0].images] == [b"0", b"1", b"2", b"x"]
    plain = drawing().draw(rows, 0)
    assert (len(plain.texts), len(plain.images)) == (3, 3)


@pytest.mark.parametrize("each", [1, 3])
def test_negatives_of_the_drawn_caption_are_drawn_at_each_step(each: int):
    false = tuple(f"false {at}.{n}" for at in range(6) for n in range(each))
    rows = [row(0, negatives=false), row(1), row(2, negatives=false)]
    sampler = drawing(negatives=True, of_caption=True)
    pairs = []
    for step in range(200):
        texts = sampler.draw(rows, step).texts
        pairs += [(texts[0], texts[3]), (texts[2], texts[4])]
    assert all(caption.rpartition(".")[2] == negative[len("false ")] for caption, negative in pairs)
    assert {negative for _, negative in pairs} == set(false)
    assert sampler.draw(rows, None) == sampler.draw(rows, None)
