"""Segment Anything by transformers: masks at points, cleaned and without doubles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import AdapterError
from ..devices import torch_dtype
from ..images.handles import ImageHandle
from ..images.reading import read_image
from .contracts import PackedMask, Region, Segmenter, WholeBox, wanted_points
from .detectors import HfRegionModel, preparing

if TYPE_CHECKING:
    import numpy as np
    import torch
    from PIL import Image


def crop_windows(size: tuple[int, int], layers: int, overlap: float) -> list[tuple[int, WholeBox]]:
    """Return the whole image, then the crops of each layer, with the layer; column by column within one.

    Layer i has 2^i crops a side.

    Args:
        size: Width and height in pixels.
        layers: Number of layers of crops in addition to the whole.
        overlap: Share of the shorter side by which crops of the first layer overlap; half of it in the next, and so on.
    """
    width, height = size
    windows = [(0, (0, 0, width, height))]
    for layer in range(1, layers + 1):
        count = 2**layer
        shared = int(overlap * min(size) * (2 / count))
        wide, high = (math.ceil((shared * (count - 1) + side) / count) for side in size)
        windows += [
            (layer, (x, y, min(x + wide, width), min(y + high, height)))
            for x in (int((wide - shared) * column) for column in range(count))
            for y in (int((high - shared) * row) for row in range(count))
        ]
    return windows


def without_small(mask: np.ndarray, least: int) -> np.ndarray:
    """Return a mask whose small holes are filled and small islands dropped, holes first.

    Pixels belong together that touch at an edge or a corner. Where all islands are small, the largest is kept. So does
    segment-anything (``remove_small_regions``).

    Args:
        mask: bool ``[height, width]``.
        least: Pixels that a hole or an island must have to stay.
    """
    holes, sizes = _parts(~mask)
    # Part 0 is the rest of the image.
    small = sizes < least
    small[0] = False
    filled = mask | small[holes]
    islands, sizes = _parts(filled)
    large = sizes >= least
    large[0] = False
    if not large.any() and len(sizes) > 1:
        large[1 + sizes[1:].argmax()] = True
    return large[islands]


def _parts(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the part that each pixel belongs to, 0 for none, and the sizes of the parts."""
    import numpy as np
    from scipy.ndimage import label

    labelled: Any = label(mask, np.ones((3, 3), int))
    parts, count = labelled
    return parts, np.bincount(parts.ravel(), minlength=count + 1)


_NEAR_EDGE = 20
_AT_ONCE = 16
"""Masks that are brought to the image's size at once."""


@dataclass(kw_only=True, eq=False, repr=False)
class SamSegmenter(HfRegionModel, Segmenter):
    """SAM or SAM 2 of transformers, asked at points as segment-anything's automatic masks are.

    At each point of the whole image, and of crops of it, the model gives three masks. Those whose predicted IoU and
    stability do stay; of those whose boxes overlap, the better one, or the one of the smaller crop; small holes are
    filled and small islands dropped. Defaults are those of segment-anything. At points that are given, the whole image
    alone is looked at. As in segment-anything, boxes that are suppressed end at a mask's last pixel, those of regions
    behind it.

    Args:
        pretrained: A hub id (``facebook/sam-vit-huge``), or a folder that ``save_pretrained`` wrote.
        revision: Branch, tag or commit of a hub id.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        device: Such as ``cpu`` or ``cuda:1``; a GPU by default, where there is one.
        points_per_side: Points a side of the grid, where a call gives none.
        points_per_batch: Number of points in one forward pass.
        pred_iou: Predicted IoU that a mask must be above.
        stability: Stability that a mask must have: the IoU of what is above the threshold by the offset, and below it.
        stability_offset: How far both are from the threshold.
        box_nms: IoU of two boxes of one crop above which the less sure mask goes.
        crop_layers: Layers of crops in addition to the whole; layer i has 2^i crops a side.
        crop_points_downscale: Points a side of layer i are divided by this factor to the power i.
        crop_overlap: Share of the shorter side by which crops overlap.
        crop_nms: IoU of two boxes of several crops above which the one of the larger crop goes.
        min_region: Pixels that a hole or an island must have to stay; 0 leaves masks as they are.
        name: How results call the model.

    Raises:
        AdapterError: The model cannot be loaded, or an argument has no meaning.

    Source: Kirillov et al., Segment Anything (2023), and the released ``SamAutomaticMaskGenerator``.
    """

    kinds = ("sam", "sam2", "sam2_video")
    adapter = "sam"

    points_per_side: int = 32
    points_per_batch: int = 64
    pred_iou: float = 0.88
    stability: float = 0.95
    stability_offset: float = 1.0
    box_nms: float = 0.7
    crop_layers: int = 0
    crop_points_downscale: int = 1
    crop_overlap: float = 512 / 1500
    crop_nms: float = 0.7
    min_region: int = 0

    def __post_init__(self) -> None:
        counts = ("points_per_side", "points_per_batch", "crop_points_downscale")
        for key, least in [*dict.fromkeys(counts, 1).items(), ("crop_layers", 0), ("min_region", 0)]:
            if getattr(self, key) < least:
                raise AdapterError(f"{key}={getattr(self, key)} is below {least}.", "Set it higher or leave it out.")
        super().__post_init__()
        # In the order of the arguments; how many points pass at once changes no mask.
        own = [name for name in SamSegmenter.__annotations__ if name != "points_per_batch"]
        self._settings = {name: getattr(self, name) for name in own}
        source, kind = self._source, "Sam" if self._source.config.model_type == "sam" else "Sam2"
        if kind == "Sam2":
            # Checkpoints of SAM 2 are configured for videos; of images a part of it is asked.
            source = replace(source, config=source.part("Sam2Config", "configuration"))
        self._model = source.load_whole(f"{kind}Model", torch_dtype(self.dtype)).to(self._device)
        self._processor = source.part(f"{kind}Processor", "processor")

    def masks(self, image: ImageHandle, *, points: np.ndarray | None = None, grid: int | None = None) -> list[Region]:
        """Return the regions of an image; see ``Segmenter.masks``."""
        picture = read_image(image).image.convert("RGB")
        side = self.points_per_side if grid is None else grid
        layers = self.crop_layers if points is None else 0
        regions: list[Region] = []
        crop_areas: list[int] = []
        for layer, window in crop_windows(picture.size, layers, self.crop_overlap):
            size = window[2] - window[0], window[3] - window[1]
            fewer = max(side // self.crop_points_downscale**layer, 1) if layer else side
            asked = wanted_points(points, fewer if points is None else grid, size)
            of_crop = list(self._of_crop(image, picture, window, asked))
            regions += _without_doubles(of_crop, [region.iou for region in of_crop], self.box_nms)
            crop_areas += [size[0] * size[1]] * (len(regions) - len(crop_areas))
        if layers:
            regions = _without_doubles(regions, [1 / area for area in crop_areas], self.crop_nms)
        return self._cleaned(regions) if self.min_region else regions

    def _of_crop(
        self, image: ImageHandle, picture: Image.Image, window: WholeBox, points: np.ndarray
    ) -> Iterator[Region]:
        """Yield the masks of one crop that are sure and stable enough."""
        import torch

        if not len(points):
            return
        with preparing(image):
            inputs = self._processor(
                images=picture.crop(window),
                input_points=[[[point] for point in points.tolist()]],
                input_labels=[[[1]] * len(points)],
                return_tensors="pt",
            )
        pixels = inputs["pixel_values"].to(self._device, torch_dtype(self.dtype))
        with torch.inference_mode():
            features = self._model.get_image_embeddings(pixels)
            for start in range(0, len(points), self.points_per_batch):
                outputs = self._model(
                    image_embeddings=features,
                    input_points=inputs["input_points"][:, start : start + self.points_per_batch].to(pixels),
                    input_labels=inputs["input_labels"][:, start : start + self.points_per_batch].to(self._device),
                    multimask_output=True,
                )
                ious = outputs.iou_scores.float().flatten()
                sure = ious > self.pred_iou
                coarse = outputs.pred_masks.float().flatten(0, 2)[sure]
                yield from self._stable(coarse, ious[sure], inputs, window, picture.size)

    def _stable(
        self, coarse: torch.Tensor, ious: torch.Tensor, inputs: Any, window: WholeBox, size: tuple[int, int]
    ) -> Iterator[Region]:
        """Yield the masks that are stable, and not cut off by their crop."""
        for start in range(0, len(coarse), _AT_ONCE):
            logits = self._upscaled(coarse[start : start + _AT_ONCE], inputs)
            inner, outer = ((logits > sign * self.stability_offset).sum(dim=(-1, -2)) for sign in (1, -1))
            # Of nothing at all it is undefined, and nothing is left out below.
            stability = inner / outer.clamp(min=1)
            stable = (stability >= self.stability).nonzero().flatten().tolist()
            for number in stable:
                mask = _placed((logits[number] > 0).cpu().numpy(), window, size)
                if mask is not None:
                    yield Region(mask, float(ious[start + number]), float(stability[number]))

    def _upscaled(self, coarse: torch.Tensor, inputs: Any) -> torch.Tensor:
        """Return masks in the size of their crop, as logits ``[n, height, width]``."""
        sizes = [inputs["original_sizes"]]
        if self._source.config.model_type == "sam":
            sizes.append(inputs["reshaped_input_sizes"])
        return self._processor.post_process_masks([coarse[:, None]], *sizes, binarize=False)[0][:, 0]

    def _cleaned(self, regions: list[Region]) -> list[Region]:
        """Return masks without small holes and islands; of those that are alike then, one that was clean already."""
        cleaned, clean = [], []
        for region in regions:
            rough = region.mask.unpacked()
            mask = without_small(rough, self.min_region)
            clean.append(bool((mask == rough).all()))
            cleaned.append(replace(region, mask=PackedMask.of(mask)))
        most = max(self.box_nms, self.crop_nms)
        return _without_doubles(cleaned, [float(same) for same in clean], most)


def _placed(mask: np.ndarray, window: WholeBox, size: tuple[int, int]) -> PackedMask | None:
    """Return a crop's mask in the whole image; None for an empty one, and for one that the crop cuts off."""
    import numpy as np

    if not mask.any():
        return None
    left, top, right, bottom = window
    whole, placed = (0, 0, *size), mask
    if window != whole:
        placed = np.zeros((size[1], size[0]), bool)
        placed[top:bottom, left:right] = mask
    packed = PackedMask.of(placed)
    is_cut = any(
        abs(edge - cut) <= _NEAR_EDGE and abs(edge - end) > _NEAR_EDGE
        for edge, cut, end in zip(_edges(packed), window, whole, strict=True)
    )
    return None if is_cut else packed


def _edges(mask: PackedMask) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom pixel, as segment-anything's suppression takes them: all inclusive."""
    left, top, right, bottom = mask.box
    return left, top, right - 1, bottom - 1


def _without_doubles(regions: list[Region], scores: list[float], most: float) -> list[Region]:
    """Return masks of whose boxes no better one overlaps theirs by more than an IoU, the best first."""
    import torch
    from torchvision.ops import nms

    if not regions:
        return []
    boxes = torch.tensor([_edges(region.mask) for region in regions], dtype=torch.float32)
    return [regions[number] for number in nms(boxes, torch.tensor(scores), most).tolist()]
