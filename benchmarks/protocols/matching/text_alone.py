"""What would be reached without a look at the image: a benchmark that leaks is seen to leak."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from ..job import CHANCE
from .documents import MatchEntry
from .image_text_hits import Ties, preferred

RULES = (CHANCE, "shorter", "longer", "words")
"""``chance``: a draw. ``shorter``, ``longer``: the caption with the fewest, the most characters is taken; these are
blind to what it says. ``words``: the caption is taken whose words, and pairs of neighbouring words, occur more often
in true than in false captions of the other images, on average over its words; this is blind to its length."""
_WORD = re.compile(r"\w+")


class TextAlone:
    """Tells of entries with negatives what rules count that see the texts alone.

    Args:
        entries: All of them; ``words`` of an entry is judged by those of other images.
        image_names: By document: what tells its image from others.
        ties: What it counts where captions and negatives are equal.
    """

    def __init__(self, entries: Sequence[MatchEntry], image_names: Mapping[str, str], ties: Ties) -> None:
        self._image_names = image_names
        self._ties: Ties = ties
        self._true, self._false = Counter[str](), Counter[str]()
        self._of_image: dict[str, list[MatchEntry]] = {}
        self._last: tuple[str, Counter[str], Counter[str]] | None = None
        for entry in entries:
            self._of_image.setdefault(image_names[entry.image], []).append(entry)
            self._true.update(_marks(entry.captions))
            self._false.update(_marks(entry.negatives))

    def credit(self, entry: MatchEntry) -> tuple[float, ...]:
        """Return what each of ``RULES`` counts for an entry."""
        own, rivals = len(entry.captions), len(entry.negatives)
        lengths = np.array([len(text) for text in entry.texts], dtype=np.float64)
        plausible = self._plausible(entry)
        return (
            1 / math.comb(own + rivals, own),
            *(preferred(one[:own], one[own:], self._ties) for one in (-lengths, lengths, plausible)),
        )

    def _plausible(self, entry: MatchEntry) -> np.ndarray:
        """Return ``[texts]`` mean log of how much oftener the marks of a text are in true captions elsewhere."""
        true, false = self._marks_of(self._image_names[entry.image])

        def rate(mark: str) -> float:
            # One is added to each, so that what occurs nowhere else says nothing.
            return math.log((self._true[mark] - true[mark] + 1) / (self._false[mark] - false[mark] + 1))

        rates = [[rate(mark) for mark in _marks([text])] for text in entry.texts]
        # Summed exactly: the same words in another order tie.
        return np.array([math.fsum(one) / len(one) for one in rates])

    def _marks_of(self, image: str) -> tuple[Counter[str], Counter[str]]:
        """Return how often each mark occurs in the true, and in the false captions of an image."""
        if self._last is None or self._last[0] != image:
            true, false = Counter[str](), Counter[str]()
            for one in self._of_image[image]:
                true.update(_marks(one.captions))
                false.update(_marks(one.negatives))
            self._last = image, true, false
        return self._last[1:]


def _marks(texts: Sequence[str]) -> Iterator[str]:
    """Yield the words of texts, and the pairs of neighbours; the ends of a text are neighbours, too."""
    for text in texts:
        words = _WORD.findall(text.lower())
        yield from words
        yield from (" ".join(pair) for pair in pairwise(["", *words, ""]))
