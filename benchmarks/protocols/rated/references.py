"""What becomes of references that are themselves rated captions."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from ...inputs.failures import FailureLog
from ...inputs.items import CaptionRow

RatedReference = Literal["keep", "drop_pair", "drop_for_image", "drop_cumulative"]
ReferenceMatch = Literal["exact", "letters_and_digits"]


def apply_reference_rule(
    rule: RatedReference, match: ReferenceMatch, samples: list[CaptionRow], failures: FailureLog
) -> list[CaptionRow | None]:
    """Apply a task's ``rated_reference`` rule; a caption that says nothing is nobody's reference.

    Args:
        rule: The rule.
        match: When a caption counts as a reference.
        samples: Rated captions, in the data set's order.
        failures: Receives the samples that are left without a reference.

    Returns:
        Each sample with the references that it keeps, or None where the rule leaves the sample out.
    """
    form = _letters_and_digits if match == "letters_and_digits" else str
    match rule:
        case "keep":
            return list(samples)
        case "drop_pair":
            return [
                None if s.candidate and form(s.candidate) in map(form, s.references) else s for s in samples
            ]
        case _:
            return _drop_references(samples, form, failures, once_a_rating=rule == "drop_cumulative")


def _drop_references(
    samples: list[CaptionRow], form: Callable[[str], str], failures: FailureLog, once_a_rating: bool
) -> list[CaptionRow | None]:
    rated: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        if sample.candidate:
            rated[sample.image][form(sample.candidate)] += 1
    kept: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    result: list[CaptionRow | None] = []
    for sample in samples:
        key = (sample.image, sample.references)
        if key not in kept:
            kept[key] = _remaining(sample.references, form, rated[sample.image], once_a_rating)
        references = kept[key]
        if not references:
            failures.add(sample.id, "reference", "none is left once the rated captions are removed")
        same = references == sample.references
        result.append((sample if same else replace(sample, references=references)) if references else None)
    return result


def _remaining(
    references: tuple[str, ...], form: Callable[[str], str], rated: Counter[str], once_a_rating: bool
) -> tuple[str, ...]:
    left = Counter(rated)
    remaining: list[str] = []
    for reference in references:
        if left[form(reference)] == 0:
            remaining.append(reference)
        elif once_a_rating:
            left[form(reference)] -= 1
    return tuple(remaining)


def _letters_and_digits(text: str) -> str:
    # Marks are part of a letter: vowels of Hindi, accents written apart.
    return "".join(character for character in text.lower() if unicodedata.category(character)[0] in "LMN")
