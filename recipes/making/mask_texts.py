"""Texts of an image and of its parts, of no more tokens than a model takes; DCI's tree of masks is cut as released.

Source: facebookresearch/DCI, ``prepare/`` and ``dataset/dense_image.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...tasks.dci.mask_texts import BASE, MaskTexts, entry_key
from .language import clip_tokens, cut_to_tokens


class MaskTree(MaskTexts):
    """What was said of an image and of its masks, perhaps cut; arguments as of ``MaskTexts``."""

    def whole(self, most: int | None = None) -> str:
        """Return the text of the whole image.

        Args:
            most: Tokens that it may have: its last lines are left out.
        """
        if most is None:
            return super().whole()
        said, lines = self._whole()
        while lines and clip_tokens(said + "\n".join(lines)) > most:
            lines.pop()
        return cut_to_tokens(said + "\n".join(lines), most)

    def part(self, number: str, most: int | None = None) -> str:
        """Return the text of a mask.

        Args:
            number: The mask.
            most: Tokens that it may have: what is deepest in the tree is left out.
        """
        if most is None:
            return super().part(number)
        depths = dict(self._below(number))
        while depths and clip_tokens(self._part(number, depths)) > most:
            deepest = max(depths.values())
            depths = {one: depth for one, depth in depths.items() if depth < deepest}
        return cut_to_tokens(self._part(number, depths), most)

    def entries(self, most: int | None = None) -> dict[str, str]:
        """Return the text of each entry.

        Args:
            most: Tokens that a text may have.
        """
        parts = {key: self.part(number, most) for key, number in self.said_of().items()}
        return {BASE: self.whole(most)} | parts


def boxes_of_entries(values: Mapping[str, Any]) -> dict[str, Sequence[float] | None]:
    """Return the box of each entry (left, top, right, bottom), None of the whole image."""
    boxes: dict[str, Sequence[float] | None] = {BASE: None}
    for mask in values["mask_data"].values():
        first, last = mask["bounds"]["topLeft"], mask["bounds"]["bottomRight"]
        boxes[entry_key(mask)] = (first["x"], first["y"], last["x"], last["y"])
    return boxes
