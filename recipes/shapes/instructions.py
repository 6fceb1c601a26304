"""What the captioner is asked in training, and what it is to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ...adapters.decoding.dbd import Prompts
from ...tasks.shapes.describing import detailed_reference, name
from ...tasks.shapes.scene import COLOURS, SHAPES, SIZES, TEXTURES, Scene, Thing

Ask: TypeAlias = Callable[[Scene, np.random.Generator], tuple[str, str]]
"""Makes an instruction on a scene, and what is to be answered."""
DESCRIBE = "Describe this image in detail."
_MOST_FALSE = 4
"""Facts that need not be true among those that are summed up: a search finds some of that kind."""
_PROPERTIES = (("shape", SHAPES), ("colour", COLOURS), ("size", SIZES), ("texture", TEXTURES))


def described(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the instruction to describe a scene, and the detailed description."""
    return DESCRIBE, detailed_reference(scene)


def one_fact(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the instruction that searches facts in differentiated beam decoding, and one of the things."""
    return Prompts.named("default").search, _fact(scene.things[rng.integers(len(scene.things))])


def summed_up(scene: Scene, rng: np.random.Generator) -> tuple[str, str]:
    """Return the instruction that sums facts up, with some that are true and some that are not, and the description."""
    true = [scene.things[at] for at in rng.permutation(len(scene.things))]
    facts = true[: rng.integers(1, len(true) + 1)]
    false = rng.integers(0, _MOST_FALSE + 1)
    facts += [_changed(true[rng.integers(len(true))], rng) for _ in range(false)]
    texts = [_fact(facts[at]) for at in rng.permutation(len(facts))]
    return "\n".join([Prompts.named("default").summary, *texts]), detailed_reference(scene)


def _changed(thing: Thing, rng: np.random.Generator) -> Thing:
    """Return a thing with one of its four properties drawn anew."""
    field, values = _PROPERTIES[rng.integers(len(_PROPERTIES))]
    return replace(thing, **{field: str(rng.choice(values))})


def _fact(thing: Thing) -> str:
    return f"{name(thing, '')}."


MIX: dict[Ask, float] = {described: 0.625, one_fact: 0.1875, summed_up: 0.1875}
"""The share of each instruction in training."""
