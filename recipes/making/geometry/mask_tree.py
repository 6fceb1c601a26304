"""Masks as a tree: what is part of what, as DCI has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ....adapters.regions.contracts import Region
from ....adapters.regions.packed_masks import PackedMask, WholeBox
from ....errors import UsageError

_SAME, _CONTAINED, _TOO_LARGE, _OVERLAP, _FOLDED = 0.95, 0.9, 0.9, 0.03, 0.93
SHOWN = 5000
"""Pixels below which DCI showed no mask to its annotators."""

Comparison: TypeAlias = Literal["exact", "released"]


@dataclass(frozen=True, eq=False)
class MaskNode:
    """A mask of a tree, or the union of several.

    Attributes:
        mask: Its pixels.
        score: Predicted IoU times the square of stability; of a union the mean of its members'.
        regions: Positions of the regions that it is made of: one, or of a union several.
        children: What is part of it.
    """

    mask: PackedMask
    score: float
    regions: tuple[int, ...]
    children: tuple[MaskNode, ...]


def mask_tree(regions: Sequence[Region], *, comparison: Comparison = "exact") -> tuple[MaskNode, ...]:
    """Return the regions of an image as a tree.

    By falling size, each mask is held against the groups of its level. One that is nearly the same (sizes within 5 %,
    and no more than 5 % of either is not the other's) is the group's, if its score is better, or goes. One that lies
    more than 90 % within a group becomes a part of it, if it is not larger than 90 % of it; else the better one stays.
    Any other is a group. So it goes on within the groups. From the bottom up, siblings that overlap by more than 3 %
    of either become one, whose children are those of both; and an only child that is nearly the same (7 %) as its
    parent gives way to its own.

    Source: Urbanek et al., DCI (CVPR 2024), §3.1; the released ``get_groups_simple`` and ``refine_groups_simple``. They
    take two masks of one size for nearly the same where their boxes do not meet, so that one of them goes; boxes that
    cross so that none of four corners lies in the other do not meet for them; and of a union they keep the children of
    the earlier members and the later member itself, where no child takes its place by its number.

    Args:
        regions: Masks of one image with their scores. A mask without pixels is left out.
        comparison: ``exact``, or ``released`` with those faults.

    Returns:
        The uppermost masks, each with its children.

    Raises:
        UsageError: The masks are of several sizes, or ``comparison`` is neither.
    """
    if comparison not in ("exact", "released"):
        raise UsageError(f"comparison={comparison} is not known.", "Known are exact, released.")
    shapes = {one.mask.shape for one in regions}
    if len(shapes) > 1:
        raise UsageError(f"masks of several sizes are no tree: {sorted(shapes)}", "They are of one image.")
    masks = [_Scored(one.mask, one.iou * one.stability**2, (number,)) for number, one in enumerate(regions)]
    falling = sorted((one for one in masks if one.bits.size), key=lambda one: -one.bits.size)
    rules = _Rules(comparison == "released")
    return tuple(_node(one) for one in rules.refined(rules.grouped(falling)).values())


def shown(tree: Sequence[MaskNode], least: int = SHOWN) -> tuple[MaskNode, ...]:
    """Return a tree without masks that are too small, and what is part of them.

    Args:
        tree: The tree.
        least: Pixels that a mask must have.
    """
    return tuple(
        MaskNode(one.mask, one.score, one.regions, shown(one.children, least)) for one in tree if one.mask.size >= least
    )


def walked(tree: Sequence[MaskNode], depth: int = 0) -> Iterator[tuple[int, MaskNode]]:
    """Yield every mask of a tree with its depth, parents before children."""
    for one in tree:
        yield depth, one
        yield from walked(one.children, depth + 1)


@dataclass(frozen=True, eq=False)
class _Scored:
    bits: PackedMask
    score: float
    regions: tuple[int, ...]

    def united(self, other: _Scored) -> _Scored:
        bits = self.bits.united(other.bits)
        return _Scored(bits, (self.score + other.score) / 2, (*self.regions, *other.regions))


@dataclass(eq=False)
class _Group:
    outer: _Scored
    children: dict[int, _Group] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rules:
    """How masks are compared and united.

    Attributes:
        released: Whether with the released faults.
    """

    released: bool

    def grouped(self, falling: Sequence[_Scored]) -> dict[int, _Group]:
        """Return masks, the largest first, as groups by number, with all that is part of them."""
        groups: list[_Group] = []
        parts: list[list[_Scored]] = []
        for mask in falling:
            same = next((one for one in groups if self._near(one.outer.bits, mask.bits, _SAME)), None)
            if same is not None:
                same.outer = max(same.outer, mask, key=lambda one: one.score)
                continue
            around = next((n for n, one in enumerate(groups) if self._contained(mask.bits, one.outer.bits)), None)
            if around is None:
                groups.append(_Group(mask))
                parts.append([])
            elif mask.bits.size / groups[around].outer.bits.size > _TOO_LARGE:
                groups[around].outer = max(groups[around].outer, mask, key=lambda one: one.score)
            else:
                parts[around].append(mask)
        for group, within in zip(groups, parts, strict=True):
            group.children = self.grouped(within)
        return dict(enumerate(groups))

    def refined(self, groups: dict[int, _Group]) -> dict[int, _Group]:
        """Return groups of which no two siblings overlap, by number; the groups themselves are changed."""
        kept: dict[int, _Group] = {}
        for number, group in enumerate(groups.values()):
            group.children = self.refined(group.children)
            overlapping = [n for n, one in kept.items() if self._overlap(group.outer.bits, one.outer.bits)]
            if overlapping:
                group = self._united(number, group, [kept.pop(n) for n in overlapping])
            kept[number] = group
        for group in kept.values():
            only = next(iter(group.children.values())) if len(group.children) == 1 else None
            if only and self._near(group.outer.bits, only.outer.bits, _FOLDED):
                group.children = only.children
        return kept

    def _united(self, number: int, group: _Group, others: Sequence[_Group]) -> _Group:
        united = _Group(group.outer)
        # The release asks for a child by its number, so that one may take another's place.
        children = {number: group} if self.released else dict(group.children)
        for other in others:
            united.outer = united.outer.united(other.outer)
            if self.released:
                children.update(other.children)
            else:
                children = dict(enumerate([*other.children.values(), *children.values()]))
        united.children = children
        return united

    def _shared(self, one: PackedMask, other: PackedMask) -> int:
        return one.shared(other) if self._meet(one.box, other.box) else 0

    def _contained(self, inner: PackedMask, outer: PackedMask) -> bool:
        # A pixel is added to sizes throughout, as in the release.
        return self._shared(inner, outer) / (inner.size + 1) > _CONTAINED

    def _overlap(self, one: PackedMask, other: PackedMask) -> bool:
        return self._shared(one, other) / (min(one.size, other.size) + 1) > _OVERLAP

    def _near(self, one: PackedMask, other: PackedMask, share: float) -> bool:
        small, large = sorted((one.size + 1, other.size + 1))
        if small / large < share:
            return False
        if self.released and not self._meet(one.box, other.box):
            return True
        differing = one.size + other.size - 2 * self._shared(one, other)
        return differing / small <= 1 - share

    def _meet(self, one: WholeBox, other: WholeBox) -> bool:
        """Tell whether two boxes meet; in the release, whether one of four corners lies in the other box."""
        if not self.released:
            return True
        (left, top, right, bottom), (x1, y1, x2, y2) = one, other
        return _holds(other, left, top) or _holds(other, right, bottom) or _holds(one, x2, y1) or _holds(one, x1, y2)


def _holds(box: WholeBox, x: int, y: int) -> bool:
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _node(group: _Group) -> MaskNode:
    outer = group.outer
    return MaskNode(outer.bits, outer.score, outer.regions, tuple(map(_node, group.children.values())))
