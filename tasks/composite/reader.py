"""Brings the two layouts in which Composite circulates into one."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...rows import BadRow, Row


def unify(documents: Iterable[Mapping[str, Any]]) -> Iterator[Row | BadRow]:
    """Yield ``id, subset, image, candidate, references, rating`` from either layout.

    The jsonl layout has ``subset, image_id, caption, rating, refs``; the hub data set has ``img`` (an
    encoded image), ``cand`` or ``mt``, ``refs`` or ``references``, ``human_score`` or ``score``.
    """
    for number, document in enumerate(documents):
        candidate = _first(document, "caption", "cand", "mt")
        references = _first(document, "refs", "references")
        rating = _first(document, "rating", "human_score", "score")
        if not isinstance(references, list | tuple):
            yield BadRow(f"document {number}", "has no list of references ('refs')")
            continue
        subset = document.get("subset", "")
        image = document["image_id"] if "image_id" in document else _image_name(document.get("img"), references)
        # COCO's files are named by their number in twelve digits.
        number_of_coco = subset == "coco" and re.fullmatch(r"[0-9]+", str(image))
        yield {
            "id": f"{number}|{image}",
            "subset": subset,
            "image": f"{subset}/COCO_val2014_{int(image):012d}" if number_of_coco else f"{subset}/{image}",
            "candidate": candidate,
            "references": references,
            "rating": rating,
        }


def _first(document: Mapping[str, Any], *names: str) -> Any:
    return next((document[name] for name in names if name in document), None)


def _image_name(image: Any, references: Iterable[str]) -> str:
    """Name an image by its bytes, or by its references where the copy holds no image."""
    encoded = image.get("bytes") if isinstance(image, Mapping) else None
    return hashlib.sha256(encoded or "\n".join(map(str, references)).encode()).hexdigest()[:16]
