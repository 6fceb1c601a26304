import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tiny_images import encoded
from tiny_regions import SIDE, make_tiny_sam, make_tiny_sam2

from capbench.adapters import ImageHandle
from capbench.adapters.aliases import resolve_model
from capbench.adapters.images.reading import UnreadableImage
from capbench.adapters.regions.sam import SamSegmenter, crop_windows, without_small
from capbench.errors import AdapterError

LOOSE = {"pred_iou": -100.0, "stability": 0.0, "box_nms": 1.0, "device": "cpu"}


@pytest.fixture(scope="module")
def sam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_sam(tmp_path_factory.mktemp("sam"))


@pytest.fixture(scope="module")
def sam2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_sam2(tmp_path_factory.mktemp("sam2"))


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 255, (6, 9, 3), dtype=np.uint8))
    return coarse.resize((90, 60), Image.Resampling.NEAREST)


@pytest.fixture(scope="module")
def handle(picture: Image.Image) -> ImageHandle:
    return ImageHandle(encoded(picture))


def directly(folder: Path, picture: Image.Image, points: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """Logits and predicted IoUs of all points, by transformers as its documentation has it."""
    is_first = transformers.AutoConfig.from_pretrained(folder).model_type == "sam"
    model = (transformers.SamModel if is_first else transformers.Sam2Model).from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    masks = []
    for point in points.tolist():
        inputs = processor(images=picture, input_points=[[[point]]], input_labels=[[[1]]], return_tensors="pt")
        sizes = [inputs.pop("original_sizes")]
        if is_first:
            sizes.append(inputs.pop("reshaped_input_sizes"))
        with torch.inference_mode():
            output = model(**inputs, multimask_output=True)
        logits = processor.post_process_masks(output.pred_masks, *sizes, binarize=False)[0][0]
        for logit, iou in zip(logits, output.iou_scores.flatten().tolist(), strict=True):
            masks.append((logit.numpy(), iou))
    return masks


def plain_kept(masks: list[tuple[np.ndarray, float, float]], most: float) -> list[tuple[np.ndarray, float, float]]:
    """Those that no surer one overlaps, by boxes whose edges are pixels of the mask."""
    kept: list = []
    for candidate in sorted(masks, key=lambda mask: -mask[1]):
        ys, xs = np.nonzero(candidate[0])
        box = xs.min(), ys.min(), xs.max(), ys.max()
        for _, (a, b, c, d) in kept:
            shared = max(min(box[2], c) - max(box[0], a), 0) * max(min(box[3], d) - max(box[1], b), 0)
            union = (box[2] - box[0]) * (box[3] - box[1]) + (c - a) * (d - b) - shared
            if union and shared / union > most:
                break
        else:
            kept.append((candidate, box))
    return [candidate for candidate, _ in kept]


@pytest.mark.parametrize("model", ["sam", pytest.param("sam2", marks=pytest.mark.costly)])
def test_masks_are_those_of_transformers(model: str, request, picture: Image.Image, handle: ImageHandle):
    folder = request.getfixturevalue(model)
    points = np.array([[(x + 0.5) * 30, (y + 0.5) * 20] for y in range(3) for x in range(3)])
    predicted = [mask for mask in directly(folder, picture, points) if (mask[0] > 0).any()]
    offset = 0.2 * float(np.median([np.abs(logits) for logits, _ in predicted]))
    masks = [(logits > 0, iou, (logits > offset).sum() / (logits > -offset).sum()) for logits, iou in predicted]
    # Such that some pass and some do not.
    sure, stable = (float(np.quantile([mask[n] for mask in masks], 0.3)) - 1e-4 for n in (1, 2))
    passing = [mask for mask in masks if mask[1] > sure and mask[2] >= stable]

    assert 3 < len(passing) < len(masks)
    for most, settings in ((1.0, {"points": points}), (1.0, {"grid": 3}), (0.97, {"points": points})):
        expected = plain_kept(passing, most)
        segmenter = SamSegmenter(
            str(folder), pred_iou=sure, stability=stable, stability_offset=offset, box_nms=most, points_per_batch=4,
            device="cpu",
        )  # fmt: skip
        ours = segmenter.masks(handle, **settings)
        assert len(ours) == len(expected)
        assert (len(ours) < len(passing)) is (most < 1)
        for region, (mask, iou, stability) in zip(ours, expected, strict=True):
            found_mask = region.mask.unpacked()
            assert (found_mask != mask).mean() < 1e-3
            assert region.iou == pytest.approx(iou, abs=1e-4)
            assert region.stability == pytest.approx(stability, abs=2e-3)
            left, top, right, bottom = map(int, region.box)
            assert found_mask[top:bottom, left:right].sum() == found_mask.sum() > 0
            assert found_mask[top].any() and found_mask[:, right - 1].any()


def test_crops_are_looked_at_with_fewer_points(sam: Path, picture: Image.Image, handle: ImageHandle):
    whole = SamSegmenter(str(sam), **LOOSE, points_per_side=4)
    crops = SamSegmenter(str(sam), **LOOSE, points_per_side=4, crop_layers=1, crop_points_downscale=2, crop_nms=1.0)

    regions = crops.masks(handle)
    # What is found in a crop, and does not end at its edges, is found in the whole, where the crop is.
    window = crop_windows(picture.size, 1, 512 / 1500)[1][1]
    left, top, right, bottom = window
    of_crop = whole.masks(ImageHandle(encoded(picture.crop(window))), grid=2)
    ours = {region.mask.unpacked().tobytes() for region in regions}
    for region in of_crop:
        placed = np.zeros((60, 90), bool)
        placed[top:bottom, left:right] = region.mask.unpacked()
        is_cut = region.box[2] - 1 >= right - left - 20 or region.box[3] - 1 >= bottom - top - 20
        assert (placed.tobytes() in ours) is not is_cut
    assert len(regions) <= len(whole.masks(handle)) + 4 * 4 * 3
    assert all(region.mask.shape == (60, 90) for region in regions)
    # Points that are given are of the whole image.
    at = np.array([[45.0, 30.0]])
    assert len(crops.masks(handle, points=at)) == len(whole.masks(handle, points=at))


def test_windows_of_crops_are_those_of_transformers(sam: Path, picture: Image.Image):
    processor = transformers.SamImageProcessor.from_pretrained(sam)
    for layers in (0, 1, 2):
        theirs, *_ = processor.generate_crop_boxes(picture, SIDE, layers, 512 / 1500, 4, 1)
        ours = [list(window) for _, window in crop_windows(picture.size, layers, 512 / 1500)]
        assert sorted(ours) == sorted(np.asarray(theirs).astype(int).reshape(-1, 4).tolist())


def test_small_holes_and_islands_go_and_no_mask_is_lost(sam: Path, handle: ImageHandle):
    rough = SamSegmenter(str(sam), **LOOSE, points_per_side=3).masks(handle)
    clean = SamSegmenter(str(sam), **LOOSE, crop_nms=1.0, points_per_side=3, min_region=30).masks(handle)

    assert {region.mask.unpacked().tobytes() for region in clean} >= {
        without_small(region.mask.unpacked(), 30).tobytes() for region in rough
    }
    assert any((region.mask.unpacked() != without_small(region.mask.unpacked(), 30)).any() for region in rough)


def test_no_points_are_no_masks_and_what_cannot_be_read_is_named(sam: Path, handle: ImageHandle):
    segmenter = SamSegmenter(str(sam), device="cpu")

    assert segmenter.masks(handle, points=np.zeros((0, 2))) == []
    with pytest.raises(AdapterError, match="points or a grid, not both"):
        segmenter.masks(handle, points=np.zeros((1, 2)), grid=2)
    with pytest.raises(AdapterError, match="inside of the image of 90 x 60"):
        segmenter.masks(handle, points=np.array([[89.0, 60.0]]))
    with pytest.raises(UnreadableImage, match="known format"):
        segmenter.masks(ImageHandle(b"no image"))
    thin = ImageHandle(encoded(Image.new("RGB", (3000, 1))))
    with pytest.raises(UnreadableImage, match="the model's processor does not take it"):
        segmenter.masks(thin)
    # A tiny model is sure of nothing.
    assert SamSegmenter(str(sam), pred_iou=100.0, device="cpu").masks(handle, grid=2) == []


def test_everything_that_decides_a_mask_is_in_the_fingerprint(sam: Path, sam2: Path):
    first = SamSegmenter(str(sam), device="cpu").fingerprint()
    changes = {
        "points_per_side": 8, "pred_iou": 0.66, "stability": 0.86, "stability_offset": 2.0, "box_nms": 0.97,
        "crop_layers": 1, "crop_points_downscale": 2, "crop_overlap": 0.2, "crop_nms": 0.5, "min_region": 100,
        "dtype": "bf16",
    }  # fmt: skip
    assert not changes.items() & first.items()
    assert SamSegmenter(str(sam), device="cpu", **changes).fingerprint() == {**first, **changes}
    assert SamSegmenter(str(sam), device="cpu", points_per_batch=1).fingerprint() == first
    assert SamSegmenter(str(sam2), device="cpu").fingerprint()["model"] == "Sam2Model"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"points_per_side": 0}, "points_per_side=0 is below 1"),
        ({"crop_layers": -1}, "crop_layers=-1 is below 0"),
        ({"dtype": "int8"}, "dtype=int8 is not known"),
    ],
)
def test_argument_without_meaning_is_said(sam: Path, arguments: dict, reason: str):
    with pytest.raises(AdapterError, match=reason):
        SamSegmenter(str(sam), **arguments)


def test_model_of_another_kind_is_named(tiny_clip, sam: Path, tmp_path: Path):
    with pytest.raises(AdapterError, match="model_type is 'clip'; adapter 'sam' takes sam or sam2"):
        SamSegmenter(str(tiny_clip.hf_folder))
    with pytest.raises(AdapterError, match="model_type is 'sam'; adapter 'owlv2' takes owlv2"):
        resolve_model("owlv2", {"pretrained": str(sam)}).load()
    with pytest.raises(AdapterError, match=r"holds no config\.json"):
        SamSegmenter(str(tmp_path))


def test_weight_that_is_missing_is_named(sam: Path, tmp_path: Path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(sam, tmp_path, dirs_exist_ok=True)
    weights = load_file(sam / "model.safetensors")
    del weights["mask_decoder.iou_token.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})

    with pytest.raises(AdapterError, match=r"mask_decoder\.iou_token\.weight: not in the checkpoint"):
        SamSegmenter(str(tmp_path))


def test_holes_are_filled_and_islands_go_but_the_largest_stays():
    rows = ["#####...", "#...#.#.", "#.#.#..#", "#...#...", "#####.#."]
    mask = np.array([[char == "#" for char in row] for row in rows])
    # The hole has 8 pixels around an island of one; at the right are islands of two, corner to corner, and of one.
    assert (without_small(mask, 1) == mask).all()
    assert without_small(mask, 2).sum() == 16 + 2
    filled = without_small(mask, 9)
    assert filled[:, :5].all() and not filled[:, 5:].any()
    # What is smaller than the least altogether is a hole, or the largest island.
    for value in (True, False):
        assert (without_small(np.full((4, 5), value), 3) == value).all()
    pixels = np.zeros((4, 5), bool)
    pixels[1, 1] = True
    assert without_small(pixels, 3).sum() == 1
