"""METEOR's tables for English, read from the jar and the paraphrase table beside it.

The paraphrase table is 5 million lines of text: it is made into arrays once (some seconds) and these
are kept in the user's cache folder. Nothing of the tables is part of this package.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...drafts import written_whole
from ...paths import cache_folder
from ..java.jars import find_jar
from .jar import JAR, PARAPHRASES
from .text import Prefixes, prefixes_of

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_A_PIECE = 1 << 24

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
        sets: Word to the numbers of its sets, in a line.
        bases: Irregular form to its base forms.
    """

    sets: dict[str, str]
    bases: dict[str, list[str]]

    def of(self, word: str) -> frozenset[str]:
        """Return the synonym sets of a word and of its base forms."""
        forms = [word, *(self.bases.get(word) or [self._base(word)])]
        return frozenset(number for form in forms for number in self.sets.get(form, "").split())

    def _base(self, word: str) -> str:
        """Return the first base form by rule that has a synonym set."""
        if not word.endswith("ss") and len(word) > 2:
            for suffix, replacement in _DETACHMENTS:
                if word.endswith(suffix):
                    base = word.removesuffix(suffix) + replacement
                    if base in self.sets:
                        return base
        return word


@dataclass(frozen=True)
class Paraphrases:
    """Phrases and the phrases that mean the same.

    A phrase is a path through a trie. Node ``n`` has the key ``parent * len(words) + word``, with -1
    as the parent of a first word; nodes are numbered in the order of their keys.

    Attributes:
        words: Word to its number.
        keys: ``[nodes]`` ascending.
        first: ``[nodes + 1]`` where the paraphrases of a phrase begin in ``targets``.
        targets: Nodes of paraphrases, of one phrase in the order of the table.
    """

    words: dict[str, int]
    keys: np.ndarray
    first: np.ndarray
    targets: np.ndarray

    def extend(self, nodes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the nodes of phrases made longer by a word, -1 where there is no such phrase.

        Args:
            nodes: ``[m]`` nodes, -1 for the empty phrase.
            words: ``[m]`` word numbers.
        """
        wanted = nodes * len(self.words) + words
        found = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[found] == wanted, found, -1)


@dataclass(frozen=True)
class Resources:
    """All tables.

    Attributes:
        prefixes: Abbreviations that keep their dot.
        function_words: Words that weigh less.
        synonyms: WordNet.
        paraphrases: The paraphrase table.
    """

    prefixes: Prefixes
    function_words: frozenset[str]
    synonyms: Synonyms
    paraphrases: Paraphrases


def check() -> None:
    """Raise if the jar or the paraphrase table is missing.

    Raises:
        MetricError: One is missing; the hint says how to get it.
    """
    find_jar(JAR)
    find_jar(PARAPHRASES)


def load() -> Resources:
    """Return the tables of the installed pycocoevalcap; read once a process.

    Raises:
        MetricError: The jar or the paraphrase table is missing.
    """
    return load_from(find_jar(JAR), find_jar(PARAPHRASES))


@cache
def load_from(jar: Path, paraphrases: Path) -> Resources:
    """Return the tables of a jar and a paraphrase table."""
    with zipfile.ZipFile(jar) as archive:
        prefixes, function_words, synonym_sets, exceptions = (
            archive.read(name).decode("utf-8").splitlines()
            for name in (
                "nonbreaking/english.prefixes",
                "function/english.words",
                "synonym/english.synsets",
                "synonym/english.exceptions",
            )
        )
    bases: dict[str, list[str]] = {}
    for base, forms in zip(exceptions[::2], exceptions[1::2], strict=True):
        for form in forms.split():
            bases.setdefault(form, []).append(base)
    return Resources(
        prefixes=prefixes_of(prefixes),
        function_words=frozenset(function_words),
        synonyms=Synonyms(dict(zip(synonym_sets[::2], synonym_sets[1::2], strict=True)), bases),
        paraphrases=paraphrases_of(paraphrases),
    )


def paraphrases_of(table: Path) -> Paraphrases:
    """Return the paraphrase table, from the cache if it is there."""
    with table.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        checksum = file.read().hex()  # a gzip file ends with the checksum and the size of its content
    cached = cache_folder() / "meteor" / f"paraphrases-{checksum}-{_VERSION}.npz"
    arrays = _read_arrays(cached)
    if arrays is None:
        arrays = build_paraphrases(table)
        # Without a folder to write to, every process builds the arrays anew.
        with contextlib.suppress(OSError):
            _write_arrays(cached, arrays)
    words = arrays["words"].tobytes().decode("utf-8").split("\n")
    return Paraphrases(
        dict(zip(words, range(len(words)), strict=True)), arrays["keys"], arrays["first"], arrays["targets"]
    )


def _read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """Return the arrays of a file, or None if there is no such file or it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in ("words", "keys", "first", "targets")}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as draft, draft.open("wb") as file:
        np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


def build_paraphrases(table: Path) -> dict[str, np.ndarray]:
    """Return the arrays of ``Paraphrases`` of a table: lines of probability, phrase and paraphrase in turn.

    ``words`` is the bytes of the words, a line each.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # Piece by piece, as the text alone takes 300 MB; of each piece only phrases not met before are kept.
    pieces = pa.chunked_array([piece.dictionary_encode() for piece in _phrases(table)])
    phrases = pieces.unify_dictionaries()
    of_phrase = np.concatenate([piece.indices.to_numpy() for piece in phrases.chunks])
    dictionary = phrases.chunk(0).dictionary
    del pieces, phrases
    split = pc.split_pattern(pc.utf8_rtrim(dictionary, "\n"), " ")  # pyright: ignore
    words = split.values.dictionary_encode()
    keys, nodes = _trie(split.offsets.to_numpy(), words.indices.to_numpy(), len(words.dictionary))
    sources, targets = nodes[of_phrase].reshape(-1, 2).T
    first = np.zeros(len(keys) + 1, np.int32)
    np.cumsum(np.bincount(sources, minlength=len(keys)), out=first[1:])
    return {
        "words": np.frombuffer("\n".join(words.dictionary.to_pylist()).encode(), np.uint8),
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
