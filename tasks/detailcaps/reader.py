"""Makes one document of each (image, captioner) pair of DetailCaps-4870."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...rows import BadRow, Row, parse_json, parse_number

CAPTIONERS = ("ShareCaptioner", "CogVLM", "LLaVA_v15")


def rated_captions(documents: Iterable[Mapping[str, Any]]) -> Iterator[Row | BadRow]:
    """Yield the three rated captions of each image.

    ``GPT4_Eval`` is a JSON string with one score a captioner; some rows have none, and are reported.
    Images are told apart by row, since several rows share an image name.
    """
    for number, document in enumerate(documents):
        scores = _scores(document.get("GPT4_Eval"))
        if isinstance(scores, str):
            yield BadRow(f"row {number} ({document.get('image')})", scores)
            continue
        for captioner in CAPTIONERS:
            yield {
                "id": f"{number}|{captioner}",
                "image": f"{number}|{document.get('image')}",
                **({"binary": document["binary"]} if "binary" in document else {}),
                "candidate": document.get(captioner),
                "rating": scores[captioner],
                **{name: text for name, text in document.items() if name.startswith("GT_Caption_")},
            }


def _scores(encoded: Any) -> dict[str, float] | str:
    """Return the score of each captioner, or why there is none."""
    if encoded is None:
        return "has no expert scores (GPT4_Eval is null)"
    try:
        scores = parse_json(encoded)
        return {captioner: parse_number(scores[captioner]) for captioner in CAPTIONERS}
    except (ValueError, TypeError, KeyError) as error:
        return f"GPT4_Eval holds no score for each of {', '.join(CAPTIONERS)}: {type(error).__name__}: {error}"
    except OverflowError:
        return f"GPT4_Eval holds a score that is not finite: {encoded}"
