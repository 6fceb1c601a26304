"""Further images that show what captions say, by a painter."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from ....adapters import ImageHandle
from ..asking import seed_of
from ..contract import Made, MakerModels, MakingRow, Stage, StageSettings


class FurtherImagesSettings(StageSettings):
    """Its keys."""

    captions: str
    """The value that holds captions: a text, or a list of which the first ones are painted."""
    to: str = "further_images"
    """The value that is made: a list of encoded images in base64, which become files beside the rows."""
    count: Annotated[int, Field(gt=0)] = 1
    """Captions of a row that are painted, at most."""


class FurtherImages(Stage):
    """Has a painter paint the first captions of each row, each with a seed of its own."""

    Settings = FurtherImagesSettings
    settings: FurtherImagesSettings
    roles = ("painter",)

    def reads(self) -> Sequence[str]:
        """Return the values that a row must have."""
        return (self.settings.captions,)

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return (self.settings.to,)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with its images."""
        made: list[Made] = []
        for row in rows:
            given = row.values[self.settings.captions]
            captions = ([given] if isinstance(given, str) else list(given))[: self.settings.count]
            seed = seed_of(self.seed, self.name, row.id)
            painted = models["painter"].paint(captions, seed=seed)
            about = {
                "model": models.name("painter"),
                "prompts": captions,
                "seed": seed,
                "counts": {"images": len(painted)},
            }
            made.append(row.having(self.name, about, **{self.settings.to: [_encoded(one) for one in painted]}))
        return made


def _encoded(image: ImageHandle) -> str:
    return base64.b64encode(image.encoded()).decode("ascii")
