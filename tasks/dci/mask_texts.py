"""Texts of an image and of its parts, from a tree of masks with labels and captions in DCI's own layout.

Source of wording and order: facebookresearch/DCI, ``prepare/`` and ``dataset/dense_image.py``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

BASE = "base"
"""The key of the whole image among the entries."""
_SEEN = "The following can also be seen in the image:"


def entry_key(mask: Mapping[str, Any]) -> str:
    """Return the key of a mask among the entries of an image, as released."""
    return f"m-{mask['idx']}-sc"


class MaskTexts:
    """All texts on an image and its masks.

    Args:
        values: ``short_caption``, ``extra_caption`` and ``mask_data``: number to ``idx``, ``label``, ``caption``,
            ``parent`` (a number, or -1), ``area`` in pixels, and ``bounds``.
        least_area: Smaller masks are ignored, with the masks below them.
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
        """Masks of at least ``least_area``, each before the masks below it."""
        waiting = self._children.get("", [])[::-1]
        while waiting:
            number = waiting.pop()
            if masks[number].get("area", least_area) >= least_area:
                self.masks[number] = masks[number]
                waiting += self._children.get(number, [])[::-1]

    def whole(self) -> str:
        """Return the text of the whole image: its captions, and a line a mask."""
        said, lines = self._whole()
        return said + "\n".join(lines)

    def part(self, number: str) -> str:
        """Return the text of a mask: what it is, and a line a mask that it is made of."""
        return self._part(number, dict(self._below(number)))

    def said_of(self) -> dict[str, str]:
        """Return the number of each mask with a text, by the key of its entry."""
        return {entry_key(mask): number for number, mask in self.masks.items() if self._line(number)}

    def entries(self) -> dict[str, str]:
        """Return the text of each entry: the whole image, then each mask with a text."""
        return {BASE: self.whole()} | {key: self.part(number) for key, number in self.said_of().items()}

    def _whole(self) -> tuple[str, list[str]]:
        """Return what stands before the lines of the whole image, and these."""
        said = " ".join(filter(None, (self._short, self._extra)))
        lines = self._lines(self.masks)
        return (f"{said} {_SEEN}\n" if lines else said), lines

    def _part(self, number: str, below: Iterable[str]) -> str:
        """Return the text of a mask with a line for each of some masks."""
        mask = self.masks[number]
        first = f"This is an image of {_label(mask)}. {_caption(mask)}".strip()
        return "\n".join([first, *self._lines(below)])

    def _below(self, number: str, depth: int = 1) -> Iterator[tuple[str, int]]:
        """Yield the masks that one is made of, with how deep in the tree they are."""
        for child in self._children.get(number, ()):
            if child in self.masks:
                yield child, depth
                yield from self._below(child, depth + 1)

    def _lines(self, numbers: Iterable[str]) -> list[str]:
        return [line for number in numbers if (line := self._line(number))]

    def _line(self, number: str) -> str:
        label, caption = _label(self.masks[number]), _caption(self.masks[number])
        return f"{label}: {caption}" if label and caption else label or caption


def _label(mask: Mapping[str, Any]) -> str:
    return str(mask.get("label") or "").strip()


def _caption(mask: Mapping[str, Any]) -> str:
    return str(mask.get("caption") or "").strip()
