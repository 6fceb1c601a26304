"""Systems that caption scenes, each wrong at a rate of its own, so that it is known which is better and by how much."""

import math
from collections.abc import Iterator

import numpy as np

from ...rows import Row
from .accounts import SceneAccount, chain, graph_f1
from .describing import sentence, short_references
from .grading import Graded, rated_rows, replace_thing
from .pictures import picture_row
from .sampling import SPLITS, sample_scene
from .scene import Scene, Stream, generator

WRONG_IN_A_HUNDRED = (5, 20, 35, 50, 65, 80)
"""How many captions of a hundred are wrong, by system."""
SYSTEMS = tuple(f"wrong_{rate:02}" for rate in WRONG_IN_A_HUNDRED)
"""The systems, best first."""
STRENGTHS = tuple(math.log((100 - rate) / rate) for rate in WRONG_IN_A_HUNDRED)
"""The strength of each in battles, up to a constant.

Of two systems one of which is right, the first is so at odds of ``(1 - p) q / (p (1 - q))``, where p and q are how
often they are wrong: as Bradley and Terry (1952) have it for strengths of ``log((1 - p) / p)``.
"""

_FIRST = SPLITS["test"].start + 82_000
_RATED, _FOUGHT = range(_FIRST, _FIRST + 8_000, 4_000)


def rated_systems(scenes: int = 80) -> Iterator[Row]:
    """Yield a caption of each system on each scene, with the ratings of three simulated raters, 1 to 4.

    Args:
        scenes: How many.
    """
    for seed in range(_RATED, _RATED + scenes):
        scene, rng = sample_scene(seed), generator(seed, Stream.SYSTEMS)
        wrong = rng.random(len(SYSTEMS)) * 100 < WRONG_IN_A_HUNDRED
        candidates = [_candidate(scene, *each, rng) for each in zip(SYSTEMS, wrong, strict=True)]
        rows = rated_rows(seed, picture_row(scene), candidates, 4, short_references(scene))
        for system, row in zip(SYSTEMS, rows, strict=True):
            yield {**row, "system": system}


def battles(scenes: int = 150, of_a_scene: int = 2) -> Iterator[Row]:
    """Yield battles of two systems, one of which is right, and wins.

    Args:
        scenes: How many.
        of_a_scene: Battles of each.
    """
    for seed in range(_FOUGHT, _FOUGHT + scenes):
        scene, rng = sample_scene(seed), generator(seed, Stream.SYSTEMS)
        for number in range(of_a_scene):
            first, second = rng.choice(len(SYSTEMS), size=2, replace=False)
            first_wins = rng.random() < 1 / (1 + math.exp(STRENGTHS[second] - STRENGTHS[first]))
            yield {
                **picture_row(scene),
                "id": f"{seed}-{number}",
                "systems": [SYSTEMS[first], SYSTEMS[second]],
                "captions": [_candidate(scene, "", wrong, rng).text for wrong in (not first_wins, first_wins)],
                "winner": SYSTEMS[first if first_wins else second],
                "references": short_references(scene),
            }


def _candidate(scene: Scene, system: str, wrong: bool, rng: np.random.Generator) -> Graded[SceneAccount]:
    """Return a sentence on two things of a scene; in a wrong one the second is not there.

    Systems choose their things each for itself, and a thing that is not there reads as one that is: nothing but the
    picture tells right from wrong.
    """
    right = chain([scene.things[number] for number in rng.permutation(len(scene.things))[:2]], scene.background)
    said = replace_thing(right, scene, rng) if wrong else right
    return Graded(system, said, sentence(said), graph_f1(said, right, scene))
