"""The choices of a matching task."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ..contract import ProtocolSettings
from .image_text_hits import Ties


class MatchingSettings(ProtocolSettings):
    """The choices of a matching task that move a number."""

    measure: Literal["scm", "neg", "square"] = "scm"
    """What a matching task reports: whether an entry's image finds its captions among those of its group
    (subcrop-caption matching), whether it prefers them to the entry's negatives, or whether two images and two
    captions find each other."""
    ties: Ties = "wrong"
    """What counts whose captions and negatives are equally similar."""
    grouping: Literal["blocks", "per_image"] = "blocks"
    """The entries whose captions compete: consecutive ones, over the borders of images; or those of one image."""
    block_size: int = Field(default=8, ge=1)
    """Entries of a block; the last block holds what is left."""
    captions: int = Field(default=1, ge=1)
    """So many captions of an entry are used; entries with fewer are left out."""
    pick: Literal["first", "random"] = "first"
    """Which ones: the first, or drawn at random without repetition."""
    pick_seed: int = Field(default=0, ge=0)
    """What the drawing of captions starts from."""
    average_over: Literal["categories", "entries"] = "categories"
    """What the value of all is the mean of, where there are categories."""
    category_levels: int = Field(default=1, ge=0)
    """So many levels of categories have results of their own."""
    least_in_category: int = Field(default=1, ge=1)
    """Categories with fewer entries are in no result."""
    left_out_categories: tuple[str, ...] = ()
    """These categories are in no result."""
    round_categories: int | None = Field(default=None, ge=0)
    """The value of each category is rounded to so many decimals before means are made of it."""

    meanings: ClassVar[Mapping[str, str | Mapping[str, str]]] = {
        "measure": {
            "scm": "subcrop-caption matching: an entry is right if its image, of all entries of its group, is most "
            "similar to its own captions; every other entry stands with its best caption, the entry itself with its "
            "worst; of equal entries the first is found; images look for captions, never captions for images",
            "neg": "an entry is right if its image is more similar to the worst of its own captions than to the best "
            "of its negatives",
            "square": "two images, two captions. Text: each image is more similar to its own caption than to the "
            "other. Image: each caption is more similar to its own image than to the other. Group: both",
        },
        "ties": {
            "wrong": "equal counts as wrong",
            "right": "equal counts as right, as where the true caption stands first and the first maximum is taken",
            "half": "equal counts a half",
        },
        "grouping": {
            "blocks": "consecutive entries over the borders of images, as in the released code; the last block is "
            "smaller, and an entry alone in it is right",
            "per_image": "all entries of one image, as the paper's text has it",
        },
        "block_size": "entries of a block",
        "captions": "so many captions of an entry are used; entries with fewer are left out",
        "pick": {
            "first": "the first in the data, so that every run sees the same; the released code draws them without "
            "a seed",
            "random": "drawn by pick_seed and the entry's name, without repetition",
        },
        "average_over": {
            "categories": "the value of all is the mean of categories, level by level, however few entries one has",
            "entries": "the value of all, and of a category, is the mean of its entries",
        },
        "category_levels": "so many levels of categories have results of their own",
        "least_in_category": "categories with fewer entries are in no result",
        "left_out_categories": "these categories are in no result",
        "round_categories": "the value of each category is rounded to so many decimals before means are made of it",
    }

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.measure == "square" and self.ties == "half":
            raise ValueError("a square is right or wrong as a whole: its ties are 'wrong' or 'right'")
        if self.measure == "square" and self.captions != 1:
            raise ValueError("an image of a square has one caption: captions is 1")
        return self

    def shown(self, name: str) -> str:
        """Return the value of a setting as ``bench show`` prints it."""
        return ", ".join(self.left_out_categories) if name == "left_out_categories" else super().shown(name)

    def idle(self) -> Set[str]:
        """Return the settings that change nothing: of groups where none is formed, of a draw that is not made."""
        of_entries = self.measure != "square"
        said = {
            "ties": self.measure != "scm",
            "grouping": self.measure == "scm",
            "block_size": self.measure == "scm" and self.grouping == "blocks",
            "captions": of_entries,
            "pick": of_entries and (self.captions > 1 or self.pick == "random"),
            "pick_seed": of_entries and self.pick == "random",
        }
        return {name for name, has_say in said.items() if not has_say}
