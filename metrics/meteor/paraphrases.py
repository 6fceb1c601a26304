"""METEOR's paraphrase table as arrays: a trie of phrases, and what each can stand for."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..mapped import mapped
from .sorted_words import Words

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES_A_PIECE = 1 << 24

# In the name of the cached file; raised when what is in it changes.
_VERSION = 2


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

    words: Words
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
        found = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[found] == wanted, found, -1)


def paraphrases_of(table: Path) -> Paraphrases:
    """Return the paraphrase table, from the cache if it is there."""
    with table.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        checksum = file.read().hex()  # a gzip file ends with the checksum and the size of its content
    arrays = mapped("meteor", f"paraphrases-{checksum}-{_VERSION}", lambda: build_paraphrases(table))
    return Paraphrases(Words(arrays["words"]), arrays["keys"], arrays["first"], arrays["targets"])


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
    split = pc.split_pattern(pc.utf8_rtrim(dictionary, "\n"), " ")  # pyright: ignore
    of_word = split.values.dictionary_encode()
    words, numbers = Words.of(of_word.dictionary.to_pylist())
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
