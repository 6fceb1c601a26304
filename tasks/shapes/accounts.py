"""Accounts: the content that a text states on a picture, true or false, and its scene graph."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .scene import Predicate, Scene, SpatialRelation, Thing, holds, main_predicate

Tuples: TypeAlias = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class SceneAccount:
    """The content that a text states.

    Attributes:
        things: The things that it names, in order. Their boxes are those of the picture; of a thing that the
            picture does not hold, the box has no meaning.
        relations: The relations that it states of pairs of them.
        background: The background that it names, or None.
    """

    things: tuple[Thing, ...]
    relations: tuple[SpatialRelation, ...]
    background: str | None


def account_of(scene: Scene) -> SceneAccount:
    """Return the full account: everything there is, each thing with its relation to the one before."""
    return chain(scene.things, scene.background)


def chain(things: Sequence[Thing], background: str | None) -> SceneAccount:
    """Return an account of things that relates each to the one before, as it stands in the picture."""
    relations = [
        SpatialRelation(number, main_predicate(things[number], things[number - 1]), number - 1)
        for number in range(1, len(things))
    ]
    return SceneAccount(tuple(things), tuple(relations), background)


def graph_of(account: SceneAccount) -> dict[str, list[Any]]:
    """Return the scene graph of an account, in the form in which recorded graphs are read.

    Objects are the shapes and the background (``background``, ``grass``, ``sky``, ``sand`` or ``wall``);
    attributes are sizes, textures, colours and the background's.
    """
    objects = [thing.shape for thing in account.things]
    attributes = [[thing.shape, word] for thing in account.things for word in thing.attributes]
    if account.background is not None:
        name, words = _BACKGROUND_NODES[account.background]
        objects.append(name)
        attributes += [[name, word] for word in words]
    relations = [
        [account.things[relation.subject].shape, relation.predicate, account.things[relation.object].shape]
        for relation in account.relations
    ]
    return {"objects": objects, "attributes": attributes, "relations": relations}


def is_true(account: SceneAccount, scene: Scene) -> bool:
    """Return whether a scene holds every thing of an account, attributes included, and every relation."""
    boxes = [thing.box for said in account.things if (thing := match(said, scene))]
    if account.background not in (None, scene.background) or len(boxes) < len(account.things):
        return False
    return all(holds(rel.predicate, boxes[rel.subject], boxes[rel.object]) for rel in account.relations)


def match(said: Thing, scene: Scene) -> Thing | None:
    """Return the thing of a scene with the same shape, colour, size and texture; None if there is none."""
    wanted = said.shape, said.attributes
    return next((thing for thing in scene.things if (thing.shape, thing.attributes) == wanted), None)


def graph_f1(account: SceneAccount, reference: SceneAccount, scene: Scene) -> float:
    """Return the F1 of an account against a reference account of a scene.

    Precision is the share of the account's tuples that are true of the scene, recall the share of the
    reference's tuples that the account holds. Tuples are those of a scene graph: an object; an object and an
    attribute; two objects and a relation, where "a right of b" is "b left of a" and objects go by shape and
    colour, as several may be of one shape.

    Args:
        account: The candidate.
        reference: The reference account.
        scene: The ground truth.

    Returns:
        The harmonic mean of both, 0 to 1.
    """
    all_relations = [
        SpatialRelation(first, predicate, second)
        for first in range(len(scene.things))
        for second in range(len(scene.things))
        for predicate in _BASIC
        if holds(predicate, scene.things[first].box, scene.things[second].box)
    ]
    true = SceneAccount(scene.things, tuple(all_relations), scene.background)
    return f1(graph_tuples(account), graph_tuples(true), graph_tuples(reference))


def f1(said: Tuples, true: Tuples, wanted: Tuples) -> float:
    """Return the harmonic mean of precision (said and true / said) and recall (said and wanted / wanted)."""
    precision = (said & true).total() / said.total()
    recall = (said & wanted).total() / wanted.total()
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def graph_tuples(account: SceneAccount) -> Tuples:
    """Return the tuples of an account's scene graph, each with how often it occurs; see :func:`graph_f1`."""
    graph = graph_of(account)
    tuples: Tuples = Counter((name,) for name in graph["objects"])
    tuples.update((name, word) for name, word in graph["attributes"])
    for relation in account.relations:
        first, second = (
            f"{thing.colour} {thing.shape}"
            for thing in (account.things[relation.subject], account.things[relation.object])
        )
        inverse = _INVERSES.get(relation.predicate)
        tuples[(second, inverse, first) if inverse else (first, relation.predicate, second)] += 1
    return tuples


_BACKGROUND_NODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "gray": ("background", ("gray",)),
    "pink": ("background", ("pink",)),
    "grass": ("grass", ()),
    "sky": ("sky", ()),
    "sand": ("sand", ()),
    "brick": ("wall", ("brick",)),
}
_BASIC: tuple[Predicate, ...] = ("left of", "above")
_INVERSES = {"right of": "left of", "below": "above"}
