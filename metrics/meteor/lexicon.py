"""What METEOR's matchers know of words and texts: which words match which, and known phrases."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from ..words.ngrams import concat_ranges
from . import text as meteor_text
from .resources import MeteorTables
from .stem import stem

# A table of this many bits in as many bytes tells most pairs apart, so that few keys are searched for.
_SLOTS = 1 << 24
# Comparisons at a time, so that memory does not grow with the length of texts.
_CELLS_AT_A_TIME = 1 << 21


@dataclass(frozen=True)
class Spans:
    """For each of ``p`` pairs of texts a part of one array.

    Attributes:
        array: Numbers of words, or of phrases, of texts one after the other.
        starts: ``[p]`` where the part of a pair begins.
        lengths: ``[p]`` how long it is.
    """

    array: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


class RelatedPlaces(NamedTuple):
    """Places that are related, in the order of pairs, then of the left place, then of the right one.

    Attributes:
        pair: ``[m]`` in which pair.
        left: ``[m]`` the place in the left array.
        right: ``[m]`` the place in the right array.
        at: ``[m]`` which key of the relation it is.
    """

    pair: np.ndarray
    left: np.ndarray
    right: np.ndarray
    at: np.ndarray


class WordRelation:
    """A relation between numbers.

    Args:
        keys: Ascending and distinct: ``left * size + right`` of related parts.
        size: All numbers are below it.
    """

    def __init__(self, keys: np.ndarray, size: int) -> None:
        self.keys = keys
        self._size = size
        self._rows = (np.arange(size) * size % _SLOTS).astype(np.int32)
        # Where two pairs share a byte, the keys decide.
        self._table = np.zeros(min(_SLOTS, size * size) + size, bool)
        left, right = np.divmod(keys, max(size, 1))
        self._table[self._rows[left] + right] = True

    def find(self, left: Spans, right: Spans) -> RelatedPlaces:
        """Return which left and right parts of the pairs are related."""
        blocks = [RelatedPlaces(*(np.empty(0, np.int64) for _ in RelatedPlaces._fields)), *self._blocks(left, right)]
        return RelatedPlaces(*map(np.concatenate, zip(*blocks, strict=True)))

    def _blocks(self, left: Spans, right: Spans) -> Iterator[RelatedPlaces]:
        places = concat_ranges(left.starts, left.lengths)
        pairs = np.repeat(np.arange(len(left.lengths)), left.lengths)
        rows = self._rows[left.array[places]]
        lengths = right.lengths[pairs]
        ends = np.cumsum(lengths)
        right_ids = right.array.astype(np.int32)
        cuts = np.flatnonzero(np.diff(ends // _CELLS_AT_A_TIME)) + 1
        for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(places)], strict=True):
            block = slice(start, stop)
            of_row = lengths[block]
            first = np.cumsum(of_row) - of_row
            # The place on the right of each cell is its number plus what its row adds to it.
            shift = (right.starts[pairs[block]] - first).astype(np.int32)
            there = np.repeat(shift, of_row)
            there += np.arange(len(there), dtype=np.int32)
            slot = np.repeat(rows[block], of_row)
            slot += right_ids[there]
            hits = np.flatnonzero(self._table[slot])
            row = np.searchsorted(first, hits, side="right") - 1 + start
            there = there[hits].astype(np.int64)
            keys = left.array[places[row]].astype(np.int64) * self._size + right_ids[there]
            at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            sure = self.keys[at] == keys
            yield RelatedPlaces(pairs[row[sure]], places[row[sure]], there[sure], at[sure])


def sorted_with(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return keys in ascending order, and the value of each; values of equal keys are ascending.

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


def sharing(members: np.ndarray, properties: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of members that share a property, both ways round and each with itself.

    Args:
        members: ``[m]`` numbers.
        properties: ``[m]`` a property of each; one member may be there more than once.
    """
    order = np.argsort(properties, kind="stable")
    members, properties = members[order], properties[order]
    first = np.flatnonzero(np.concatenate([[True], properties[1:] != properties[:-1]])[: len(properties)])
    sizes = np.diff(np.append(first, len(members)))
    counts = np.repeat(sizes, sizes)
    return np.repeat(members, counts), members[concat_ranges(np.repeat(first, sizes), counts)]


EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
"""The matchers, in the order in which they run."""

# All captions of COCO have 30,000 different words together.
_WORDS_KEPT = 500_000


@dataclass(frozen=True)
class WordMatches:
    """Which words match which.

    Attributes:
        relation: Of the words.
        matchers: A bit for each matcher that finds them, for each key of the relation.
    """

    relation: WordRelation
    matchers: np.ndarray


@dataclass(frozen=True)
class PhraseMatches:
    """Which phrases have which as paraphrases; phrases that are in no such pair are left out.

    Attributes:
        relation: Of the phrases, both ways round.
        rank: For each key of the relation, which of the paraphrases of the left phrase the right one is; or -1.
        rank_back: The same, of left and right turned around.
        first: ``[t + 1]`` where the phrases of each text begin, which are in order of place, then length.
        phrases: Their numbers.
        starts: Where they begin in their text.
        lengths: How many words they have.
    """

    relation: WordRelation
    rank: np.ndarray
    rank_back: np.ndarray
    first: np.ndarray
    phrases: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True)
class Texts:
    """``t`` captions as the matchers see them, words one after the other.

    Attributes:
        words: Numbers of words, from 0.
        starts: ``[t]`` the first word of each text.
        lengths: ``[t]`` words in each text.
        function_words: For each word how many function words stand before it in ``words``; and of all.
        word_matches: Which words match which.
        phrase_matches: Which phrases match which.
    """

    words: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    function_words: np.ndarray
    word_matches: WordMatches
    phrase_matches: PhraseMatches


class Lexicon:
    """Words seen so far, with all that is known of each; grows with the texts it is given. Threads may share it.

    Args:
        resources: METEOR's tables.
    """

    def __init__(self, resources: MeteorTables) -> None:
        self._resources = resources
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__
        self._is_function_word = np.empty(0, bool)
        self._phrase_words = np.empty(0, np.int64)
        self._keys = np.empty(0, np.int64)
        self._stems = np.empty(0, np.int64)
        self._first_set = np.zeros(1, np.int64)
        self._sets = np.empty(0, np.int32)

    def read(self, texts: Sequence[str]) -> Texts:
        """Return texts as the matchers see them."""
        words = [meteor_text.words(text, self._resources.prefixes) for text in texts]
        with self._lock:
            return self._read(words)

    def _read(self, words: Sequence[Sequence[str]]) -> Texts:
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        numbers = self._number(chain.from_iterable(words))
        seen = np.zeros(len(self._numbers), bool)
        seen[numbers] = True
        vocabulary = np.flatnonzero(seen)
        numbers = (np.cumsum(seen) - 1)[numbers]
        starts = np.cumsum(lengths) - lengths
        function_words = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(self._is_function_word[vocabulary][numbers], out=function_words[1:])
        return Texts(
            numbers,
            starts,
            lengths,
            function_words,
            self._word_matches(vocabulary),
            self._phrase_matches(self._phrase_words[vocabulary][numbers], starts, lengths),
        )

    def _number(self, words: Iterable[str]) -> np.ndarray:
        """Return the numbers of words."""
        if len(self._numbers) > _WORDS_KEPT:
            self._forget()
        n_known = len(self._numbers)
        numbers = np.fromiter(map(self._numbers.__getitem__, words), np.int64)
        new = list(islice(reversed(self._numbers), len(self._numbers) - n_known))[::-1]
        if new:
            self._add(new)
        return numbers

    def _add(self, words: Sequence[str]) -> None:
        """Look up the entries of new words."""
        resources = self._resources
        functions = [word in resources.function_words for word in words]
        self._is_function_word = np.append(self._is_function_word, functions)
        self._phrase_words = np.append(self._phrase_words, resources.paraphrases.words.find(words))
        self._keys = np.append(self._keys, [java_hash(word) for word in words])
        self._stems = np.append(self._stems, [java_hash(stem(word)) for word in words])
        sets = resources.synonyms.of(words)
        sizes = [len(of_word) for of_word in sets]
        self._first_set = np.append(self._first_set, self._first_set[-1] + np.cumsum(sizes))
        self._sets = np.concatenate([self._sets, *sets])

    def _word_matches(self, vocabulary: np.ndarray) -> WordMatches:
        """Return which words match; they are numbered by their places in the vocabulary."""
        size = len(vocabulary)
        keys, members = self._keys[vocabulary], np.arange(size)
        first = self._first_set[vocabulary]
        n_sets = self._first_set[vocabulary + 1] - first
        shared = {
            EXACT: sharing(members, keys),
            STEM: sharing(members, self._stems[vocabulary]),
            SYNONYM: sharing(np.repeat(members, n_sets), self._sets[concat_ranges(first, n_sets)]),
        }
        related, bits = [], []
        for matcher, (left, right) in shared.items():
            if matcher != EXACT:
                # Words that are equal match as that alone.
                different = keys[left] != keys[right]
                left, right = left[different], right[different]
            related.append(left * size + right)
            bits.append(np.full(len(left), 1 << matcher))
        related, at = distinct_with_numbers(np.concatenate(related))
        matchers = np.zeros(len(related), np.int64)
        np.bitwise_or.at(matchers, at, np.concatenate(bits))
        return WordMatches(WordRelation(related, size), matchers)

    def _phrase_matches(self, words: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> PhraseMatches:
        """Return the phrases of texts that have paraphrases in these texts, or are one."""
        table = self._resources.paraphrases
        places, sizes, of_phrase, known = self._phrases(words, starts + lengths, lengths)
        n_targets = table.first[known + 1] - table.first[known]
        sources = np.repeat(np.arange(len(known)), n_targets)
        ranks = np.arange(len(sources)) - np.repeat(np.cumsum(n_targets) - n_targets, n_targets)
        targets = table.targets[concat_ranges(table.first[known], n_targets)]
        is_known = np.zeros(len(table.keys), bool)
        is_known[known] = True
        there = is_known[targets]
        sources, targets, ranks = sources[there], np.searchsorted(known, targets[there]), ranks[there]
        # Numbered anew: most phrases match none.
        matching = np.zeros(len(known), bool)
        matching[sources] = matching[targets] = True
        number = np.cumsum(matching) - 1
        size = int(np.count_nonzero(matching))
        forth = number[sources] * size + number[targets]
        back = number[targets] * size + number[sources]
        # Of numpy, the like imports what takes longer than a small run's alignments.
        keys = np.sort(np.concatenate([forth, back]))
        is_new = np.ones(len(keys), bool)
        is_new[1:] = keys[1:] != keys[:-1]
        keys = keys[is_new]
        rank, rank_back = np.full((2, len(keys)), -1)
        rank[np.searchsorted(keys, forth)] = ranks
        rank_back[np.searchsorted(keys, back)] = ranks
        kept = np.flatnonzero(matching[of_phrase])
        kept = kept[np.lexsort((sizes[kept], places[kept]))]
        of_text = np.searchsorted(starts + lengths, places[kept], side="right")
        first = np.searchsorted(places[kept], np.append(starts, len(words)))
        return PhraseMatches(
            WordRelation(keys, size),
            rank,
            rank_back,
            first,
            number[of_phrase[kept]],
            places[kept] - starts[of_text],
            sizes[kept],
        )

    def _phrases(
        self, words: np.ndarray, ends: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the phrases of texts that the table knows.

        Args:
            words: Words of texts as the table numbers them, -1 for those that no phrase has.
            ends: ``[t]`` the ends of texts.
            lengths: ``[t]`` how long they are.

        Returns:
            ``[m]`` where a phrase begins, ``[m]`` how many words it has, and ``[m]`` which of the nodes it is; and
            the nodes, ascending.
        """
        table = self._resources.paraphrases
        n_words = len(table.words.sorted)
        stop = np.repeat(ends, lengths)
        places, nodes = np.arange(len(words)), np.full(len(words), -1)
        levels, known, n_known = [np.empty((3, 0), np.int64)], [np.empty(0, np.int64)], 0
        while len(places):
            length = len(levels)
            inside = places + length <= stop[places]
            places, nodes = places[inside], nodes[inside]
            last = words[places + length - 1]
            places, nodes, last = places[last >= 0], nodes[last >= 0], last[last >= 0]
            # Each is looked up once, in the order of the table, in which longer phrases come after shorter ones.
            wanted, of_place = distinct_with_numbers((nodes + 1) * n_words + last)
            entries = table.extend(wanted // n_words - 1, wanted % n_words)
            numbers = np.where(entries >= 0, np.cumsum(entries >= 0) - 1, -1)[of_place]
            places, nodes, numbers = (places[numbers >= 0], entries[of_place][numbers >= 0], numbers[numbers >= 0])
            levels.append(np.stack([places, np.full(len(places), length), numbers + n_known]))
            known.append(entries[entries >= 0])
            n_known += len(known[-1])
        return *np.concatenate(levels, axis=1), np.concatenate(known)


def java_hash(text: str) -> int:
    """Return Java's hash of a string, by which the jar compares words: some differ and share it."""
    value = 0
    for unit in np.frombuffer(text.encode("utf-16-le"), "<u2").tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value
