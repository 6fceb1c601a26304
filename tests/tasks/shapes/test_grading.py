"""Captions of graded quality, ratings, foils and crops."""

import re

import numpy as np
import pytest

from capbench.tasks.shapes.accounts import account_of, chain, graph_f1, is_true
from capbench.tasks.shapes.crops import crops_of
from capbench.tasks.shapes.describing import short_references
from capbench.tasks.shapes.drawing import pixel_box
from capbench.tasks.shapes.grading import GRADES, detailed_candidates, exchange_shape, ratings, short_candidates
from capbench.tasks.shapes.sampling import sample_scene
from capbench.tasks.shapes.scene import SHAPES, Stream, generator

SCENES = [sample_scene(seed) for seed in range(120)]


@pytest.mark.parametrize("candidates_of", [detailed_candidates, short_candidates])
def test_every_degradation_lowers_f1_and_changes_the_text(candidates_of):
    for scene in SCENES:
        full, *others = candidates_of(scene)
        assert full.f1 == 1
        assert is_true(full.account, scene)
        assert [full.grade, *(candidate.grade for candidate in others)] == list(GRADES)
        for candidate in others:
            assert 0 <= candidate.f1 < 1
            assert candidate.text != full.text
            if candidate.grade != "shuffled":
                assert is_true(candidate.account, scene) == (candidate.grade == "omission")


def test_f1_is_that_of_the_tuples():
    scene = next(scene for scene in SCENES if len(scene.things) == 2 and scene.background == "sand")
    full = account_of(scene)
    part = chain(scene.things[:1], None)
    said = 1 + len(scene.things[0].attributes)
    wanted = 2 + sum(len(thing.attributes) for thing in scene.things) + 1 + 1
    assert graph_f1(part, full, scene) == pytest.approx(2 * said / (said + wanted))


def test_raters_rank_the_grades_by_f1_on_average():
    candidates = [short_candidates(scene) for scene in SCENES]
    rated = np.array(
        [ratings(scene.seed, [text.f1 for text in of], 1, 4) for scene, of in zip(SCENES, candidates, strict=True)]
    )
    f1 = np.array([[text.f1 for text in of] for of in candidates]).mean(axis=0)
    assert rated.shape == (len(SCENES), len(GRADES), 3)
    np.testing.assert_array_equal(np.argsort(rated.mean(axis=(0, 2))), np.argsort(f1))


def test_a_foil_differs_by_one_word_that_the_scene_does_not_show():
    for scene in SCENES:
        caption = short_references(scene)[0]
        foil = exchange_shape(caption, scene, generator(scene.seed, Stream.FOILS))
        ((word, wrong),) = [
            (old.strip(".,"), new.strip(".,"))
            for old, new in zip(caption.split(), foil.split(), strict=True)
            if old != new
        ]
        shapes = {thing.shape for thing in scene.things}
        assert word in shapes
        assert wrong in {*SHAPES} - shapes


def test_crops_hold_their_things_and_no_part_of_others_between_them():
    side = 128
    pairs = 0
    for scene in SCENES:
        base, *others = crops_of(scene, side)
        assert (base.key, base.box) == ("base", None)
        assert [crop.key for crop in others[: len(scene.things)]] == [
            f"thing-{number}" for number in range(len(scene.things))
        ]
        for crop in others:
            assert min(crop.box) >= 0
            assert max(crop.box) <= side
            numbers = {int(number) for number in re.findall(r"\d+", crop.key)}
            pairs += len(numbers) == 2
            for number, thing in enumerate(scene.things):
                left, top, right, bottom = pixel_box(thing, side)
                inside = crop.box[0] <= left and crop.box[1] <= top and right <= crop.box[2] and bottom <= crop.box[3]
                if number in numbers:
                    assert inside
                    assert all(f"{thing.colour} {thing.shape}" in text for text in crop.captions)
    assert pairs > 50


def test_crops_have_five_captions_and_other_negatives():
    for scene in SCENES:
        shapes = {thing.shape for thing in scene.things}
        for crop in crops_of(scene, 128):
            assert len(set(crop.captions)) == 5
            assert not set(crop.captions) & set(crop.negatives.values())
            assert len(set(crop.negatives.values())) == 3
            assert not set(re.findall("|".join(SHAPES), crop.negatives["basic"])) <= shapes
            assert set(re.findall("|".join(SHAPES), crop.negatives["swaps"])) <= shapes
