"""N-grams of tokenised captions as integer arrays, for the metrics that count them.

An n-gram is known by a hash of its words, so that shards that have never met can be added up. Two given n-grams
share a hash with odds of 2**-61 or less; among 10**8 different n-grams of a corpus the odds that any two do are 3 in
10,000, and then they count as one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, pairwise

import numpy as np

from ..items import Items
from .ptb import tokenize_items
from .tokenizers import PTB

MAX_ORDER = 4

# Of the powers and sums of powers that tell n-grams apart, an odd number that is 3 modulo 8 cancels the fewest bits.
_BASE = np.uint64(0x9E3779B97F4A7C13)

# Bounds on the items expanded at a time, so that memory does not grow with the number of items: words
# of references and of candidates (once a reference) a chunk, and n-grams numbered together.
_WORDS_PER_CHUNK = 100_000
_NGRAMS_PER_PASS = 200_000


@dataclass(frozen=True)
class NGrams:
    """The n-grams of all distinct texts of some items; ``t`` texts with ``w`` words in all.

    Attributes:
        ids: For n = 1..4, ``[w]`` int32: the number of the n-gram that starts at each word; 0 where the text ends
            before the n-gram does. Numbers have the order of hashes: sums over them have one order, regardless of
            the other n-grams.
        hashes: For n = 1..4, uint64, ascending: the hash of each number.
        lengths: ``[t]`` words in each text.
        candidate: ``[n]`` the text of each item's candidate.
        set_of_item: ``[n]`` the reference set of each item.
        references: Texts of all reference sets, one set after the other.
        set_sizes: ``[s]`` references in each set.
    """

    ids: tuple[np.ndarray, ...]
    hashes: tuple[np.ndarray, ...]
    lengths: np.ndarray
    candidate: np.ndarray
    set_of_item: np.ndarray
    references: np.ndarray
    set_sizes: np.ndarray

    def words_of_sets(self) -> np.ndarray:
        """Return ``[s]`` how many words the references of each set have."""
        ends = np.concatenate(([0], self.lengths[self.references])).cumsum()
        last = self.set_sizes.cumsum()
        return ends[last] - ends[last - self.set_sizes]

    def chunks(self, items: np.ndarray) -> Iterator[Chunk]:
        """Cut items into pieces of bounded size, items of one reference set side by side.

        Args:
            items: Numbers of the items that are wanted; each must have a reference.
        """
        if not len(items):
            return
        items = items[self.set_of_item[items].argsort(kind="stable")]
        sets = self.set_of_item[items]
        set_starts = self.set_sizes.cumsum() - self.set_sizes
        of_references = self.words_of_sets()[sets] * _differ_from_before(sets)
        cost = self.lengths[self.candidate[items]] * self.set_sizes[sets] + of_references
        piece = cost.cumsum() // _WORDS_PER_CHUNK
        for start, end in pairwise([*_differ_from_before(piece).nonzero()[0].tolist(), len(items)]):
            part = items[start:end]
            is_first = _differ_from_before(self.set_of_item[part])
            sets, set_of_item = self.set_of_item[part][is_first], is_first.cumsum() - 1
            sizes = self.set_sizes[sets]
            of_text = np.concatenate((np.arange(len(sets)).repeat(sizes), set_of_item))
            order = of_text.argsort(kind="stable")
            texts = np.concatenate((self.references[concat_ranges(set_starts[sets], sizes)], self.candidate[part]))
            is_candidate = order >= len(order) - len(part)
            yield Chunk(
                items=part,
                texts=texts[order],
                sets=of_text[order],
                is_candidate=is_candidate,
                candidates=is_candidate.nonzero()[0],
                set_sizes=sizes,
                set_starts=of_text[order].searchsorted(np.arange(len(sets))),
            )

    def count(self, chunk: Chunk, order: int) -> NGramCounts:
        """Count the n-grams of the texts of a chunk.

        Args:
            chunk: Some items.
            order: The n of n-gram, 1 to 4.
        """
        place = np.arange(len(chunk.texts)) - chunk.set_starts[chunk.sets]
        bits, place_bits = len(self.hashes[order - 1]).bit_length(), int(place.max()).bit_length()
        dtype = np.uint32 if len(chunk.set_sizes) << bits + place_bits <= 2**32 else np.uint64
        n_ngrams = np.maximum(self.lengths[chunk.texts] - (order - 1), 0)
        words = concat_ranges((self.lengths.cumsum() - self.lengths)[chunk.texts], n_ngrams)
        # One number holds set, n-gram and place: to sort those is several times as fast as to find an order.
        keys = self.ids[order - 1].take(words).astype(dtype)
        keys <<= place_bits
        keys |= (chunk.sets << bits + place_bits | place).astype(dtype).repeat(n_ngrams)
        keys.sort()
        is_first = _differ_from_before(keys)
        counts = np.diff(is_first.nonzero()[0].astype(np.int32), append=np.int32(len(keys)))
        keys = keys[is_first]
        texts = chunk.set_starts.astype(np.int32).take(keys >> bits + place_bits)
        texts += (keys & (1 << place_bits) - 1).astype(np.int32)
        keys >>= place_bits
        is_start = _differ_from_before(keys)
        keys &= (1 << bits) - 1
        return NGramCounts(counts, texts, keys.astype(np.int32), is_start)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return all that it holds as arrays of numbers, to be stored; ``from_arrays`` reads them."""
        ids = {f"ids_{order}": ids for order, ids in enumerate(self.ids, 1)}
        others = {name: array for name, array in vars(self).items() if name not in ("ids", "hashes")}
        return {**ids, "words": self.hashes[0], **others}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> NGrams:
        """Return the n-grams that ``to_arrays`` gave."""
        others = dict(arrays)
        ids = tuple(others.pop(f"ids_{order}") for order in range(1, MAX_ORDER + 1))
        hashes = [others.pop("words")]
        for numbers, (at, hashed) in zip(ids[1:], _longer(hashes[0][ids[0]], others["lengths"]), strict=True):
            hashes.append(np.zeros(int(numbers[at].max(initial=-1)) + 1, np.uint64))
            hashes[-1][numbers[at]] = hashed
        return cls(ids, tuple(hashes), **others)


@dataclass(frozen=True)
class Chunk:
    """Some items and their ``k`` texts, those of a set side by side: its references, then the candidates.

    Attributes:
        items: ``[m]`` item numbers.
        texts: ``[k]`` text numbers.
        sets: ``[k]`` the set of each text, numbered from 0.
        is_candidate: ``[k]`` whether a text is a candidate.
        candidates: ``[m]`` which of the texts is each item's candidate, ascending.
        set_sizes: ``[s]`` references of each set.
        set_starts: ``[s]`` which of the texts is its first reference.
    """

    items: np.ndarray
    texts: np.ndarray
    sets: np.ndarray
    is_candidate: np.ndarray
    candidates: np.ndarray
    set_sizes: np.ndarray
    set_starts: np.ndarray

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``[m]`` how many references items have; of each, ``[p]`` the item's place, ``[p]`` its text's."""
        of_item = self.sets[self.candidates]
        sizes = self.set_sizes[of_item]
        return sizes, np.arange(len(sizes)).repeat(sizes), concat_ranges(self.set_starts[of_item], sizes)


@dataclass(frozen=True)
class NGramCounts:
    """How often each n-gram occurs in each text of a chunk: ``e`` entries, in groups of one n-gram in one set's texts.

    Groups are in the order of sets, then of n-grams; entries of a group are in the order of texts, references first.

    Attributes:
        counts: ``[e]`` int32: how often; only what occurs is held.
        texts: ``[e]`` int32: in which text of the chunk.
        ngrams: ``[e]`` int32: the number of the n-gram.
        is_start: ``[e]`` whether it is the first of its group.
    """

    counts: np.ndarray
    texts: np.ndarray
    ngrams: np.ndarray
    is_start: np.ndarray


def ngrams_of(items: Items, tokenizer: str = PTB) -> NGrams:
    """Return the n-grams of items; the first metric that asks pays, the others share.

    Raises:
        MetricError: The texts could not be tokenised.
    """
    known = items.memo.get(f"ngrams {tokenizer}")
    if known is None:
        known = items.memo[f"ngrams {tokenizer}"] = _build(items, tokenizer)
    return known


def names_of(items: Items, tokenizer: str, order: int) -> list[str]:
    """Return the words of each n-gram of items, by its number."""
    ngrams, tokenized = ngrams_of(items, tokenizer), tokenize_items(items, tokenizer)
    texts = dict.fromkeys((*tokenized.candidates, *chain.from_iterable(tokenized.reference_sets)))
    names, ids = [""] * len(ngrams.hashes[order - 1]), iter(ngrams.ids[order - 1].tolist())
    for words in map(str.split, texts):
        for at, number in zip(range(len(words)), ids, strict=False):
            if at + order <= len(words):
                names[number] = " ".join(words[at : at + order])
    return names


def text_hash(text: str) -> int:
    """Return 64 bits of a text, the same on every machine and run."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def concat_ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return ``starts[0], starts[0] + 1, ...`` (``lengths[0]`` of them), then those of range 1, ..."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + (starts - (ends - lengths)).repeat(lengths)


def _build(items: Items, tokenizer: str) -> NGrams:
    tokenized = tokenize_items(items, tokenizer)
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    candidate = np.fromiter(map(number.__getitem__, tokenized.candidates), dtype=np.int64)
    references = np.fromiter(map(number.__getitem__, chain.from_iterable(tokenized.reference_sets)), dtype=np.int64)
    set_sizes = np.fromiter(map(len, tokenized.reference_sets), dtype=np.int64)
    # str.split() without an argument, as pycocoevalcap does here: the jar joins "2 1/2" by a no-break
    # space, which makes two words for BLEU and CIDEr (and one for ROUGE-L, which splits at " ").
    lengths = np.fromiter(map(len, map(str.split, number)), dtype=np.int64, count=len(number))
    word: defaultdict[str, int] = defaultdict()
    word.default_factory = word.__len__
    words = np.fromiter(
        map(word.__getitem__, chain.from_iterable(map(str.split, number))), dtype=np.int32, count=int(lengths.sum())
    )
    ranks, hashes = _numbered(np.array(list(map(text_hash, word)), dtype=np.uint64))
    ids, of_orders = [ranks[words]], [hashes]
    for at, hashed in _longer(hashes[ids[0]], lengths):
        numbers = np.zeros(len(words), dtype=np.int32)
        numbers[at], hashes = _numbered(hashed)
        ids.append(numbers)
        of_orders.append(hashes)
    return NGrams(tuple(ids), tuple(of_orders), lengths, candidate, items.reference_sets[1], references, set_sizes)


def _longer(of_word: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for n = 2..4 at which words of texts an n-gram begins, and its hash.

    Args:
        of_word: ``[w]`` the hash of each word.
        lengths: ``[t]`` words in each text.
    """
    left = lengths.cumsum(dtype=np.int32).repeat(lengths)  # words from here to the text's end
    left -= np.arange(len(of_word), dtype=np.int32)
    hashed = of_word
    for order in range(2, MAX_ORDER + 1):
        hashed = hashed[:-1] * _BASE + of_word[order - 1 :]
        at = (left[: len(hashed)] >= order).nonzero()[0]
        yield at, hashed[at]


def _numbered(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``[m]`` int32 the place of each hash among the distinct ones, and these, ascending."""
    numbers, distinct, size = np.empty(len(hashes), dtype=np.int32), [hashes[:0]], 0
    bits = (len(hashes) // _NGRAMS_PER_PASS).bit_length()
    part = (hashes >> np.uint64(64 - bits)).astype(np.uint16)
    in_parts, ends = part.argsort(kind="stable"), np.bincount(part, minlength=1 << bits).cumsum()
    for start, end in pairwise([0, *ends.tolist()]):
        at = in_parts[start:end]
        own = hashes[at]
        # One integer holds most of a hash and its place: to sort those is faster than to find an order.
        places = np.uint64((1 << len(own).bit_length()) - 1)
        keys = (own & ~places) | np.arange(len(own), dtype=np.uint64)
        keys.sort()
        order = (keys & places).astype(np.int64)
        in_order = own[order]
        if (in_order[1:] < in_order[:-1]).any():
            # Two of them differ in nothing but the bits that had to give way.
            order = own.argsort(kind="stable")
            in_order = own[order]
        is_first = _differ_from_before(in_order)
        of_own = np.empty(len(own), dtype=np.int32)
        of_own[order] = is_first.cumsum() + (size - 1)
        numbers[at] = of_own
        distinct.append(in_order[is_first])
        size += len(distinct[-1])
    return numbers, np.concatenate(distinct)


def _differ_from_before(values: np.ndarray) -> np.ndarray:
    """Return whether each value differs from the one before."""
    return np.concatenate(([True], values[1:] != values[:-1]))[: len(values)]
