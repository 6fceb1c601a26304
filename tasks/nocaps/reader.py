"""Reads the validation set of nocaps as distributed."""

from collections.abc import Iterator
from pathlib import Path

from ...rows import BadRow, Row
from ..coco.reader import read_captions

FILE = "nocaps_val_4500_captions.json"
DOMAINS = ("in-domain", "near-domain", "out-domain")


def validation(folder: Path, domain: str | None = None) -> Iterator[Row | BadRow]:
    """Yield the images of the validation set with their captions.

    Args:
        folder: Holds ``nocaps_val_4500_captions.json``.
        domain: Only images of this domain: ``in-domain``, ``near-domain`` or ``out-domain``, by whether COCO's
            categories name all, some or none of the objects. None for all images.

    Yields:
        ``id``, ``image`` (its file's name), ``domain`` and ``references``; a ``BadRow`` for an entry that cannot
        be used.

    Raises:
        DataError: The file is missing or not of its format.
    """
    captioned = read_captions(folder / FILE, "'bench data nocaps' lists the files.")
    yield from captioned.bad_rows
    for identity, entry in captioned.images.items():
        of = entry.get("domain")
        if domain is not None and of not in DOMAINS:
            yield BadRow(f"{FILE}: image {identity}", f"has the domain {of!r:.40}, not one of {', '.join(DOMAINS)}")
        elif domain in (None, of):
            yield {
                "id": str(identity),
                "image": entry["file_name"],
                "domain": of,
                "references": captioned.captions[identity],
            }
