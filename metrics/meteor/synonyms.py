"""WordNet's synonym sets, as METEOR's jar holds them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ..mapped import mapped
from .sorted_words import Words

SETS = "synonym/english.synsets"
EXCEPTIONS = "synonym/english.exceptions"

# In the name of the cached file; raised when what is in it changes.
_VERSION = 1

# WordNet's rules of detachment (morphy): a suffix, and what stands in its place in the base form.
_DETACHMENTS = (
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")),
    *(("men", "man"), ("ies", "y"), ("s", ""), ("ies", "y"), ("es", "e"), ("es", "")),
    *(("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""), ("er", ""), ("est", "")),
    *(("er", "e"), ("est", "e")),
)


@dataclass(frozen=True)
class Synonyms:
    """WordNet's synonym sets.

    Attributes:
        words: Words that have a set.
        first: ``[words + 1]`` where the sets of a word begin in ``sets``.
        sets: Numbers of sets.
        bases: Irregular form to its base forms.
    """

    words: Words
    first: np.ndarray
    sets: np.ndarray
    bases: Mapping[str, Sequence[str]]

    def of(self, words: Sequence[str]) -> list[np.ndarray]:
        """Return the synonym sets of each word and of its base forms; one may be there twice."""
        bases = [self.bases.get(word) for word in words]
        by_rule = [() if given else _bases_by_rule(word) for word, given in zip(words, bases, strict=True)]
        forms = [(word, *(given or rule)) for word, given, rule in zip(words, bases, by_rule, strict=True)]
        found = iter(self.words.find(list(chain.from_iterable(forms))).tolist())
        sets = []
        for of_word, given in zip(forms, bases, strict=True):
            itself, *others = (next(found) for _ in of_word)
            known = [form for form in others if form >= 0]
            # Of bases by rule the first one counts, of those that are listed all.
            taken = [form for form in (itself, *(known if given else known[:1])) if form >= 0]
            sets.append(
                np.concatenate(
                    [np.empty(0, np.int32), *(self.sets[self.first[n] : self.first[n + 1]] for n in taken)]
                )
            )
        return sets

    def of_form(self, word: str) -> np.ndarray:
        """Return the synonym sets of a word as it is written, without those of base forms."""
        (number,) = self.words.find([word]).tolist()
        return self.sets[self.first[number] : self.first[number + 1]] if number >= 0 else self.sets[:0]


def _bases_by_rule(word: str) -> list[str]:
    """Return what might be the base form of a word, the likeliest first."""
    if word.endswith("ss") or len(word) <= 2:
        return []
    return [
        word.removesuffix(suffix) + replacement
        for suffix, replacement in _DETACHMENTS
        if word.endswith(suffix)
    ]


def synonyms_of(jar: zipfile.ZipFile) -> Synonyms:
    """Return the synonym sets of METEOR's jar, from the cache if they are there."""

    def build() -> dict[str, np.ndarray]:
        lines = jar.read(SETS).decode("utf-8").splitlines()
        return build_synonyms(dict(zip(lines[::2], lines[1::2], strict=True)))

    arrays = mapped("meteor", f"synonyms-{jar.getinfo(SETS).CRC:08x}-{_VERSION}", build)
    exceptions = jar.read(EXCEPTIONS).decode("utf-8").splitlines()
    bases: dict[str, list[str]] = {}
    for base, forms in zip(exceptions[::2], exceptions[1::2], strict=True):
        for form in forms.split():
            bases.setdefault(form, []).append(base)
    return Synonyms(Words(arrays["words"]), arrays["first"], arrays["sets"], bases)


def build_synonyms(sets: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return the arrays of ``Synonyms``.

    Args:
        sets: Word to the numbers of its sets, in a line.
    """
    words, numbers = Words.of(list(sets))
    of_word = [np.array(line.split(), np.int32) for line in sets.values()]
    in_order = [of_word[place] for place in np.argsort(numbers)]
    first = np.zeros(len(in_order) + 1, np.int32)
    np.cumsum([len(one) for one in in_order], out=first[1:])
    return {"words": words.sorted, "first": first, "sets": np.concatenate(in_order)}
