"""Scenes, their pictures and their descriptions; clips of moving things."""

from __future__ import annotations

import hashlib
import io
import re
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from capbench.tasks.shapes.accounts import account_of, graph_of
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
from capbench.tasks.shapes.describing import PLACES, detailed_reference, sentence, short_references
from capbench.tasks.shapes.drawing import draw, encoded, frames_of, pixel_box, pixels
from capbench.tasks.shapes.grading import ratings
from capbench.tasks.shapes.pictures import DrawnClip
from capbench.tasks.shapes.sampling import SPLITS, sample_scene
from capbench.tasks.shapes.scene import BACKGROUNDS, COLOURS, MARGIN, SHAPES, SIZES, TEXTURES, holds, main_predicate

SCENES = [sample_scene(seed) for seed in range(150)]
_WORDS = {*SHAPES, *COLOURS, *SIZES, *TEXTURES}


def graph_in(text: str) -> dict[str, list]:
    """Return the scene graph of a detailed description, read from its sentences alone."""
    place = next(words for words in PLACES.values() if text.lower().startswith(words))
    *words, background = place.split()
    qualifiers = [word for word in words if word in ("gray", "pink", "brick")]
    objects, attributes, relations = [], [], []
    for part in re.findall(r"[^.]+", text):
        subject, _, other = part.partition(" is ") if " there is " not in part else (part, "", "")
        *of_subject, shape = [word for word in re.findall(r"[a-z]+", subject) if word in _WORDS]
        objects.append(shape)
        attributes += [[shape, word] for word in of_subject]
        if other:
            found = re.fullmatch(r"(?:to the )?(left of|right of|above|below) the \w+ (\w+)", other)
            assert found, other
            relations.append([shape, found[1], found[2]])
    return {
        "objects": [*objects, background],
        "attributes": attributes + [[background, word] for word in qualifiers],
        "relations": relations,
    }


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


def test_things_stand_apart_inside_the_picture_and_can_be_told_apart():
    for scene in SCENES:
        assert 2 <= len(scene.things) <= 5
        assert len({(thing.shape, thing.colour) for thing in scene.things}) == len(scene.things)
        for thing in scene.things:
            assert min(thing.box) > 0
            assert max(thing.box) < 1
        for first, second in combinations(scene.things, 2):
            assert any(holds(predicate, first.box, second.box) for predicate in ("left of", "right of")) or any(
                holds(predicate, first.box, second.box) for predicate in ("above", "below")
            )


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
        holds("beside", left, right)  # pyright: ignore[reportArgumentType]


def test_every_relation_that_is_told_holds():
    for scene in SCENES:
        for relation in account_of(scene).relations:
            subject, other = scene.things[relation.subject], scene.things[relation.object]
            assert holds(relation.predicate, subject.box, other.box)
            assert relation.predicate == main_predicate(subject, other)


def test_detailed_description_says_what_the_graph_holds():
    for scene in SCENES:
        assert graph_in(detailed_reference(scene)) == graph_of(account_of(scene))


def test_short_references_differ_and_name_things_of_the_scene():
    for scene in SCENES:
        references = short_references(scene)
        assert len(set(references)) == 5
        names = {f"{thing.colour} {thing.shape}" for thing in scene.things}
        named = [set(re.findall(rf"\w+ (?:{'|'.join(SHAPES)})\b", text)) for text in references]
        assert all(len(one) >= 2 and one <= names for one in named)


def test_relations_in_short_references_hold():
    checked = 0
    wordings = {"left of": "left of", "right of": "right of", "above": "above", "over": "above"}
    wordings |= {"below": "below", "under": "below"}
    for scene in SCENES:
        boxes = {f"{thing.colour} {thing.shape}": thing.box for thing in scene.things}
        for text in short_references(scene):
            first = re.search(r"(\w+ \w+) (?:is )?(?:on the |to the )?(left of|right of|above|over|below|under) ", text)
            if first:
                second = re.search(rf"\w+ (?:{'|'.join(SHAPES)})\b", text[first.end() :])
                assert second
                assert holds(wordings[first[2]], boxes[first[1].lower()], boxes[second[0]])  # pyright: ignore
                checked += 1
    assert checked > 200


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


def test_a_picture_is_encoded_as_jpeg():
    picture = draw(sample_scene(1))
    assert picture.size == (128, 128)
    decoded = Image.open(io.BytesIO(encoded(picture)))
    assert (decoded.format, decoded.size) == ("JPEG", (128, 128))
    assert np.abs(np.asarray(decoded).astype(int) - np.asarray(picture)).mean() < 5


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
