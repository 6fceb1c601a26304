"""Clips of moving things."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from capbench.tasks.shapes.clips import (
    FRAMES,
    GRADES,
    MOTIONS,
    REFERENCES,
    clip_candidates,
    clip_frames,
    clip_references,
    moments,
    sample_clip,
)
from capbench.tasks.shapes.grading import ratings
from capbench.tasks.shapes.pictures import DrawnClip
from capbench.tasks.shapes.scene import MARGIN

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
            for one, other in combinations(things, 2):
                gaps = [one.box[i] - other.box[i + 2] for i in (0, 1)] + [other.box[i] - one.box[i + 2] for i in (0, 1)]
                assert max(gaps) >= MARGIN
            assert all(min(thing.box) > 0 and max(thing.box) < 1 for thing in things)


def test_frames_show_motion_on_a_background_that_stays():
    frames = np.stack(clip_frames(CLIPS[0], 64)).astype(int)
    assert frames.shape == (FRAMES, 64, 64, 3)
    change = np.abs(frames[-1] - frames[0]).max(axis=2)
    assert (change > 30).any()
    assert (change <= 12).mean() > 0.5


def test_references_differ_and_tell_of_both_things():
    for clip in CLIPS:
        references = clip_references(clip)
        assert len(set(references)) == REFERENCES
        assert all(f"{thing.colour} {thing.shape}" in text for text in references for thing in clip.scene.things)


def test_every_degradation_of_a_clip_caption_lowers_f1():
    for clip in CLIPS:
        full, *others = clip_candidates(clip)
        assert full.f1 == 1
        assert [full.grade, *(one.grade for one in others)] == list(GRADES)
        assert all(one.f1 < 1 and one.text != full.text for one in others)
        rated = np.array(ratings(clip.scene.seed, [one.f1 for one in (full, *others)], 1, 5))
        assert rated.shape == (len(GRADES), 3)
        assert 1 <= rated.min() <= rated.max() <= 5


def test_a_drawn_clip_gives_its_frames_and_their_hash():
    first, again, other = DrawnClip(CLIPS[0], 32), DrawnClip(sample_clip(0), 32), DrawnClip(CLIPS[1], 32)
    assert first == again
    assert first.digest() == again.digest() != other.digest()
    frames = list(first.read_frames())
    assert [frame.size for frame in frames] == [(32, 32)] * FRAMES
    assert str(first) == "drawn clip 0"
