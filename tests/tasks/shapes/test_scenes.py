"""Scenes, their pictures and their descriptions; clips of moving things."""

import hashlib
from itertools import combinations

import numpy as np
import pytest

from capbench.tasks.shapes.accounts import account_of
from capbench.tasks.shapes.clips import FRAMES, MOTIONS, moments, sample_clip
from capbench.tasks.shapes.describing import detailed_reference, sentence, short_references
from capbench.tasks.shapes.drawing import frames_of, pixel_box, pixels
from capbench.tasks.shapes.pictures import DrawnClip
from capbench.tasks.shapes.sampling import SPLITS, sample_scene
from capbench.tasks.shapes.scene import BACKGROUNDS, COLOURS, MARGIN, SHAPES, SIZES, TEXTURES, holds, main_predicate

SCENES = [sample_scene(seed) for seed in range(150)]


def test_scenes_and_texts_of_a_seed_are_those_of_every_machine():
    texts = [text for scene in SCENES for text in (detailed_reference(scene), *short_references(scene))]
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == "dd239be2c0b0287d"


@pytest.mark.parametrize("seed", [0, 7])
def test_pictures_of_a_seed_are_equal_and_of_two_seeds_are_not(seed: int):
    first, second = (pixels(sample_scene(seed), 96) for _ in range(2))
    assert first.dtype == np.uint8
    assert first.shape == (96, 96, 3)
    np.testing.assert_array_equal(first, second)
    assert (first != pixels(sample_scene(seed + 1), 96)).mean() > 0.5


def test_every_word_of_the_world_occurs():
    things = [thing for scene in SCENES for thing in scene.things]
    assert {thing.shape for thing in things} == set(SHAPES)
    assert {thing.colour for thing in things} == set(COLOURS)
    assert {thing.size for thing in things} == set(SIZES)
    assert {thing.texture for thing in things} == set(TEXTURES)
    assert {scene.background for scene in SCENES} == set(BACKGROUNDS)


def test_relations_follow_from_the_boxes():
    left, right = (0.1, 0.1, 0.3, 0.3), (0.3 + MARGIN, 0.15, 0.5, 0.35)
    assert holds("left of", left, right)
    assert holds("right of", right, left)
    assert not holds("right of", left, right)
    assert not holds("above", left, right)
    assert not holds("left of", left, (0.3 + MARGIN / 2, 0.15, 0.5, 0.35))
    with pytest.raises(ValueError, match="unknown relation 'beside'"):
        holds("beside", left, right)


def test_every_relation_that_is_told_holds():
    for scene in SCENES:
        for relation in account_of(scene).relations:
            subject, other = scene.things[relation.subject], scene.things[relation.object]
            assert holds(relation.predicate, subject.box, other.box)
            assert relation.predicate == main_predicate(subject, other)


def test_a_sentence_takes_no_more_than_two_things():
    scene = sample_scene(0, least=3)
    with pytest.raises(ValueError, match="one or two things"):
        sentence(account_of(scene))


@pytest.mark.parametrize("side", [96, 224])
def test_things_are_drawn_in_their_boxes_and_nowhere_else(side: int):
    for scene in SCENES[:12]:
        with_things, without = frames_of(scene, [scene.things, []], side)
        change = np.abs(with_things.astype(int) - without.astype(int)).max(axis=2)
        outside = np.ones((side, side), bool)
        for thing in scene.things:
            left, top, right, bottom = pixel_box(thing, side)
            # The box is as small as it can be, but for a tip thinner than a pixel.
            inside = change[top:bottom, left:right] > 30
            assert inside.mean() > 0.2
            near = side // 40
            for edge in (inside[:, :near], inside[:, -near:], inside[:near], inside[-near:]):
                assert edge.any()
            outside[top:bottom, left:right] = False
        assert change[outside].max() <= 12


def test_splits_share_no_seed():
    for first, second in combinations(SPLITS.values(), 2):
        assert first.stop <= second.start or second.stop <= first.start


# --- clips of moving things

CLIPS = [sample_clip(seed) for seed in range(40)]


def test_things_move_as_they_are_said_to_and_never_meet():
    for clip in CLIPS:
        frames = moments(clip)
        assert len(frames) == FRAMES
        assert frames[0] == list(clip.scene.things)
        assert set(clip.motions) != {"still"}
        for first, last, motion in zip(frames[0], frames[-1], clip.motions, strict=True):
            moved = np.subtract(last.centre, first.centre)
            np.testing.assert_array_equal(np.sign(np.round(moved, 6)), MOTIONS[motion])
        for things in frames:
            for a, b in combinations(things, 2):
                gaps = [a.box[i] - b.box[i + 2] for i in (0, 1)] + [b.box[i] - a.box[i + 2] for i in (0, 1)]
                assert max(gaps) >= MARGIN
            assert all(min(a.box) > 0 and max(a.box) < 1 for a in things)


def test_a_drawn_clip_gives_its_frames_and_their_hash():
    first, again, other = DrawnClip(CLIPS[0], 32), DrawnClip(sample_clip(0), 32), DrawnClip(CLIPS[1], 32)
    assert first == again
    assert first.digest() == again.digest() != other.digest()
    frames = list(first.read_frames())
    assert [frame.size for frame in frames] == [(32, 32)] * FRAMES
    assert str(first) == "drawn clip 0"
