"""In how many rows of a corpus each n-gram occurs, counted a shard at a time, for CIDEr.

An n-gram is known by a hash of its words, so that shards that have never met can be added up. Two given n-grams
share a hash with odds of 2**-61 or less; among 10**8 different n-grams of a corpus the odds that any two do are 3 in
10,000, and then the frequency of each is that of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from ..contract import State
from ..items import Items
from .ngrams import MAX_ORDER, NGrams, ngrams_of

# Of the powers and sums of powers that tell n-grams apart, an odd number that is 3 modulo 8 cancels the fewest bits.
_BASE = np.uint64(0x9E3779B97F4A7C13)
_HIGHEST = 2**64 - 1


@dataclass(frozen=True)
class HashedNGrams:
    """N-grams that are numbered by their hashes: sums over the numbers come in one order, whatever the shard.

    Attributes:
        ngrams: The n-grams.
        hashes: For n = 1..4, ``[ngrams.sizes[n - 1]]`` uint64, ascending: the hash of each number.
    """

    ngrams: NGrams
    hashes: tuple[np.ndarray, ...]


def hashed_ngrams_of(items: Items) -> HashedNGrams:
    """Return the n-grams of items; whoever asks first pays, the others share.

    Raises:
        MetricError: The texts could not be tokenised.
    """
    known = items.memo.get("hashed ngrams")
    if known is None:
        known = items.memo["hashed ngrams"] = hash_ngrams(ngrams_of(items))
    return known


def hash_ngrams(ngrams: NGrams) -> HashedNGrams:
    """Return n-grams with their hashes, numbered by them."""
    of_word = np.array([_hash(word) for word in ngrams.words], dtype=np.uint64)[ngrams.ids[0]]
    left = np.repeat(ngrams.starts + ngrams.lengths, ngrams.lengths) - np.arange(len(of_word))
    found = of_word
    ids, hashes, words = [], [], ngrams.words
    for order in range(1, MAX_ORDER + 1):
        if order > 1:
            found = found * _BASE + np.roll(of_word, 1 - order)
        whole = left >= order
        of_number = np.zeros(ngrams.sizes[order - 1], dtype=np.uint64)
        of_number[ngrams.ids[order - 1][whole]] = found[whole]
        sequence = np.argsort(of_number)
        rank = np.empty(len(sequence), dtype=np.int32)
        rank[sequence] = np.arange(len(sequence), dtype=np.int32)
        ids.append(np.where(whole, rank.take(ngrams.ids[order - 1], mode="clip"), np.int32(0)))
        hashes.append(of_number[sequence])
        if order == 1:
            words = tuple(ngrams.words[number] for number in sequence.tolist()) if words else ()
    return HashedNGrams(replace(ngrams, ids=tuple(ids), words=words), tuple(hashes))


def frequencies_of(hashed: HashedNGrams, items: Items) -> tuple[list[np.ndarray], np.ndarray]:
    """Count the rows of a shard whose references hold each n-gram: none, where a candidate alone has it.

    Returns:
        For n = 1..4 ``[ngrams.sizes[n - 1]]`` float64 by the number of the n-gram; and ``[sets]`` how many rows have
        each set of references (``Items.reference_sets``).
    """
    ngrams = hashed.ngrams
    rows_of_set = np.bincount(ngrams.set_of_item, items.weights, minlength=len(ngrams.set_sizes))
    # One item a set is enough to go through all sets.
    sets, representatives = np.unique(ngrams.set_of_item, return_index=True)
    chosen = representatives[(ngrams.set_sizes[sets] > 0) & (rows_of_set[sets] > 0)]
    frequencies = [np.zeros(size) for size in ngrams.sizes]
    for chunk in ngrams.chunks(chosen):
        for order, frequency in enumerate(frequencies, 1):
            held = ngrams.counts(chunk.references, order).largest(chunk.set_of_reference)
            frequency += np.bincount(held.ngrams, rows_of_set[chunk.sets][held.rows], minlength=len(frequency))
    return frequencies, rows_of_set


def count_rows(hashed: HashedNGrams, items: Items) -> dict[str, np.ndarray]:
    """Count the rows of a shard whose references hold each of its n-grams, so that shards can be added up.

    Returns:
        ``ngrams`` ascending uint64 hashes, and for each the int64 ``frequencies``; ``rows [1]`` int64 in all; ``sets
        [2]`` uint64, the least and the greatest hash of a row's references, which are equal where all rows share them.
    """
    frequencies, rows_of_set = frequencies_of(hashed, items)
    of_sets = [
        _hash("\0".join(references))
        for references, rows in zip(items.reference_sets[0], rows_of_set.tolist(), strict=True)
        if rows
    ]
    hashes = np.concatenate(hashed.hashes)
    # A number that no n-gram has, as where no text is of four words, has no hash.
    own = hashes != 0
    return _added(
        hashes[own],
        np.concatenate(frequencies)[own].astype(np.int64),
        rows=int(items.weights.sum()),
        sets=(min(of_sets, default=_HIGHEST), max(of_sets, default=0)),
    )


def cut(state: State, parts: int) -> list[dict[str, np.ndarray]]:
    """Cut counts into parts by the top bits of the hashes; the rows are the first part's."""
    part_of_ngram = (state["ngrams"] >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
    ends = np.searchsorted(part_of_ngram, np.arange(parts + 1, dtype=np.uint64))
    none = count_of_nothing()
    return [
        {
            "ngrams": state["ngrams"][start:end],
            "frequencies": state["frequencies"][start:end],
            **{name: (none if part else state)[name] for name in ("rows", "sets")},
        }
        for part, (start, end) in enumerate(pairwise(ends.tolist()))
    ]


def add(states: Sequence[State]) -> dict[str, np.ndarray]:
    """Add up the counts of several shards, or of several parts."""
    states = [count_of_nothing(), *states]
    sets = np.stack([state["sets"] for state in states])
    return _added(
        np.concatenate([state["ngrams"] for state in states]),
        np.concatenate([state["frequencies"] for state in states]),
        rows=sum(int(state["rows"][0]) for state in states),
        sets=(int(sets[:, 0].min()), int(sets[:, 1].max())),
    )


def look_up(state: State, hashes: np.ndarray) -> np.ndarray:
    """Return ``[m]`` float64 how many rows have each n-gram.

    Args:
        state: Counts.
        hashes: ``[m]`` uint64; ascending ones are found fastest.
    """
    known, frequencies = state["ngrams"], state["frequencies"]
    if not len(known):
        return np.zeros(len(hashes))
    at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.where(known[at] == hashes, frequencies[at], 0).astype(np.float64)


def count_of_nothing() -> dict[str, np.ndarray]:
    """Return the counts of no row."""
    return _added(np.zeros(0, np.uint64), np.zeros(0, np.int64), rows=0, sets=(_HIGHEST, 0))


def _added(hashes: np.ndarray, frequencies: np.ndarray, rows: int, sets: tuple[int, int]) -> dict[str, np.ndarray]:
    """Return counts in which each hash stands once."""
    sequence = np.argsort(hashes)
    hashes, frequencies = hashes[sequence], frequencies[sequence]
    again = hashes[1:] == hashes[:-1]
    if again.any():
        first = np.flatnonzero(np.append(True, ~again))
        hashes, frequencies = hashes[first], np.add.reduceat(frequencies, first)
    return {
        "ngrams": hashes,
        "frequencies": frequencies,
        "rows": np.array([rows], dtype=np.int64),
        "sets": np.array(sets, dtype=np.uint64),
    }


def _hash(text: str) -> int:
    """Return 64 bits of a text, the same on every machine and run."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
