"""Puts captions of an image and of its boxes into its tree of masks."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import Stage, StageSettings
from ..models import MakerModels
from ..rows import Made, MakingRow


class DescribeMasksSettings(StageSettings):
    """Its keys."""

    caption: str
    """The value that holds the caption of the image."""
    captions: str
    """The value that holds the captions of ``boxes``, in their order."""


class DescribeMasks(Stage):
    """Makes ``short_caption``, and ``mask_data`` with a ``caption`` of each mask whose box has one."""

    Settings = DescribeMasksSettings
    settings: DescribeMasksSettings

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return self.settings.caption, self.settings.captions, "boxes", "mask_data"

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return "short_caption", "extra_caption", "mask_data"

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with its texts in place."""
        made: list[Made] = []
        for row in rows:
            told = dict(zip(map(tuple, row.values["boxes"]), row.values[self.settings.captions], strict=True))
            masks = {
                number: {**mask, "caption": told.get(_box(mask), "")}
                for number, mask in row.values["mask_data"].items()
            }
            about = {
                "parents": [self.settings.caption, self.settings.captions],
                "counts": {"masks": sum(bool(mask["caption"]) for mask in masks.values())},
            }
            values = {
                "short_caption": row.values[self.settings.caption],
                "extra_caption": "",
                "mask_data": masks,
            }
            made.append(row.having(self.name, about, **values))
        return made


def _box(mask: dict[str, dict[str, dict[str, int]]]) -> tuple[int, ...]:
    return (*mask["bounds"]["topLeft"].values(), *mask["bounds"]["bottomRight"].values())
