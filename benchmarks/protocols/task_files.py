"""Task files of judgements that people gave: their rows are then what a protocol reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_WITH_REFERENCES = ("bleu_4", "rouge_l", "cider", "length")
_WITHOUT = ("length",)


def task_of_ratings(aspects: Sequence[str], *, references: bool) -> dict[str, Any]:
    """Return the keys of a task of rated captions.

    Rows have ``id``, ``image``, ``picture``, ``caption``, ``system``, perhaps ``references``, and for each aspect
    ``rating_ASPECT``, a list of ratings.

    Args:
        aspects: What captions were rated for.
        references: Whether rows have references.
    """
    columns = {aspect: f"rating_{aspect}" for aspect in aspects}
    return {
        "output_type": "agreement",
        **_keys(references=references),
        "doc_to_candidate": "caption",
        "doc_to_human": columns if len(columns) > 1 else next(iter(columns.values())),
        "doc_to_system": "system",
        "protocol": {"raters": "mean"},
        "metric_list": list(_WITH_REFERENCES if references else _WITHOUT),
        "statistics": ["kendall_b", "kendall_c", "pearson"],
    }


def task_of_choices(*, references: bool) -> dict[str, Any]:
    """Return the keys of a task of choices between captions.

    Rows have ``id``, ``image``, ``picture``, ``captions``, perhaps ``references``, and ``votes``: numbers of captions,
    ``tie``, or null for a vote that nobody gave.

    Args:
        references: Whether rows have references.
    """
    return {
        "output_type": "preference",
        **_keys(references=references),
        "doc_to_candidates": "captions",
        "doc_to_preferred": "votes",
        "protocol": {"votes": "share", "human_ties": "half"},
        "metric_list": list(_WITH_REFERENCES if references else _WITHOUT),
    }


def _keys(*, references: bool) -> dict[str, str]:
    keys = {"doc_to_id": "id", "doc_to_image": "image", "doc_to_pixels": "picture"}
    return {**keys, "doc_to_target": "references"} if references else keys
