"""What a captioner could write to please a metric, and no reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from .captions import ended
from .given import Change, Given, Unchanged
from .words import words_of


def blank(given: Given) -> str:
    """Say nothing."""
    return ""


def same_for_all(given: Given) -> str:
    """Say of every image what fits most of them."""
    return given.corpus.typical


def references(count: int) -> Change:
    """Return a change that says what the first so many references say, one after the other."""

    def change(given: Given) -> str:
        if len(given.references) < count:
            raise Unchanged(f"has fewer than {count} references")
        return " ".join(map(ended, given.references[:count])) if count > 1 else given.references[0]

    return change


def own(times: int) -> Change:
    """Return a change that says the caption so many times."""

    def change(given: Given) -> str:
        return " ".join([ended(given.text)] * times)

    return change


def typical(captions: Sequence[str], seen: Counter[str]) -> str:
    """Return the caption whose words are in most captions, on average, of those that are not short.

    Args:
        captions: All of them.
        seen: In how many captions each word occurs.
    """
    said = [words_of(caption) for caption in captions]
    least = median(map(len, said))

    def share(number: int) -> float:
        return sum(seen[word] for word in said[number]) / len(said[number])

    return captions[max((n for n in range(len(said)) if len(said[n]) >= least), key=share)]
