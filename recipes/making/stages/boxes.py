"""The few boxes of an image that are worth a caption: masks of a segmenter, clustered and united."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ....adapters.pixels.reading import UnreadableImage, read_image
from ..contract import Stage, StageSettings
from ..geometry.boxes import clustered_boxes
from ..models import MakerModels
from ..rows import Made, MakingRow, Unmade


class BoxesSettings(StageSettings):
    """Its keys."""

    to: str = "boxes"
    """The value that is made: a list of left, top, right, bottom in pixels."""
    grid: Annotated[int, Field(gt=0)] | None = None
    """Points a side on which the segmenter looks; None leaves it to the segmenter."""
    clustered: bool = True
    """Whether boxes are clustered, united and cut; else each mask's box is one."""
    rectangles: Literal["released", "whole"] = "released"
    """Whether free rectangles end a cell too early, as in the released code."""


class Boxes(Stage):
    """Makes the boxes of each image; one in which nothing is found has none."""

    Settings = BoxesSettings
    settings: BoxesSettings
    roles = ("segmenter",)

    def makes(self) -> Sequence[str]:
        """Return the values that a row has then."""
        return (self.settings.to,)

    def carry_out(self, rows: Sequence[MakingRow], models: MakerModels) -> list[Made]:
        """Return each row with its boxes."""
        made: list[Made] = []
        for row in rows:
            try:
                regions = models["segmenter"].masks(row.pixels, grid=self.settings.grid)
                size = read_image(row.pixels).image.size
            except UnreadableImage as error:
                made.append(Unmade(f"image: {error}"))
                continue
            boxes: Sequence[Any] = [one.box for one in regions]
            if self.settings.clustered:
                found = np.array(boxes, np.float64).reshape(-1, 4)
                boxes = clustered_boxes(found, size, rectangles=self.settings.rectangles)
            about = {
                "model": models.name("segmenter"),
                "counts": {"masks": len(regions), "boxes": len(boxes)},
            }
            told = [[float(edge) for edge in box] for box in boxes]
            made.append(row.having(self.name, about, **{self.settings.to: told}))
        return made
