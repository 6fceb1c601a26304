"""Nouns that are of one kind, by WordNet."""

from __future__ import annotations

from functools import lru_cache

from ....metrics.capture import wordnet

_PHYSICAL = frozenset({5, 6, 8, 11, 13, 15, 17, 18, 20, 27})
"""WordNet's lexicographer files of animals, artefacts, bodies, events, food, places, objects, persons, plants and
substances (lexnames(5WN))."""


class WordNetSisters:
    """Finds nouns beside a noun, by the first sense of both.

    Raises:
        MetricError: WordNet is missing or cannot be read.
    """

    def __init__(self) -> None:
        database = wordnet.load(wordnet.find())
        self.digest = database.digest
        self._index, self._data = database.index["noun"], database.data["noun"]

    @lru_cache(maxsize=50_000)  # noqa: B019 - one lives as long as the run
    def sisters(self, noun: str) -> tuple[tuple[str, ...], ...]:
        """Return the nouns below a noun's parents, and those below its grandparents; of what can be seen alone.

        Args:
            noun: A lemma; anything else has none.

        Returns:
            Those of the same lexicographer file whose own first sense it is, by letters.
        """
        sense = self._first_sense(noun)
        if sense is None or self._file(sense) not in _PHYSICAL:
            return ()
        parents = self._related(sense, "@")
        grandparents = [one for parent in parents for one in self._related(parent, "@")]
        return self._below(parents, sense), self._below(grandparents, sense)

    def _below(self, parents: list[str], sense: str) -> tuple[str, ...]:
        below = {one for parent in parents for one in self._related(parent, "~")} - {sense}
        alike = [one for one in below if self._file(one) == self._file(sense)]
        return tuple(sorted({n for one in alike for n in self._names(one) if self._first_sense(n) == one}))

    def _first_sense(self, lemma: str) -> str | None:
        line = self._index.get(lemma)
        if line is None:
            return None
        fields = line.split()
        return fields[-int(fields[2])]

    def _file(self, sense: str) -> int:
        return int(self._data[sense].split(maxsplit=2)[1])

    def _names(self, sense: str) -> list[str]:
        fields = self._data[sense].split()
        names = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        # Of a plural ("bars") there is no other plural, and no singular behind "a".
        return [
            one for one in names if one.isalpha() and one.islower() and (one[-1] != "s" or one[-2:] == "ss")
        ]

    def _related(self, sense: str, pointer: str) -> list[str]:
        """Return the senses that one points to; see wndb(5WN)."""
        fields = self._data[sense].partition("|")[0].split()
        first = 4 + 2 * int(fields[3], 16) + 1
        return [fields[at + 1] for at in range(first, len(fields) - 3, 4) if fields[at] == pointer]
