"""Further images that show what captions say, by a painter."""

from __future__ import annotations

import base64
from typing import Annotated

from pydantic import Field

from ..asking import seed_of
from ..contract import PipelineModels, PipelineRow, RowStage, StageSettings


class FurtherImagesSettings(StageSettings):
    """Its keys."""

    captions: str
    """The value that holds captions: a text, or a list of which the first ones are painted."""
    to: str = "further_images"
    """The value that is made: a list of encoded images in base64, which become files beside the rows."""
    count: Annotated[int, Field(gt=0)] = 1
    """Captions of a row that are painted, at most."""


class FurtherImages(RowStage):
    """Has a painter paint the first captions of each row, each with a seed of its own."""

    Settings = FurtherImagesSettings
    settings: FurtherImagesSettings
    roles = ("painter",)
    takes = ("{captions}",)
    gives = ("{to}",)

    def make(self, row: PipelineRow, models: PipelineModels) -> PipelineRow:
        """Return a row with its images."""
        given = row.values[self.settings.captions]
        captions = ([given] if isinstance(given, str) else list(given))[: self.settings.count]
        seed = seed_of(self.seed, self.name, row.id)
        painted = models["painter"].paint(captions, seed=seed)
        about = {"model": models.name("painter"), "prompts": captions, "seed": seed, "counts": {"images": len(painted)}}
        encoded = [base64.b64encode(image.encoded()).decode("ascii") for image in painted]
        return row.having(self.name, about, **{self.settings.to: encoded})
