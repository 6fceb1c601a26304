"""METEOR's tables for English, read from the jar and the paraphrase table next to it.

The paraphrase table is 5 million lines of text: it is made into arrays once (some seconds), as are the
synonym sets, and these are kept in the user's cache folder. Nothing of the tables is part of this package.
"""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...downloads import Files
from ...paths import cache_folder
from ..java import find_jar
from ..mapped import mapped
from ..sources import sources
from .text import Prefixes, prefixes_of

if TYPE_CHECKING:
    import pyarrow as pa


JAR = "meteor/meteor-1.5.jar"
PARAPHRASES = "meteor/data/paraphrase-en.gz"


def fingerprint() -> dict[str, object]:
    """Return everything that can change the statistics: the jar that they equal, and its options."""
    return {"producer": "meteor statistics", "jar": JAR, "options": ["-", "-", "-stdio", "-l", "en", "-norm"]}


def check() -> None:
    """Raise if the jar or its paraphrase table, from which the tables are read, is missing.

    Raises:
        MetricError: One is missing; the hint says how to get it.
    """
    find_jar(JAR)
    find_jar(PARAPHRASES)


def resource() -> Files:
    """Return the files for ``bench fetch``."""
    return Files(sources()["meteor"], cache_folder(), check)


@dataclass(frozen=True)
class WordTable:
    """Words whose numbers are their places in the order of their bytes.

    Attributes:
        sorted: ``[words]`` UTF-8, ascending, as fixed-width bytes.
    """

    sorted: np.ndarray

    @classmethod
    def of(cls, words: Sequence[str]) -> tuple[WordTable, np.ndarray]:
        """Return words in their order, and ``[len(words)]`` the number of each one given; they are distinct."""
        encoded = np.array([word.encode() for word in words])
        order = np.argsort(encoded)
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        return cls(encoded[order]), numbers

    def find(self, words: Sequence[str]) -> np.ndarray:
        """Return ``[len(words)]`` their numbers, -1 for those that are not there."""
        encoded = [word.encode() for word in words]
        width = self.sorted.itemsize
        # What is longer than all that is there would be cut.
        wanted = np.array([word if len(word) <= width else b"" for word in encoded], self.sorted.dtype)
        at = np.minimum(np.searchsorted(self.sorted, wanted), len(self.sorted) - 1)
        return np.where(self.sorted[at] == wanted, at, -1)


SETS = "synonym/english.synsets"
EXCEPTIONS = "synonym/english.exceptions"

# Part of the cached file's name; raised when its content changes.
_SYNONYMS_VERSION = 1

# WordNet's rules of detachment (morphy): a suffix, and what stands in its place in the base form.
_DETACHMENTS = (
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")),
    *(("men", "man"), ("ies", "y"), ("s", ""), ("ies", "y"), ("es", "e"), ("es", "")),
    *(("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""), ("er", ""), ("est", "")),
    *(("er", "e"), ("est", "e")),
)


@dataclass(frozen=True)
class SynonymSets:
    """WordNet's synonym sets.

    Attributes:
        words: Words that have a set.
        first: ``[words + 1]`` where the sets of a word begin in ``sets``.
        sets: Numbers of sets.
        bases: Irregular form to its base forms.
    """

    words: WordTable
    first: np.ndarray
    sets: np.ndarray
    bases: Mapping[str, Sequence[str]]

    def of(self, words: Sequence[str]) -> list[np.ndarray]:
        """Return the synonym sets of each word and of its base forms; one may be there twice."""
        bases = [self.bases.get(word) for word in words]
        # Without a listed base form, what may be one by the rules, the likeliest first.
        forms = [
            (word, *(listed or (word.removesuffix(old) + new for old, new in _DETACHMENTS if word.endswith(old))))
            if listed or not (word.endswith("ss") or len(word) <= 2)
            else (word,)
            for word, listed in zip(words, bases, strict=True)
        ]
        numbers = iter(self.words.find(list(chain.from_iterable(forms))).tolist())
        sets = []
        for of_word, listed in zip(forms, bases, strict=True):
            itself, *others = (next(numbers) for _ in of_word)
            known = [form for form in others if form >= 0]
            # Of bases by rule the first one counts, of those that are listed all.
            taken = [form for form in (itself, *(known if listed else known[:1])) if form >= 0]
            sets.append(
                np.concatenate([np.empty(0, np.int32), *(self.sets[self.first[n] : self.first[n + 1]] for n in taken)])
            )
        return sets

    def of_form(self, word: str) -> np.ndarray:
        """Return the synonym sets of a word's surface form, without those of base forms."""
        (number,) = self.words.find([word]).tolist()
        return self.sets[self.first[number] : self.first[number + 1]] if number >= 0 else self.sets[:0]


def synonyms_of(jar: zipfile.ZipFile) -> SynonymSets:
    """Return the synonym sets of METEOR's jar, from the cache if they are there."""

    def build() -> dict[str, np.ndarray]:
        lines = jar.read(SETS).decode("utf-8").splitlines()
        return build_synonyms(dict(zip(lines[::2], lines[1::2], strict=True)))

    arrays = mapped("meteor", f"synonyms-{jar.getinfo(SETS).CRC:08x}-{_SYNONYMS_VERSION}", build)
    exceptions = jar.read(EXCEPTIONS).decode("utf-8").splitlines()
    bases: dict[str, list[str]] = {}
    for base, forms in zip(exceptions[::2], exceptions[1::2], strict=True):
        for form in forms.split():
            bases.setdefault(form, []).append(base)
    return SynonymSets(WordTable(arrays["words"]), arrays["first"], arrays["sets"], bases)


def build_synonyms(sets: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return the arrays of ``SynonymSets``.

    Args:
        sets: Word to the numbers of its sets, in a line.
    """
    words, numbers = WordTable.of(list(sets))
    of_word = [np.array(line.split(), np.int32) for line in sets.values()]
    in_order = [of_word[place] for place in np.argsort(numbers)]
    first = np.zeros(len(in_order) + 1, np.int32)
    np.cumsum([len(sets) for sets in in_order], out=first[1:])
    return {"words": words.sorted, "first": first, "sets": np.concatenate(in_order)}


_BYTES_A_PIECE = 1 << 24

# Part of the cached file's name; raised when its content changes.
_PARAPHRASES_VERSION = 2


@dataclass(frozen=True)
class Paraphrases:
    """Phrases and the phrases that mean the same.

    A phrase is a path through a trie. Node ``n`` has the key ``parent * len(words) + word``, with -1
    as the parent of a first word; nodes are numbered in the order of their keys.

    Attributes:
        words: The words of all phrases.
        keys: ``[nodes]`` ascending.
        first: ``[nodes + 1]`` where the paraphrases of a phrase begin in ``targets``.
        targets: Nodes of paraphrases, of one phrase in the order of the table.
    """

    words: WordTable
    keys: np.ndarray
    first: np.ndarray
    targets: np.ndarray

    def extend(self, nodes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the nodes of phrases made longer by a word, -1 where there is no such phrase.

        Args:
            nodes: ``[m]`` nodes, -1 for the empty phrase.
            words: ``[m]`` word numbers.
        """
        wanted = nodes * len(self.words.sorted) + words
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, at, -1)


def paraphrases_of(table: Path) -> Paraphrases:
    """Return the paraphrase table, from the cache if it is there."""
    with table.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        checksum = file.read().hex()  # a gzip file ends with the checksum and the size of its content
    arrays = mapped("meteor", f"paraphrases-{checksum}-{_PARAPHRASES_VERSION}", lambda: build_paraphrases(table))
    return Paraphrases(WordTable(arrays["words"]), arrays["keys"], arrays["first"], arrays["targets"])


def build_paraphrases(table: Path) -> dict[str, np.ndarray]:
    """Return the arrays of ``Paraphrases`` of a table: lines of probability, phrase and paraphrase in turn."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Piece by piece, as the text alone takes 300 MB; of each piece only phrases not met before are kept.
    pieces = pa.chunked_array([piece.dictionary_encode() for piece in _phrases(table)])
    phrases = pieces.unify_dictionaries()
    of_phrase = np.concatenate([piece.indices.to_numpy() for piece in phrases.chunks])
    dictionary = phrases.chunk(0).dictionary
    del pieces, phrases
    split = pc.split_pattern(pc.utf8_rtrim(dictionary, "\n"), " ")  # pyrefly: ignore[missing-attribute]
    of_word = split.values.dictionary_encode()
    words, numbers = WordTable.of(of_word.dictionary.to_pylist())
    keys, nodes = _trie(split.offsets.to_numpy(), numbers[of_word.indices.to_numpy()], len(numbers))
    sources, targets = nodes[of_phrase].reshape(-1, 2).T
    first = np.zeros(len(keys) + 1, np.int32)
    np.cumsum(np.bincount(sources, minlength=len(keys)), out=first[1:])
    return {
        "words": words.sorted,
        "keys": keys,
        "first": first,
        "targets": targets[np.argsort(sources, kind="stable")].astype(np.int32),
    }


def _phrases(table: Path) -> Iterator[pa.StringArray]:
    """Yield the phrases of a table, each before its paraphrase, with their line ends."""
    import pyarrow as pa

    rest = b""
    with gzip.open(table) as file:
        while piece := file.read(_BYTES_A_PIECE):
            text = np.frombuffer(rest + piece, np.uint8)
            ends = np.flatnonzero(text == ord("\n")) + 1
            ends = ends[: len(ends) // 3 * 3]
            rest = text[ends[-1] if len(ends) else 0 :].tobytes()
            lines = pa.StringArray.from_buffers(
                len(ends), pa.py_buffer(np.concatenate([[0], ends]).astype(np.int32)), pa.py_buffer(text)
            )
            yield lines.take(pa.array(np.arange(len(ends)).reshape(-1, 3)[:, 1:].ravel()))


def _trie(offsets: np.ndarray, words: np.ndarray, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys of a trie of phrases, and the node of each phrase.

    Args:
        offsets: ``[phrases + 1]`` where a phrase begins in ``words``.
        words: Word numbers.
        n_words: How many words there are.
    """
    lengths = np.diff(offsets)
    nodes = np.full(len(lengths), -1, np.int64)
    keys: list[np.ndarray] = []
    n_nodes = 0
    for depth in range(lengths.max()):
        longer = np.flatnonzero(lengths > depth)
        wanted = nodes[longer] * n_words + words[offsets[longer] + depth]
        level, of_phrase = np.unique(wanted, return_inverse=True)
        nodes[longer] = n_nodes + of_phrase
        n_nodes += len(level)
        keys.append(level)
    return np.concatenate(keys), nodes


@dataclass(frozen=True, eq=False)
class MeteorTables:
    """All tables.

    Attributes:
        prefixes: Abbreviations that keep their dot.
        function_words: Words that weigh less.
        synonyms: WordNet.
        paraphrases: The paraphrase table.
    """

    prefixes: Prefixes
    function_words: frozenset[str]
    synonyms: SynonymSets
    paraphrases: Paraphrases


def load() -> MeteorTables:
    """Return the tables of the installed pycocoevalcap; read once a process.

    Raises:
        MetricError: The jar or the paraphrase table is missing.
    """
    return load_from(find_jar(JAR), find_jar(PARAPHRASES))


@cache
def load_from(jar: Path, paraphrases: Path) -> MeteorTables:
    """Return the tables of a jar and a paraphrase table."""
    with zipfile.ZipFile(jar) as archive:
        prefixes, function_words = (
            archive.read(name).decode("utf-8").splitlines()
            for name in ("nonbreaking/english.prefixes", "function/english.words")
        )
        synonyms = synonyms_of(archive)
    return MeteorTables(prefixes_of(prefixes), frozenset(function_words), synonyms, paraphrases_of(paraphrases))
