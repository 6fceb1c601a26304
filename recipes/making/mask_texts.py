"""Texts of an image and of its parts, from a tree of masks with labels and captions in DCI's own layout.

Source: facebookresearch/DCI, ``prepare/`` and ``dataset/dense_image.py``: what is said, and in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .tokens import clip_tokens, cut_to_tokens

BASE = "base"
"""The key of the whole image among the entries."""
_SEEN = "The following can also be seen in the image:"


def entry_key(mask: Mapping[str, Any]) -> str:
    """Return the key of a mask among the entries of an image, as released."""
    return f"m-{mask['idx']}-sc"


class MaskTree:
    """What was said of an image and of its masks.

    Args:
        values: ``short_caption``, ``extra_caption`` and ``mask_data``: number to ``idx``, ``label``, ``caption``,
            ``parent`` (a number, or -1), ``area`` in pixels, and ``bounds``.
        least_area: Smaller masks are not looked at, nor what they are made of.
    """

    def __init__(self, values: Mapping[str, Any], least_area: int = 0) -> None:
        self._short = str(values.get("short_caption") or "").strip()
        self._extra = str(values.get("extra_caption") or "").strip()
        masks: Mapping[str, Mapping[str, Any]] = values["mask_data"]
        self._children: dict[str, list[str]] = {}
        for number, mask in masks.items():
            parent = str(mask.get("parent", -1))
            self._children.setdefault(parent if parent in masks else "", []).append(number)
        self.masks: dict[str, Mapping[str, Any]] = {}
        """Those that are looked at, each before what it is made of."""
        waiting = self._children.get("", [])[::-1]
        while waiting:
            number = waiting.pop()
            if masks[number].get("area", least_area) >= least_area:
                self.masks[number] = masks[number]
                waiting += self._children.get(number, [])[::-1]

    def whole(self, most: int | None = None) -> str:
        """Return the text of the whole image: its captions, and a line a mask.

        Args:
            most: Tokens that it may have: its last lines are left out.
        """
        said = " ".join(filter(None, (self._short, self._extra)))
        lines = [line for number in self.masks if (line := self._line(number))]
        text = f"{said} {_SEEN}\n" if lines else said
        if most is None:
            return text + "\n".join(lines)
        while lines and clip_tokens(text + "\n".join(lines)) > most:
            lines.pop()
        return cut_to_tokens(text + "\n".join(lines), most)

    def part(self, number: str, most: int | None = None) -> str:
        """Return the text of a mask: what it is, and a line a mask that it is made of.

        Args:
            number: The mask.
            most: Tokens that it may have: what is deepest in the tree is left out.
        """
        mask = self.masks[number]
        first = f"This is an image of {_label(mask)}. {_caption(mask)}".strip()
        depths = dict(self._below(number))
        while True:
            lines = [line for one in depths if (line := self._line(one))]
            text = "\n".join([first, *lines])
            if most is None or not depths or clip_tokens(text) <= most:
                return text if most is None else cut_to_tokens(text, most)
            deepest = max(depths.values())
            depths = {one: depth for one, depth in depths.items() if depth < deepest}

    def entries(self, most: int | None = None) -> dict[str, str]:
        """Return the text of each entry: the whole image, then each mask of which something is said.

        Args:
            most: Tokens that a text may have.
        """
        parts = {entry_key(mask): number for number, mask in self.masks.items() if self._line(number)}
        return {BASE: self.whole(most)} | {key: self.part(number, most) for key, number in parts.items()}

    def _below(self, number: str, depth: int = 1) -> Iterator[tuple[str, int]]:
        for child in self._children.get(number, ()):
            if child in self.masks:
                yield child, depth
                yield from self._below(child, depth + 1)

    def _line(self, number: str) -> str:
        label, caption = _label(self.masks[number]), _caption(self.masks[number])
        return f"{label}: {caption}" if label and caption else label or caption


def boxes_of_entries(values: Mapping[str, Any]) -> dict[str, Sequence[float] | None]:
    """Return the box of each entry (left, top, right, bottom), None of the whole image."""
    boxes: dict[str, Sequence[float] | None] = {BASE: None}
    for mask in values["mask_data"].values():
        first, last = mask["bounds"]["topLeft"], mask["bounds"]["bottomRight"]
        boxes[entry_key(mask)] = (first["x"], first["y"], last["x"], last["y"])
    return boxes


def _label(mask: Mapping[str, Any]) -> str:
    return str(mask.get("label") or "").strip()


def _caption(mask: Mapping[str, Any]) -> str:
    return str(mask.get("caption") or "").strip()
