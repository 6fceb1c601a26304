"""Reads DCI (Densely Captioned Images) as distributed: crops of an image, each with captions and a negative."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row, load_json
from ..schema import require_choice
from .mask_texts import BASE, MaskTexts

SPLITS = ("train", "valid", "test")
_FOLDERS = ("", "densely_captioned_images", "data/densely_captioned_images")
"""Where the distributed folder may lie below the one that is named."""
_PADDING = 0.15
"""A mask's crop is its bounding box, wider and higher by this share of itself on each side, clipped to the image; the
mask itself is not applied."""


class _Dropped(Exception):  # noqa: N818 - the image is left out, which is no error
    """An image that the released code leaves out; the text says why."""


@dataclass(frozen=True)
class _Choices:
    crops: str
    negative: str
    min_size: int
    texts: str


def images(
    folder: Path,
    split: str = "test",
    crops: str = "all",
    negative: str = "swaps",
    min_size: int = 224,
    texts: str = "summaries",
) -> Iterator[Row | BadRow]:
    """Yield an image a document, in the order of ``splits.json``: its entries are the whole image, then the masks.

    An image with anything amiss is left out as a whole, as in the released code: no summaries or negatives,
    negatives of one entry only where crops are wanted, a missing key, a photo that cannot be opened.
    Source: facebookresearch/DCI, ``dataset/impl.py`` and ``dataset/dense_image.py``.

    Args:
        folder: Holds ``splits.json``, ``complete`` and ``photos``.
        split: Images of this split (train, valid, test), or all in that order; the paper's Tables 4, 6
            and 7 are of test, its Tables 2 and 10 of all.
        crops: Entries of an image: all (the whole image and its masks), or base (the whole image alone).
        negative: The wrong caption of an entry: the first of its swaps, layout or basic negatives, or of them
            all the hardest, which is the one with the highest clip_scores stored in the data (of equal
            scores the last), so that it is the same text for every model.
        min_size: Masks whose bounding box is less wide or less high, in pixels, are no entries.
        texts: The captions of an entry: its summaries of at most 77 tokens (summaries), or what annotators wrote of it
            and of all that it is made of, in one text of hundreds of tokens, without negatives (full). A mask of which
            nothing was written is no entry then.

    Raises:
        DataError: The folder is not as distributed.
        TaskError: A choice has no such value.
    """
    require_choice("split", split, (*SPLITS, "all"))
    require_choice("crops", crops, ("all", "base"))
    require_choice("negative", negative, ("swaps", "layout", "basic", "hardest"))
    require_choice("texts", texts, ("summaries", "full"))
    root = next((folder / place for place in _FOLDERS if (folder / place / "splits.json").is_file()), None)
    if root is None:
        raise DataError(
            f"{folder} holds no splits.json",
            "Name the folder of DCI that holds splits.json, complete and photos; 'bench data dci_all_scm' says more.",
        )
    choices = _Choices(crops, negative, min_size, texts)
    for name in _names(root / "splits.json", SPLITS if split == "all" else (split,)):
        if not isinstance(name, str):
            yield BadRow(f"splits.json: {name!r:.60}", "is not the name of a file")
            continue
        try:
            yield _document(root, name, choices)
        except _Dropped as reason:
            yield BadRow(name, str(reason))
        except DataError as error:
            yield BadRow(name, error.message)


def _names(path: Path, splits: Sequence[str]) -> list[Any]:
    content = load_json(path)
    names: list[Any] = []
    for split in splits:
        of_split = content.get(split) if isinstance(content, dict) else None
        if not isinstance(of_split, list):
            raise DataError(
                f"{path}: has no list of files for split '{split}'",
                "It is the distributed file with the keys train, valid and test.",
            )
        names += of_split
    return names


def _document(root: Path, name: str, choices: _Choices) -> Row:
    content = load_json(root / "complete" / name)
    if not isinstance(content, dict):
        raise _Dropped("is not a JSON object")
    summaries, negatives = content.get("summaries"), content.get("negatives")
    if not isinstance(summaries, dict):
        raise _Dropped("has no summaries")
    if not isinstance(negatives, dict):
        raise _Dropped("has no negatives")
    if len(negatives) == 1 and choices.crops == "all":
        raise _Dropped("has negatives of one entry only")
    width, height = _photo_size(root / "photos", content.get("image"))
    said = _full_texts(content) if choices.texts == "full" else None
    entries = [_entry(content, BASE, None, choices, said)]
    if choices.crops == "all":
        masks = content.get("mask_data")
        if not isinstance(masks, dict):
            raise _Dropped("has no mask_data")
        for number, mask in masks.items():
            left, top, right, bottom = _bounds(number, mask)
            if right - left < choices.min_size or bottom - top < choices.min_size:
                continue
            # Truncated, not rounded, and by the box before it is clipped.
            beside, above = int((right - left) * _PADDING), int((bottom - top) * _PADDING)
            box = [max(left - beside, 0), max(top - above, 0), min(right + beside, width), min(bottom + above, height)]
            if box[0] >= box[2] or box[1] >= box[3]:
                raise _Dropped(f"mask {number}: its box lies outside the photo of {width} x {height} pixels")
            key = f"m-{mask.get('idx')}-sc"
            if said is None or key in said:
                entries.append(_entry(content, key, box, choices, said))
    return {"id": Path(name).stem, "image": content["image"], "entries": entries}


def _photo_size(photos: Path, image: Any) -> tuple[int, int]:
    """Return width and height as they are stored; orientation in EXIF data is not applied."""
    from PIL import Image

    if not isinstance(image, str) or not image:
        raise _Dropped("names no image")
    try:
        with Image.open(photos / image) as photo:
            return photo.size
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        cause = getattr(error, "strerror", None) or str(error)
        raise _Dropped(f"photo {image} cannot be opened: {cause}") from error


def _bounds(number: str, mask: Any) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a mask."""
    try:
        first, last = mask["bounds"]["topLeft"], mask["bounds"]["bottomRight"]
        edges = first["x"], first["y"], last["x"], last["y"]
    except (KeyError, TypeError) as error:
        raise _Dropped(f"mask {number}: its bounds are not topLeft and bottomRight with x and y") from error
    if not all(isinstance(edge, int) for edge in edges):
        raise _Dropped(f"mask {number}: its bounds are not whole numbers: {edges}")
    return edges


def _full_texts(content: Mapping[str, Any]) -> dict[str, str]:
    """Return all that was written of each entry."""
    masks = content.get("mask_data")
    if not isinstance(masks, dict) or not all(isinstance(mask, dict) and "idx" in mask for mask in masks.values()):
        raise _Dropped("has no mask_data with an idx each")
    said = MaskTexts(content).entries()
    if not said[BASE].strip():
        raise _Dropped("has no caption")
    return said


def _entry(
    content: Mapping[str, Any], key: str, box: list[int] | None, choices: _Choices, said: Mapping[str, str] | None
) -> Row:
    if said is not None:
        return {"key": key, "box": box, "captions": [said[key]], "negatives": []}
    captions = content["summaries"].get(key)
    captions = [captions] if isinstance(captions, str) else captions
    if not isinstance(captions, list) or not captions:
        raise _Dropped(f"has no summary of {key}")
    negative = _negative(content, key, choices.negative)
    return {"key": key, "box": box, "captions": captions, "negatives": [negative]}


def _negative(content: Mapping[str, Any], key: str, source: str) -> Any:
    by_source = content["negatives"].get(key)
    scores = content.get("clip_scores")
    # The released code looks the scores up for every source, and leaves out an image that has none.
    if not isinstance(by_source, dict) or not isinstance(scores, dict) or key not in scores:
        raise _Dropped(f"has no negatives, or no clip_scores, of {key}")
    try:
        if source != "hardest":
            return by_source[source][0]
        named = [(text, f"{kind}_{n}") for kind, texts in by_source.items() for n, text in enumerate(texts)]
        # The sort is stable: of equal scores the last in the file wins.
        return sorted(named, key=lambda pair: scores[key][pair[1]])[-1][0]
    except (KeyError, IndexError, TypeError) as error:
        raise _Dropped(f"has no {source} negative of {key}: {type(error).__name__}: {error}") from error
