"""What ALOHa matched, as rows for people."""

from __future__ import annotations

from collections.abc import Mapping

from ...metrics.aloha.matching import Matched
from .explanations import How, Row

_MEANINGS: Mapping[How, str] = {
    "equal": "the same name, counts 1",
    "similar": "counts the cosine to the object of the references that it is matched with",
}


def object_rows(matched: Matched) -> list[Row]:
    """Return the objects of the candidate, the least similar first, each with what it is matched with."""
    return [
        Row("unmatched", one.name, "", "candidate")
        if one.reference is None
        else Row("equal", one.name, one.reference, "both")
        if one.name == one.reference
        else Row("similar", one.name, one.reference, "candidate", one.similarity)
        for one in matched.objects
    ]


def meanings(matched: Matched) -> dict[How, str]:
    """Return the ways in which objects were matched, and what each counts; and which words were left out."""
    left = "0" if matched.unmatched == "zero" else "nothing, as released"
    known: dict[How, str] = {
        **_MEANINGS,
        "unmatched": f"the references have no object left for it, counts {left}",
    }
    hows = {one.how for one in object_rows(matched)}
    found: dict[How, str] = {how: said for how, said in known.items() if how in hows}
    if matched.unknown:
        found["left out"] = f"words that the parser's list lacks: {', '.join(matched.unknown)}"
    return found
