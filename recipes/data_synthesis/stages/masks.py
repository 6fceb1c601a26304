"""The parts of an image as a tree of masks: found by a segmenter, or boxes that are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ....adapters.images.reading import read_image
from ..contract import PipelineModels, PipelineRow, RowStage, StageSettings
from ..geometry import MaskNode, canny_edges, clustered_boxes, mask_tree, opencv, points_near, shown


class BoxesSettings(StageSettings):
    """Its keys."""

    to: str = "boxes"
    """The value that is made: a list of left, top, right, bottom in pixels."""
    grid: Annotated[int, Field(gt=0)] | None = None
    """Points a side on which the segmenter looks; None leaves it to the segmenter."""
    clustered: bool = True
    """Whether boxes are clustered, united and cut; otherwise each mask gives a box."""
    rectangles: Literal["released", "whole"] = "released"
    """Whether free rectangles end a cell too early, as in the released code."""


class Boxes(RowStage):
    """Makes the boxes of each image; one in which nothing is found has none."""

    Settings = BoxesSettings
    settings: BoxesSettings
    roles = ("segmenter",)
    gives = ("{to}",)
    version = 2

    def make(self, row: PipelineRow, models: PipelineModels) -> PipelineRow:
        """Return a row with its boxes."""
        regions = models["segmenter"].masks(row.pixels, grid=self.settings.grid)
        boxes: Sequence[Any] = [region.box for region in regions]
        if self.settings.clustered:
            size = read_image(row.pixels).image.size
            boxes = clustered_boxes(np.array(boxes), size, rectangles=self.settings.rectangles)
        about = {"model": models.name("segmenter"), "counts": {"masks": len(regions), "boxes": len(boxes)}}
        edges = [[float(edge) for edge in box] for box in boxes]
        return row.having(self.name, about, **{self.settings.to: edges})


class DescribeMasksSettings(StageSettings):
    """Its keys."""

    caption: str
    """The value that holds the caption of the image."""
    captions: str
    """The value that holds the captions of ``boxes``, in their order."""


class DescribeMasks(RowStage):
    """Makes ``short_caption``, and ``mask_data`` with a ``caption`` of each mask whose box has one."""

    Settings = DescribeMasksSettings
    settings: DescribeMasksSettings
    takes = ("{caption}", "{captions}", "boxes", "mask_data")
    gives = ("short_caption", "extra_caption", "mask_data")

    def make(self, row: PipelineRow, models: PipelineModels) -> PipelineRow:
        """Return a row with its texts in place."""
        captions = row.values[self.settings.captions]
        by_box = dict(zip(map(tuple, row.values["boxes"]), captions, strict=True))
        masks = {
            number: {**mask, "caption": by_box.get(tuple(_box(mask)), "")}
            for number, mask in row.values["mask_data"].items()
        }
        about = {
            "parents": [self.settings.caption, self.settings.captions],
            "counts": {"masks": sum(bool(mask["caption"]) for mask in masks.values())},
        }
        values = {"short_caption": row.values[self.settings.caption], "extra_caption": "", "mask_data": masks}
        return row.having(self.name, about, **values)


def _box(mask: dict[str, dict[str, dict[str, int]]]) -> list[int]:
    return [*mask["bounds"]["topLeft"].values(), *mask["bounds"]["bottomRight"].values()]


class MasksSettings(StageSettings):
    """Its keys."""

    boxes: str | None = None
    """The value that holds boxes (left, top, right, bottom), each of which becomes a mask that is no part of another;
    without it the segmenter finds masks."""
    grid: Annotated[int, Field(gt=0)] | None = 50
    """Points a side on which the segmenter looks; None leaves it to the segmenter."""
    edge_points: Literal["none", "all", "first"] = "all"
    """Whether points near edges are used, too. ``first``: only the first of them, as in the released code."""
    least_area: Annotated[int, Field(ge=0)] = 5_000
    """Pixels; smaller masks, and what they are made of, are left out."""
    comparison: Literal["exact", "released"] = "exact"
    """How masks are compared in the tree; ``released`` reproduces faults of the released code."""

    @model_validator(mode="after")
    def _fits(self) -> MasksSettings:
        if self.boxes is not None and self.model_fields_set & {"grid", "edge_points", "comparison"}:
            raise ValueError("'boxes' replaces the segmenter: remove 'grid', 'edge_points' and 'comparison'")
        return self


class Masks(RowStage):
    """Makes ``mask_data`` of each image in DCI's layout, without texts, and ``boxes`` in the order of the masks."""

    Settings = MasksSettings
    settings: MasksSettings
    takes = ("{boxes}",)
    gives = ("mask_data", "boxes")

    def __init__(self, name: str, settings: MasksSettings, seed: int) -> None:
        super().__init__(name, settings, seed)
        self.roles = () if settings.boxes else ("segmenter",)  # pyrefly: ignore[read-only]

    def check(self) -> None:
        """Raise if points near edges are requested, and OpenCV is not installed; see ``Stage.check``."""
        if self.roles and self.settings.edge_points != "none":
            opencv()

    def make(self, row: PipelineRow, models: PipelineModels) -> PipelineRow:
        """Return a row with its masks."""
        empty: list[str] = []
        masks = list(self._given(row) if self.settings.boxes else self._found(row, models, empty))
        about: dict[str, Any] = {"seed": self.seed, "counts": {"masks": len(masks)}}
        if empty:
            about["left_out"] = dict.fromkeys(empty, "the mask covers nothing")
        if self.roles:
            about["model"] = models.name("segmenter")
        data = {mask["idx"]: mask for mask in masks}
        return row.having(self.name, about, mask_data=data, boxes=[_box(mask) for mask in masks])

    def _given(self, row: PipelineRow) -> Iterator[dict[str, Any]]:
        for number, (left, top, right, bottom) in enumerate(row.values[str(self.settings.boxes)]):
            box = (round(left), round(top), round(right), round(bottom))
            area = (box[2] - box[0]) * (box[3] - box[1])
            if area >= max(self.settings.least_area, 1):
                yield _mask(number, box, area, -1)

    def _found(self, row: PipelineRow, models: PipelineModels, empty: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the masks that a segmenter finds; those that cover nothing are named in ``empty``."""
        numbers = count()

        def numbered(nodes: Sequence[MaskNode], parent: int) -> Iterator[dict[str, Any]]:
            for node in nodes:
                yield _mask(own := next(numbers), node.mask.box, node.mask.size, parent)
                yield from numbered(node.children, own)

        segmenter = models["segmenter"]
        regions = segmenter.masks(row.pixels, grid=self.settings.grid)
        if (which := self.settings.edge_points) != "none":
            pixels = np.asarray(read_image(row.pixels).image.convert("RGB"))
            if len(points := points_near(canny_edges(pixels), seed=self.seed, which=which)):
                regions += segmenter.masks(row.pixels, points=points)
        empty += [f"mask {number}" for number, region in enumerate(regions) if not region.mask.size]
        tree = shown(mask_tree(regions, comparison=self.settings.comparison), self.settings.least_area)
        yield from numbered(tree, -1)


def _mask(number: int, box: Sequence[int], area: int, parent: int) -> dict[str, Any]:
    left, top, right, bottom = map(int, box)
    return {
        "idx": str(number),
        "label": "",
        "caption": "",
        "parent": parent,
        "area": int(area),
        "bounds": {"topLeft": {"x": left, "y": top}, "bottomRight": {"x": right, "y": bottom}},
    }
