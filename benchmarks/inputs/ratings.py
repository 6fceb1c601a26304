"""Ratings of captions, as data give them."""

from __future__ import annotations

import math
import numbers
import reprlib
from typing import Any

import numpy as np

from ...rows import parse_number

GREATEST = 1e100
"""Ratings, and what is computed of them, can be squared and scaled below it."""


def ratings_of(human: Any, human_range: tuple[float, float] | None) -> list[float] | str:
    """Return the ratings of a caption as numbers, NaN of raters who skipped it, or why they cannot be used.

    Args:
        human: A rating, or one a rater.
        human_range: Least and greatest; ratings are mapped from it to 0-1. None keeps them as they are.
    """
    given = human if isinstance(human, list | tuple) else [human]
    try:
        ratings = [math.nan if _skipped(rating) else parse_number(rating) for rating in given]
    except (TypeError, ValueError):
        return f"is not a number: {reprlib.repr(human)}"
    except OverflowError:
        return f"is not finite: {reprlib.repr(human)}"
    if all(map(math.isnan, ratings)):
        return "is missing"
    if any(abs(rating) >= GREATEST for rating in ratings):
        return f"is not between -{GREATEST:g} and {GREATEST:g}: {reprlib.repr(human)}"
    if human_range is None:
        return ratings
    low, high = human_range
    if outside := [rating for rating in ratings if rating < low or rating > high]:
        return f"lies outside {low:g}-{high:g}: {outside[0]:g}"
    return [(rating - low) / (high - low) for rating in ratings]


def _skipped(rating: Any) -> bool:
    """Tell whether a rater skipped the caption: NaN in released files, null in JSON."""
    if type(rating) is int:
        return False
    named = isinstance(rating, str) and rating.strip().lower() == "nan"
    return rating is None or named or (isinstance(rating, (float, numbers.Real)) and rating != rating)


def arrange(rated: list[float], raters: str) -> list[float]:
    """Return the ratings that become rows; NaN only where a rater's place must be kept.

    Args:
        rated: The ratings of a caption.
        raters: The task's ``protocol.raters``.
    """
    if raters == "per_rater_mean":
        return rated
    given = [rating for rating in rated if not math.isnan(rating)]
    return [float(np.mean(given))] if raters == "mean" and len(given) > 1 else given
