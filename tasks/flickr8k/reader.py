"""Reads the raw annotation files of Flickr8k-Expert and Flickr8k-CF."""

import codecs
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row, decode_line, parse_number

CAPTIONS = "Flickr8k.token.txt"
TEST_IMAGES = "Flickr_8k.testImages.txt"
_Captions = tuple[dict[str, str], dict[str, tuple[str, ...]]]


def expert(folder: Path) -> Iterator[Row | BadRow]:
    """Yield the 5,822 pairs of ``ExpertAnnotations.txt``, each with three ratings from 1 to 4.

    Source: the readme of the Flickr8k distribution; the released CLIPScore code reads the same files.
    """

    def ratings(fields: list[str]) -> list[int]:
        values = [_whole(field) for field in fields]
        if len(values) != 3 or not all(1 <= value <= 4 for value in values):
            raise ValueError("expected three ratings from 1 to 4")
        return values

    yield from _pairs(folder, "ExpertAnnotations.txt", ratings)


def crowdflower(folder: Path) -> Iterator[Row | BadRow]:
    """Yield the 47,830 pairs of ``CrowdFlowerAnnotations.txt``, rated by the share of yes votes (0-1)."""

    def share(fields: list[str]) -> float:
        printed, yes, no = parse_number(fields[0]), _whole(fields[1]), _whole(fields[2])
        # The file prints the share to a few digits beside the counts: a cheap test of a garbled line.
        if len(fields) != 3 or min(yes, no) < 0 or not abs(printed - yes / (yes + no)) <= 1e-3:
            raise ValueError("the share of yes votes does not follow from the counts")
        return yes / (yes + no)

    yield from _pairs(folder, "CrowdFlowerAnnotations.txt", share)


def test_captions(folder: Path) -> Iterator[Row | BadRow]:
    """Yield the 1,000 images of ``Flickr_8k.testImages.txt``, each with its five captions."""
    _, captions = yield from _captions(folder)
    for place, line in _lines(folder, TEST_IMAGES):
        image = (line or "").strip()
        if image in captions:
            yield {"image": image, "captions": list(captions[image])}
        else:
            yield BadRow(place, "not UTF-8" if line is None else f"image '{image}' has no captions in {CAPTIONS}")


def _pairs(folder: Path, name: str, rating: Callable[[list[str]], Any]) -> Iterator[Row | BadRow]:
    captions, references = yield from _captions(folder)
    for place, line in _lines(folder, name):
        if line is None:
            yield BadRow(place, "not UTF-8")
            continue
        image, *fields = line.split("\t")
        caption_id = fields[0] if fields else ""
        if image not in references:
            yield BadRow(place, f"image '{image}' has no captions in {CAPTIONS}")
        elif caption_id not in captions:
            yield BadRow(place, f"caption '{caption_id}' is not in {CAPTIONS}")
        else:
            try:
                ratings = rating(fields[1:])
            except (ValueError, OverflowError, IndexError, ZeroDivisionError) as error:
                yield BadRow(place, f"bad rating {' '.join(fields[1:])!r}: {error}")
                continue
            yield {
                "id": f"{image}|{caption_id}",
                "image": image,
                "candidate": captions[caption_id],
                "references": references[image],
                "ratings": ratings,
            }


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"invalid literal for int: {text!r}")
    return int(text)


def _captions(folder: Path) -> Generator[BadRow, None, _Captions]:
    """Yield faulty lines; return captions by id and the tuple of captions by image."""
    captions: dict[str, str] = {}
    references: dict[str, tuple[str, ...]] = {}
    for place, line in _lines(folder, CAPTIONS):
        caption_id, tab, caption = (line or "").partition("\t")
        if line is None or not tab or "#" not in caption_id:
            yield BadRow(place, "expected 'image.jpg#number', a tab and a caption in UTF-8")
            continue
        if caption_id in captions:
            yield BadRow(place, f"a second caption with the id '{caption_id}'")
            continue
        # The released loaders collapse white space in captions, and so compare them without it.
        captions[caption_id] = " ".join(caption.split())
        image = caption_id.rpartition("#")[0]
        references[image] = (*references.get(image, ()), captions[caption_id])
    return captions, references


def _lines(folder: Path, name: str) -> Iterator[tuple[str, str | None]]:
    path = folder / name
    if not path.is_file():
        raise DataError(f"{folder} has no {name}", "'bench data flickr8k_expert' lists the files it needs.")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if line.strip():
                yield f"{name}:{number}", decode_line(line)
