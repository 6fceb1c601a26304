"""Puts scenes into Japanese: the second language of the world, in which no space stands between words."""

from __future__ import annotations

import numpy as np

from .accounts import SceneAccount, chain
from .scene import Scene, Stream, Thing, generator

_SHAPES = {
    "circle": "円",
    "square": "四角形",
    "triangle": "三角形",
    "star": "星",
    "heart": "ハート",
    "cross": "十字",
    "diamond": "ひし形",
    "moon": "月",
    "arrow": "矢印",
}
_ATTRIBUTES = {
    "small": "小さな",
    "large": "大きな",
    "striped": "縞模様の",
    "dotted": "水玉模様の",
    "checked": "市松模様の",
    "red": "赤い",
    "orange": "オレンジ色の",
    "yellow": "黄色い",
    "green": "緑色の",
    "blue": "青い",
    "purple": "紫色の",
    "black": "黒い",
    "white": "白い",
}
_PLACES = {
    "gray": "灰色の背景に",
    "pink": "ピンク色の背景に",
    "grass": "芝生の上に",
    "sky": "空に",
    "sand": "砂の上に",
    "brick": "レンガの壁に",
}
_WORDINGS = {
    "left of": ("の左に", "の左側に"),
    "right of": ("の右に", "の右側に"),
    "above": ("の上に", "の上の方に"),
    "below": ("の下に", "の下の方に"),
}
_COUNTS = {2: "二つ", 3: "三つ", 4: "四つ", 5: "五つ"}
_TEMPLATES = 6


def name(thing: Thing, full: bool = True) -> str:
    """Return the words for a thing: "大きな縞模様の赤い星", or "赤い星".

    Args:
        thing: The thing.
        full: Whether size and texture are named; the colour always is.
    """
    words = thing.attributes if full else [thing.colour]
    return "".join(map(_ATTRIBUTES.__getitem__, words)) + _SHAPES[thing.shape]


def sentence(account: SceneAccount) -> str:
    """Return one sentence on one or two things, their relation and the background.

    "芝生の上に、小さな青い円の左に大きな赤い星がある。"
    """
    words = "と".join(map(name, account.things))
    if account.relations:
        relation = account.relations[0]
        subject, other = account.things[relation.subject], account.things[relation.object]
        words = f"{name(other)}{_WORDINGS[relation.predicate][0]}{name(subject)}"
    return _finished(words, account.background)


def short_references(scene: Scene) -> list[str]:
    """Return five short references of a scene, all different, on two of its things or more."""
    rng = generator(scene.seed, Stream.WORDING)
    texts: dict[str, None] = {}
    for template in rng.permutation(_TEMPLATES)[:5].tolist():
        text = _short_text(template, scene, rng)
        while text in texts:
            text = _short_text(0, scene, rng)
        texts[text] = None
    return list(texts)


def _short_text(template: int, scene: Scene, rng: np.random.Generator) -> str:
    things = [scene.things[index] for index in rng.permutation(len(scene.things))]
    first, second = things[:2]
    listed = "、".join(name(thing, full=False) for thing in things)
    match template:
        case 3:
            return _finished(listed, scene.background)
        case 4:
            return f"{_PLACES[scene.background]}{listed}の{_COUNTS[len(things)]}の図形が描かれている。"
        case 5:
            return f"{name(first)}と{name(second)}の絵。"
    wordings = _WORDINGS[chain([second, first], None).relations[0].predicate]
    where, full = wordings[rng.integers(len(wordings))], template != 2
    return _finished(f"{name(second, full)}{where}{name(first, full)}", scene.background if template != 1 else None)


def _finished(words: str, background: str | None) -> str:
    place = f"{_PLACES[background]}、" if background else ""
    return f"{place}{words}がある。"
