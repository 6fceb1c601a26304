"""N-grams of tokenised captions as integer arrays, for the metrics that count them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from ..items import Items
from .ptb import tokenize_items

MAX_ORDER = 4

# Bounds on what is expanded at a time, so that memory does not grow with the number of items: words
# of references and of candidates (once a reference) a chunk, and n-grams numbered together.
_WORDS_PER_CHUNK = 100_000
_NGRAMS_PER_PASS = 200_000


@dataclass(frozen=True)
class NGrams:
    """The n-grams of all distinct texts of some items; ``t`` texts with ``w`` words in all.

    Attributes:
        ids: For n = 1..4, ``[w]`` int32: the number of the n-gram that starts at each word. Equal
            n-grams have equal numbers; undefined where the text ends before the n-gram does.
        sizes: For n = 1..4, how many numbers there are.
        words: The word of each number; none where there is no word at all.
        starts: ``[t]`` the first word of each text.
        lengths: ``[t]`` words in each text.
        candidate: ``[n]`` the text of each item's candidate.
        set_of_item: ``[n]`` the reference set of each item.
        references: Texts of all reference sets, one set after the other.
        set_starts: ``[s]`` the first reference of each set, in ``references``.
        set_sizes: ``[s]`` references in each set.
    """

    ids: tuple[np.ndarray, ...]
    sizes: tuple[int, ...]
    words: tuple[str, ...]
    starts: np.ndarray
    lengths: np.ndarray
    candidate: np.ndarray
    set_of_item: np.ndarray
    references: np.ndarray
    set_starts: np.ndarray
    set_sizes: np.ndarray

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return all that it holds as arrays of numbers, to be stored; ``from_arrays`` reads them."""
        words = "\n".join(self.words).encode("utf-8", "surrogatepass")
        return {
            **{f"ids_{order}": ids for order, ids in enumerate(self.ids, 1)},
            "sizes": np.array(self.sizes, dtype=np.int64),
            "words": np.frombuffer(words, dtype=np.uint8),
            "lengths": self.lengths,
            "candidate": self.candidate,
            "set_of_item": self.set_of_item,
            "references": self.references,
            "set_sizes": self.set_sizes,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> NGrams:
        """Return the n-grams that ``to_arrays`` gave."""
        words = arrays["words"].tobytes().decode("utf-8", "surrogatepass")
        lengths, set_sizes = arrays["lengths"], arrays["set_sizes"]
        return cls(
            ids=tuple(arrays[f"ids_{order}"] for order in range(1, MAX_ORDER + 1)),
            sizes=tuple(arrays["sizes"].tolist()),
            words=tuple(words.split("\n")) if words else (),
            starts=np.cumsum(lengths) - lengths,
            lengths=lengths,
            candidate=arrays["candidate"],
            set_of_item=arrays["set_of_item"],
            references=arrays["references"],
            set_starts=np.cumsum(set_sizes) - set_sizes,
            set_sizes=set_sizes,
        )

    def counts(self, texts: np.ndarray, order: int) -> Counts:
        """Count the n-grams of each of ``texts`` (``[m]`` text numbers).

        Args:
            texts: ``[m]`` numbers of texts; row ``i`` of the counts is ``texts[i]``.
            order: The n of n-gram, 1 to 4.
        """
        size = self.sizes[order - 1]
        of_text = np.maximum(self.lengths[texts] - (order - 1), 0)
        keys = np.repeat(np.arange(len(texts), dtype=np.int64) * size, of_text)
        keys += self.ids[order - 1][spans(self.starts[texts], of_text)]
        keys, counts = np.unique(keys, return_counts=True)
        return Counts(keys, counts, size)

    def chunks(self, items: np.ndarray) -> Iterator[Chunk]:
        """Cut items into pieces of bounded size, items of one reference set side by side.

        Args:
            items: Numbers of the items that are wanted; each must have a reference.
        """
        if not len(items):
            return
        items = items[np.argsort(self.set_of_item[items], kind="stable")]
        sets = self.set_of_item[items]
        set_of_reference = np.repeat(np.arange(len(self.set_sizes)), self.set_sizes)
        words_of_set = np.bincount(set_of_reference, self.lengths[self.references], minlength=len(self.set_sizes))
        cost = self.lengths[self.candidate[items]] * self.set_sizes[sets] + np.where(
            np.diff(sets, prepend=-1) != 0, words_of_set[sets], 0
        )
        piece = np.cumsum(cost) // _WORDS_PER_CHUNK
        for part in np.split(items, np.flatnonzero(np.diff(piece)) + 1):
            chunk_sets, set_of_item = np.unique(self.set_of_item[part], return_inverse=True)
            sizes = self.set_sizes[chunk_sets]
            yield Chunk(
                items=part,
                candidates=self.candidate[part],
                set_of_item=set_of_item,
                references=self.references[spans(self.set_starts[chunk_sets], sizes)],
                set_sizes=sizes,
                sets=chunk_sets,
            )


@dataclass(frozen=True)
class Chunk:
    """Some items, with sets and references numbered from 0.

    Attributes:
        items: ``[m]`` item numbers.
        candidates: ``[m]`` text numbers of the candidates.
        set_of_item: ``[m]`` set of each item, as an index into ``set_sizes``.
        references: ``[r]`` text numbers of the references of all sets, one set after the other.
        set_sizes: ``[s]`` references in each set.
        sets: ``[s]`` the sets' numbers among all.
    """

    items: np.ndarray
    candidates: np.ndarray
    set_of_item: np.ndarray
    references: np.ndarray
    set_sizes: np.ndarray
    sets: np.ndarray

    @property
    def set_starts(self) -> np.ndarray:
        """``[s]`` the first reference of each set."""
        return np.cumsum(self.set_sizes) - self.set_sizes

    @property
    def set_of_reference(self) -> np.ndarray:
        """``[r]`` the set of each reference."""
        return np.repeat(np.arange(len(self.set_sizes)), self.set_sizes)


@dataclass(frozen=True)
class Counts:
    """How often each n-gram occurs in each row; only what occurs is held.

    Attributes:
        keys: ``[k]`` ascending ``row * size + n-gram``.
        counts: ``[k]`` how often.
        size: How many n-grams have a number.
    """

    keys: np.ndarray
    counts: np.ndarray
    size: int

    @cached_property
    def rows(self) -> np.ndarray:
        """``[k]`` the row of each key."""
        return self.keys // self.size

    @cached_property
    def ngrams(self) -> np.ndarray:
        """``[k]`` the n-gram of each key."""
        return self.keys - self.rows * self.size

    def largest(self, group_of_row: np.ndarray) -> Counts:
        """Return, for groups of rows, each n-gram's largest count in a row of the group.

        Args:
            group_of_row: ``[rows]`` the group of each row.
        """
        keys, counts = sorted_with(group_of_row[self.rows] * self.size + self.ngrams, self.counts)
        last = np.flatnonzero(np.diff(keys, append=-1))
        return Counts(keys[last], counts[last], self.size)

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up keys (``[q]``): which are there (``[q]`` bool), and at which index (``[q]``)."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.keys[at] == keys, at


def ngrams_of(items: Items) -> NGrams:
    """Return the n-grams of items; the first metric that asks pays, the others share.

    Raises:
        MetricError: The texts could not be tokenised.
    """
    known = items.memo.get("ngrams")
    if known is None:
        known = items.memo["ngrams"] = _build(items)
    return known


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return ``starts[0], starts[0] + 1, ...`` (``lengths[0]`` of them), then those of span 1, ..."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def sorted_with(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return keys in their order, and beside each its value; values of equal keys are ascending.

    Args:
        keys: ``[m]`` integers, 0 or more.
        values: ``[m]`` integers, 0 or more.
    """
    bits = int(values.max(initial=0)).bit_length()
    if int(keys.max(initial=0)).bit_length() + bits > 63:
        order = np.lexsort((values, keys))
        return keys[order], values[order]
    # One number holds both: to sort those is several times as fast as to find an order.
    both = np.sort((keys << bits) | values)
    return both >> bits, both & ((1 << bits) - 1)


def distinct_with_numbers(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys in their order, and ``[m]`` the number of each key among them.

    Args:
        keys: ``[m]`` integers, 0 or more.
    """
    in_order, places = sorted_with(keys, np.arange(len(keys)))
    new = np.diff(in_order, prepend=-1) != 0
    numbers = np.empty(len(keys), np.int64)
    numbers[places] = np.cumsum(new) - 1
    return in_order[new], numbers


def _build(items: Items) -> NGrams:
    tokenized = tokenize_items(items)
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    candidate = np.fromiter(map(number.__getitem__, tokenized.candidates), dtype=np.int64)
    references = np.fromiter(map(number.__getitem__, chain.from_iterable(tokenized.reference_sets)), dtype=np.int64)
    set_sizes = np.fromiter(map(len, tokenized.reference_sets), dtype=np.int64)
    ids, sizes, words, lengths = _number_ngrams(list(number))
    return NGrams(
        ids=ids,
        sizes=sizes,
        words=words,
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        candidate=candidate,
        set_of_item=items.reference_sets[1],
        references=references,
        set_starts=np.cumsum(set_sizes) - set_sizes,
        set_sizes=set_sizes,
    )


def _number_ngrams(texts: Sequence[str]) -> tuple[tuple[np.ndarray, ...], tuple[int, ...], tuple[str, ...], np.ndarray]:
    """Return ``ids``, ``sizes``, ``words`` and ``lengths`` of ``NGrams`` for texts of tokens."""
    # str.split() without an argument, as pycocoevalcap does here: the jar joins "2 1/2" by a no-break
    # space, which makes two words for BLEU and CIDEr (and one for ROUGE-L, which splits at " ").
    lengths = np.fromiter((len(text.split()) for text in texts), dtype=np.int64, count=len(texts))
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    words = np.fromiter(
        map(number.__getitem__, chain.from_iterable(map(str.split, texts))), dtype=np.int32, count=int(lengths.sum())
    )
    ids, sizes = [words], [max(len(number), 1)]
    left = np.repeat(np.cumsum(lengths, dtype=np.int32), lengths)  # words from here to the text's end
    left -= np.arange(len(words), dtype=np.int32)
    for order in range(2, MAX_ORDER + 1):
        numbered, size = _number_longer(ids[-1], words, sizes[0], left >= order, order)
        ids.append(numbered)
        sizes.append(max(size, 1))
    return tuple(ids), tuple(sizes), tuple(number), lengths


def _number_longer(
    prefix: np.ndarray, words: np.ndarray, n_words: int, complete: np.ndarray, order: int
) -> tuple[np.ndarray, int]:
    """Number n-grams by their first n - 1 words (``prefix``, numbered already) and their last word.

    Args:
        prefix: ``[w]`` number of the (n-1)-gram that starts at each word.
        words: ``[w]`` number of each word.
        n_words: How many words have a number.
        complete: ``[w]`` whether an n-gram starts there, that is, ends within its text.
        order: The n.

    Returns:
        ``[w]`` int32 numbers, and how many there are.
    """
    numbered = np.zeros(len(words), dtype=np.int32)
    size = 0
    passes = 1 + len(words) // _NGRAMS_PER_PASS
    for one in range(passes):
        # Equal n-grams have the same first word, so they meet in one pass.
        at = np.flatnonzero(complete & (words % passes == one))
        keys = prefix[at].astype(np.int64) * n_words + words[at + order - 1]
        distinct, numbers = distinct_with_numbers(keys)
        numbered[at] = numbers + size
        size += len(distinct)
    return numbered, size
