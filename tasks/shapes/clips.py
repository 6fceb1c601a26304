"""Short clips of moving things: sampling, drawing, and captions of graded quality."""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .accounts import SceneAccount, Tuples, f1, graph_tuples
from .describing import finished, name
from .drawing import frames_of
from .grading import Graded, absent_thing, another_seed, change_attribute
from .sampling import EDGE, apart, sample_things
from .scene import BACKGROUNDS, Scene, Stream, Thing, generator, telling_order

FRAMES = 12
REFERENCES = 10
MOTIONS = {"still": (0, 0), "left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
"""Each motion with its direction in x and, downwards, in y."""

GRADES = ("full", "omission", "wrong_attribute", "wrong_motion", "hallucination", "shuffled")
"""What is done to a caption of a clip; see ``grading.GRADES``."""

_DISTANCE = 0.32
_TRIES = 40
_OPPOSITE = {"left": "right", "right": "left", "up": "down", "down": "up"}
_VERBS = {
    "still": ("stays still", "does not move", "rests"),
    "left": ("moves to the left", "moves left", "goes to the left"),
    "right": ("moves to the right", "moves right", "goes to the right"),
    "up": ("moves up", "goes up", "rises"),
    "down": ("moves down", "goes down", "falls"),
}


@dataclass(frozen=True)
class Clip:
    """A clip of two things, one or both of which move in a straight line.

    Attributes:
        scene: What the first frame shows.
        motions: A key of ``MOTIONS`` for each thing of the scene.
    """

    scene: Scene
    motions: tuple[str, ...]


@dataclass(frozen=True)
class ClipAccount:
    """The content that a text states on a clip: an account without relations, and a motion for each of its things."""

    account: SceneAccount
    motions: tuple[str, ...]


def sample_clip(seed: int) -> Clip:
    """Draw a clip; its things stay in the picture and apart from each other all the time."""
    rng = generator(seed, Stream.MOTION)
    background = BACKGROUNDS[rng.integers(len(BACKGROUNDS))]
    while True:
        things = telling_order(sample_things(rng, 2))
        for draw in rng.integers(len(MOTIONS), size=(_TRIES, 2)).tolist():
            motions = tuple(list(MOTIONS)[index] for index in draw)
            clip = Clip(Scene(seed, things, background), motions)
            if set(motions) != {"still"} and _is_clear(clip):
                return clip


def moments(clip: Clip) -> list[list[Thing]]:
    """Return the things of a clip as they stand in each of its ``FRAMES`` frames."""
    return [
        [
            _moved(thing, MOTIONS[motion], _DISTANCE * number / (FRAMES - 1))
            for thing, motion in zip(clip.scene.things, clip.motions, strict=True)
        ]
        for number in range(FRAMES)
    ]


def clip_frames(clip: Clip, side: int) -> list[np.ndarray]:
    """Draw a clip: ``FRAMES`` arrays ``[side, side, 3]`` of uint8."""
    return frames_of(clip.scene, moments(clip), side)


def clip_references(clip: Clip) -> list[str]:
    """Return ``REFERENCES`` different true captions of a clip; each tells of both things and their motions."""
    rng = generator(clip.scene.seed, Stream.WORDING)
    texts: dict[str, None] = {}
    while len(texts) < REFERENCES:
        texts[_varied(clip, rng)] = None
    return list(texts)


def clip_candidates(clip: Clip) -> list[Graded[ClipAccount]]:
    """Return a caption of each grade; a hallucinated thing takes the place of the second.

    Their F1 is that of tuples, in which a thing and its motion are one.
    """
    scene = clip.scene
    rng = generator(scene.seed, Stream.GRADING)
    full = _full(clip)
    account, motions = full.account, full.motions
    kept = int(rng.integers(2))
    invented = replace(account, things=(account.things[0], absent_thing(scene, rng)))
    accounts = {
        "full": full,
        "omission": ClipAccount(replace(account, things=account.things[kept : kept + 1]), (motions[kept],)),
        "wrong_attribute": ClipAccount(change_attribute(account, scene, rng), motions),
        "wrong_motion": ClipAccount(account, _turned(motions, rng)),
        "hallucination": ClipAccount(invented, motions),
        "shuffled": _full(sample_clip(another_seed(scene.seed))),
    }
    wanted = _tuples(full)
    return [Graded(grade, clip, _tell(clip), f1(_tuples(clip), wanted, wanted)) for grade, clip in accounts.items()]


def _is_clear(clip: Clip) -> bool:
    return all(
        all(EDGE <= edge <= 1 - EDGE for thing in things for edge in thing.box)
        and all(apart(first.box, second.box) for first, second in combinations(things, 2))
        for things in moments(clip)
    )


def _moved(thing: Thing, direction: tuple[int, int], distance: float) -> Thing:
    x, y = direction[0] * distance, direction[1] * distance
    left, top, right, bottom = thing.box
    return replace(thing, box=(left + x, top + y, right + x, bottom + y))


def _full(clip: Clip) -> ClipAccount:
    return ClipAccount(SceneAccount(clip.scene.things, (), clip.scene.background), clip.motions)


def _turned(motions: tuple[str, ...], rng: np.random.Generator) -> tuple[str, ...]:
    """Return motions with one that moves turned round."""
    moving = [number for number, motion in enumerate(motions) if motion != "still"]
    at = moving[rng.integers(len(moving))]
    return (*motions[:at], _OPPOSITE[motions[at]], *motions[at + 1 :])


def _tuples(clip: ClipAccount) -> Tuples:
    tuples = graph_tuples(clip.account)
    for thing, motion in zip(clip.account.things, clip.motions, strict=True):
        tuples[f"{thing.colour} {thing.shape}", "moves", motion] += 1
    return tuples


def _tell(clip: ClipAccount) -> str:
    """Return "A red star moves to the left while a small blue circle stays still on grass."."""
    parts = [
        f"{name(thing)} {_VERBS[motion][0]}" for thing, motion in zip(clip.account.things, clip.motions, strict=True)
    ]
    return finished(" while ".join(parts), clip.account.background)


def _varied(clip: Clip, rng: np.random.Generator) -> str:
    full = bool(rng.integers(3))
    parts = []
    for number in rng.permutation(len(clip.motions)):
        verbs = _VERBS[clip.motions[number]]
        parts.append(f"{name(clip.scene.things[number], full=full)} {verbs[rng.integers(len(verbs))]}")
    between = (" while ", " and ", " as ")[rng.integers(3)]
    return finished(between.join(parts), clip.scene.background if rng.integers(3) else None)
