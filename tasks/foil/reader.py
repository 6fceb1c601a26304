"""Reads FOIL: the distributed JSON files, and the part that VALSE passes on."""

import importlib.resources
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...rows import BadRow, Row, load_json, parse_json

COCO_CAPTIONS = "captions_val2014.json"
_HINT = "'bench data foil_1ref' lists the files."
_COCO_IN_JAR = "coco/annotations/captions_val2014.json"


def distributed(folder: Path, file: str = "foilv1.0_test_2017.json") -> Iterator[Row | BadRow]:
    """Yield a pair for each foil of an annotation: the true caption, and the foil.

    References are the image's COCO captions but the true one.
    """
    content = load_json(folder / file, _HINT)
    try:
        images = {image["id"]: image["file_name"] for image in content["images"]}
        annotations = content["annotations"]
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / file}: is not the distributed file: no {error}") from error
    captions = _coco_captions(folder)
    true: dict[Any, dict[str, Any]] = {a["id"]: a for a in annotations if not a["foil"]}
    counts: dict[Any, int] = defaultdict(int)
    for annotation in annotations:
        if not annotation["foil"]:
            continue
        number = counts[annotation["id"]]
        counts[annotation["id"]] += 1
        identity = f"{annotation['id']}-{number}"
        original = true.get(annotation["id"])
        if original is None:
            yield BadRow(identity, "its true caption is not in the file")
            continue
        image, caption = annotation["image_id"], original["caption"]
        references = [text for text in captions[image] if text != caption]
        yield _row(identity, images.get(image, str(image)), caption, annotation["caption"], references)


def valse(folder: Path, file: str = "foil_valse.json") -> Iterator[Row | BadRow]:
    """Yield the 1,000 pairs of FOIL that VALSE passes on; references as in ``distributed``."""
    captions = _coco_captions(folder)
    for identity, entry in load_json(folder / file, _HINT).items():
        try:
            image = int(Path(entry["image_file"]).stem.rpartition("_")[2])
            # VALSE has changed case and punctuation of the captions.
            true = _letters_and_digits(entry["caption"])
            references = [text for text in captions[image] if _letters_and_digits(text) != true]
            yield _row(identity, entry["image_file"], entry["caption"], entry["foil"], references)
        except (KeyError, TypeError, ValueError) as error:
            yield BadRow(identity, f"is not as expected: {type(error).__name__}: {error}")


def _row(identity: str, image: str, true: str, foil: str, references: list[str]) -> Row:
    return {"id": identity, "image": image, "captions": [true, foil], "references": references, "preferred": 0}


def _letters_and_digits(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _coco_captions(folder: Path) -> dict[int, list[str]]:
    """Return the captions of each COCO val2014 image, from the folder or the copy in pycocoevalcap."""
    if (folder / COCO_CAPTIONS).is_file():
        content = load_json(folder / COCO_CAPTIONS)
    else:
        jar = importlib.resources.files("pycocoevalcap") / "spice/spice-1.0.jar"
        with importlib.resources.as_file(jar) as path, zipfile.ZipFile(path) as archive:
            content = parse_json(archive.read(_COCO_IN_JAR).decode())
    captions: dict[int, list[str]] = defaultdict(list)
    for annotation in content["annotations"]:
        captions[annotation["image_id"]].append(annotation["caption"])
    return captions
