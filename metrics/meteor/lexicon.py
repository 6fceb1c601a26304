"""What METEOR's matchers know of words and texts: which words match which, and known phrases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from . import text as meteor_text
from .resources import Resources
from .stem import stem

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
"""The matchers, in the order in which they run."""

Phrase = tuple[int, int, int]
"""Where a phrase begins, how many words it has, and its node among the paraphrases."""


@dataclass(frozen=True)
class Text:
    """A caption as the matchers see it.

    Attributes:
        words: Word numbers of the lexicon.
        function_words: A bit for each word that is a function word.
        positions: Word number to where it is, ascending.
        phrases: Node to how many words that phrase has, and where it begins, ascending.
        sources: The phrases that have paraphrases, in order of place, then length.
    """

    words: tuple[int, ...]
    function_words: int
    positions: dict[int, list[int]]
    phrases: dict[int, tuple[int, list[int]]]
    sources: tuple[Phrase, ...]


class Lexicon:
    """Words seen so far, and what each matches; grows with the texts it is given.

    Args:
        resources: METEOR's tables.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._numbers: dict[str, int] = {}
        self._function_words: list[bool] = []
        self._phrase_words: list[int] = []
        self._keys: list[int] = []
        self._of_key: dict[int, list[int]] = {}
        self._of_stem: dict[int, list[int]] = {}
        self._of_synonym_set: dict[str, list[int]] = {}
        self.matches: list[dict[int, list[int]]] = []
        """For each word the words that match it, each with its matchers; those it has itself too."""
        self._paraphrases: dict[int, dict[int, int]] = {}

    def key(self, word: int) -> int:
        """Return by what words are compared; two words may share it."""
        return self._keys[word]

    def paraphrases(self, node: int) -> dict[int, int]:
        """Return the paraphrases of a phrase, each with its rank in the table."""
        found = self._paraphrases.get(node)
        if found is None:
            table = self._resources.paraphrases
            targets = table.targets[table.first[node] : table.first[node + 1]].tolist()
            found = self._paraphrases[node] = {target: rank for rank, target in enumerate(targets)}
        return found

    def read(self, texts: Sequence[str]) -> list[Text]:
        """Return texts as the matchers see them."""
        if not texts:
            return []
        words = [
            tuple(map(self._number, meteor_text.words(text, self._resources.prefixes))) for text in texts
        ]
        return [
            self._text(of_text, phrases) for of_text, phrases in zip(words, self._phrases(words), strict=True)
        ]

    def _text(self, words: tuple[int, ...], found: list[tuple[int, int, int, bool]]) -> Text:
        positions: dict[int, list[int]] = {}
        for position, word in enumerate(words):
            positions.setdefault(word, []).append(position)
        phrases: dict[int, tuple[int, list[int]]] = {}
        for start, length, node, _ in found:
            phrases.setdefault(node, (length, []))[1].append(start)
        return Text(
            words,
            sum(1 << position for position, word in enumerate(words) if self._function_words[word]),
            positions,
            phrases,
            tuple((start, length, node) for start, length, node, is_source in found if is_source),
        )

    def _phrases(self, texts: Sequence[tuple[int, ...]]) -> list[list[tuple[int, int, int, bool]]]:
        """Return the phrases of each text that the table knows, and whether it has paraphrases for them."""
        table = self._resources.paraphrases
        # One row of words, each text followed by a word that no phrase has.
        row = np.array(
            [self._phrase_words[word] if word >= 0 else -1 for text in texts for word in (*text, -1)]
        )
        sizes = np.array([len(text) + 1 for text in texts])
        starts, nodes = np.arange(len(row)), np.full(len(row), -1)
        levels: list[np.ndarray] = []
        while len(starts):
            words = row[starts + len(levels)]
            known = words >= 0
            starts, nodes = starts[known], table.extend(nodes[known], words[known])
            starts, nodes = starts[nodes >= 0], nodes[nodes >= 0]
            levels.append(np.stack([starts, np.full(len(starts), len(levels) + 1), nodes]))
        starts, lengths, nodes = np.concatenate(levels, axis=1)
        in_order = np.lexsort((lengths, starts))
        starts, lengths, nodes = starts[in_order], lengths[in_order], nodes[in_order]
        numbers = np.repeat(np.arange(len(texts)), sizes)[starts]
        within = starts - (np.cumsum(sizes) - sizes)[numbers]
        is_source = table.first[nodes] != table.first[nodes + 1]
        found = list(zip(within.tolist(), lengths.tolist(), nodes.tolist(), is_source.tolist(), strict=True))
        ends = np.searchsorted(numbers, np.arange(len(texts)), side="right").tolist()
        return [found[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _number(self, word: str) -> int:
        """Return the number of a word; a new one is compared with all others."""
        number = self._numbers.get(word)
        if number is None:
            number = self._numbers[word] = len(self._numbers)
            self._function_words.append(word in self._resources.function_words)
            self._phrase_words.append(self._resources.paraphrases.words.get(word, -1))
            self._keys.append(java_hash(word))
            self.matches.append({})
            self._add(number, self._of_key, [self._keys[number]], EXACT)
            self._add(number, self._of_stem, [java_hash(stem(word))], STEM)
            self._add(number, self._of_synonym_set, self._resources.synonyms.of(word), SYNONYM)
        return number

    def _add(self, new: int, words_of: dict, properties: Iterable[object], matcher: int) -> None:
        """Note which words share a property with a new one."""
        sharing: set[int] = set()
        for one in properties:
            words = words_of.setdefault(one, [])
            words.append(new)
            sharing.update(words)
        for word in sharing:
            # Words that are equal match as that alone.
            if matcher == EXACT or self._keys[word] != self._keys[new]:
                self.matches[new].setdefault(word, []).append(matcher)
                if word != new:
                    self.matches[word].setdefault(new, []).append(matcher)


def java_hash(text: str) -> int:
    """Return Java's hash of a string, by which the jar compares words: some differ and share it."""
    value = 0
    for unit in np.frombuffer(text.encode("utf-16-le"), "<u2").tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value
