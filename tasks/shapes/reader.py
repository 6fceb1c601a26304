"""Makes the documents of the tasks on the shapes world; each reader has its own seeds, so no two share a scene."""

from collections.abc import Iterator
from dataclasses import replace

from ...rows import Row
from ..schema import require_choice
from . import japanese
from .clips import clip_candidates, clip_references, sample_clip
from .crops import NEGATIVES, crops_of
from .describing import detailed_reference, short_references
from .drawing import SIDE
from .grading import detailed_candidates, exchange_shape, rated_rows, shape_candidates, short_candidates
from .pictures import DrawnClip, picture_row
from .sampling import SPLITS, sample_scene
from .scene import Scene, Stream, generator

_FIRST = SPLITS["test"].start
_DETAILED, _EXPERT, _PASCAL, _FOIL, _CROPS, _CLIPS = range(_FIRST, _FIRST + 48_000, 8_000)
"""The first seed of each reader."""
_BRIEF = _FIRST + 60_000
_CANDIDATES = {"all": short_candidates, "shapes": shape_candidates}


def described(scenes: int = 200) -> Iterator[Row]:
    """Yield scenes with a detailed reference, and the box of each thing.

    Args:
        scenes: How many.
    """
    for scene in _scenes(_DETAILED, scenes):
        yield {**picture_row(scene), "references": [detailed_reference(scene)], "boxes": _boxes(scene)}


def briefly_described(scenes: int = 200, split: str = "test") -> Iterator[Row]:
    """Yield scenes with five short references, and the box and name of each thing.

    Args:
        scenes: How many.
        split: ``test``, or ``validation`` for choosing what these then judge.
    """
    for scene in _scenes(_BRIEF, scenes, split):
        things = [f"{thing.colour} {thing.shape}" for thing in scene.things]
        yield {**picture_row(scene), "references": short_references(scene), "boxes": _boxes(scene), "things": things}


def detailed_captions(scenes: int = 200) -> Iterator[Row]:
    """Yield a detailed caption of each grade of each scene, with the ratings of three simulated raters, 1 to 5.

    Args:
        scenes: How many.
    """
    for scene in _scenes(_DETAILED, scenes):
        candidates = detailed_candidates(scene)
        yield from rated_rows(scene.seed, picture_row(scene), candidates, 5, [detailed_reference(scene)])


def short_captions(
    scenes: int = 200, faults: str = "all", split: str = "test", language: str = "english"
) -> Iterator[Row]:
    """Yield a sentence of each grade on each scene, with the ratings of three simulated raters, 1 to 4.

    Args:
        scenes: How many.
        faults: What is wrong in captions: ``all`` kinds of things, or their ``shapes`` alone.
        split: ``test``, or ``validation`` for choosing what these then judge.
        language: Of captions and references: ``english``, or ``japanese`` with the same scenes, faults and ratings.

    Raises:
        TaskError: A choice has no such value.
    """
    require_choice("faults", faults, tuple(_CANDIDATES))
    require_choice("language", language, ("english", "japanese"))
    for scene in _scenes(_EXPERT, scenes, split):
        candidates, references = _CANDIDATES[faults](scene), short_references(scene)
        if language == "japanese":
            candidates = [replace(graded, text=japanese.sentence(graded.account)) for graded in candidates]
            references = japanese.short_references(scene)
        yield from rated_rows(scene.seed, picture_row(scene), candidates, 4, references)


def pairs(scenes: int = 200) -> Iterator[Row]:
    """Yield a pair of captions of each category of each scene, with the one that graph F1 prefers.

    The categories stand for those of Pascal-50S. HC: two true captions, one of which says more. HI: one of
    them is another scene's. HM: one of them has an error. MM: both have errors, of different weight.

    Args:
        scenes: How many.
    """
    for scene in _scenes(_PASCAL, scenes):
        by_grade = {candidate.grade: candidate for candidate in short_candidates(scene)}
        rng = generator(scene.seed, Stream.RATERS)
        flaw = ("wrong_attribute", "wrong_relation")[rng.integers(2)]
        for category, grades in {
            "HC": ("full", "omission"),
            "HI": ("full", "shuffled"),
            "HM": ("full", flaw),
            "MM": (flaw, "hallucination"),
        }.items():
            first, second = (by_grade[grades[index]] for index in rng.permutation(2))
            if first.f1 == second.f1:
                continue
            yield {
                **picture_row(scene),
                "id": f"{scene.seed}-{category}",
                "category": category,
                "captions": [first.text, second.text],
                "preferred": int(second.f1 > first.f1),
                "references": short_references(scene),
            }


def foils(scenes: int = 200, split: str = "test") -> Iterator[Row]:
    """Yield a true caption of each scene and its copy with one wrong shape.

    Source: Shekhar et al., FOIL it! (2017), which exchanges one noun for one that the image does not show.

    Args:
        scenes: How many.
        split: ``test``, or ``validation`` for choosing what these then judge.
    """
    for scene in _scenes(_FOIL, scenes, split):
        caption, *references = short_references(scene)
        foil = exchange_shape(caption, scene, generator(scene.seed, Stream.FOILS))
        yield {**picture_row(scene), "captions": [caption, foil], "preferred": 0, "references": references}


def crops(scenes: int = 100, crops: str = "all", negative: str = "swaps", split: str = "test") -> Iterator[Row]:
    """Yield scenes of at least three things with their crops, captions of each and wrong captions.

    Args:
        scenes: How many.
        crops: Entries of a scene: all (the whole picture, each thing, some pairs), or base (the whole alone).
        negative: The wrong caption of an entry: its swaps, layout or basic one, or all of them.
        split: ``test``, or ``validation`` for choosing what these then judge.

    Raises:
        TaskError: A choice has no such value.
    """
    require_choice("crops", crops, ("all", "base"))
    require_choice("negative", negative, (*NEGATIVES, "all"))
    wanted = NEGATIVES if negative == "all" else (negative,)
    for scene in _scenes(_CROPS, scenes, split, least=3):
        entries = [
            {
                "key": crop.key,
                "box": list(crop.box) if crop.box else None,
                "captions": list(crop.captions),
                "negatives": [crop.negatives[kind] for kind in wanted],
            }
            for crop in crops_of(scene, SIDE)
            if crops == "all" or crop.box is None
        ]
        yield {**picture_row(scene), "entries": entries}


def clips(clips: int = 100) -> Iterator[Row]:
    """Yield a caption of each grade of each clip, with ten references and three simulated ratings, 1 to 5.

    Args:
        clips: How many.
    """
    for seed in range(_CLIPS, _CLIPS + clips):
        clip = sample_clip(seed)
        picture = {"video": f"clip-{seed}", "pixels": DrawnClip(clip)}
        yield from rated_rows(seed, picture, clip_candidates(clip), 5, clip_references(clip))


def _scenes(first: int, count: int, split: str = "test", least: int = 2) -> Iterator[Scene]:
    """Yield scenes from a seed of the test split on, or of as far into another."""
    require_choice("split", split, tuple(SPLITS))
    begin = first - _FIRST + SPLITS[split].start
    return (sample_scene(seed, least) for seed in range(begin, begin + count))


def _boxes(scene: Scene) -> list[list[float]]:
    return [[edge * SIDE for edge in thing.box] for thing in scene.things]
